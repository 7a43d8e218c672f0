"""Next to every profile stands how well it was watched. The words are tested without a browser."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import Open
from tests.web.flame import boxes
from tests.web.rules import violations_in_both_themes


def line(page: Page, at: int = 0) -> Locator:
    """The line of a side or of the depth page."""
    return page.locator("details.quality:not(.drop) > summary").nth(at)


def chip(page: Page) -> Locator:
    """The chip of a profile: what it says is on demand."""
    return page.locator(".drop.quality")


def remarks(page: Page) -> list[str]:
    """What the chip of a profile says when it is opened."""
    expect(chip(page)).to_contain_text("coverage")
    return chip(page).locator("dt").all_text_contents()


def said(page: Page, at: int = 0) -> list[str]:
    """The remarks of a quality line, read as text."""
    expect(line(page, at)).to_be_visible()
    expect(line(page, at)).to_contain_text("coverage")
    return line(page, at).inner_text().removeprefix("Quality: ").split(" · ")


WELL_SAID = [
    "mode gil, own reader",
    "100 Hz",
    "coverage 100 %",
    "overhead: paused 0.38 %, max 210 µs",
]


def test_profile_says_how_it_was_watched_in_every_view_and_marks_doubtful_stacks(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/mixed?query=version%3D%22good%22")
    assert remarks(page) == WELL_SAID
    page.get_by_role("radio", name="Table", exact=True).click()
    expect(page.locator(".panel table")).to_be_visible()
    assert remarks(page) == WELL_SAID
    page.get_by_role("link", name="Depth").click()
    expect(page.get_by_role("heading", name="Stack depth of mixed")).to_be_visible()
    assert said(page) == WELL_SAID
    expect(page.locator("details.quality")).to_have_count(1)
    # Stacks that may be wrong are marked wherever they are drawn.
    page.goto(f"{shop}/s/mixed?query=version%3D%22unsafe%22")
    boxes(page)
    expect(chip(page).locator("> summary")).to_have_text("⚠ Data quality: 2 warnings ▾")
    expect(chip(page).locator("dt .doubt")).to_contain_text("stacks may be wrong")
    page.get_by_role("button", name="Unfold the timeline").click()
    doubt = page.get_by_role("region", name="Timeline", exact=True).locator("> .basis .doubt")
    expect(doubt).to_contain_text("stacks may be wrong")
    notices = page.get_by_role("list", name="Before you read this")
    expect(notices).to_have_count(0)
    chip(page).locator("> summary").click()
    expect(notices).to_contain_text("Stacks may be wrong")
    page.goto(f"{shop}/s/fallback")
    said_of_fallback = remarks(page)
    assert (said_of_fallback[0], said_of_fallback[3]) == ("⚠ mode command: fallback", "overhead unknown")
    expect(chip(page).locator("dd").first).to_contain_text("waiting threads not recorded")


def test_each_side_of_a_comparison_says_its_own(shop: str, open_page: Open) -> None:
    why = (
        "A was sampled in mode gil, B in mode nonblocking: stacks of nonblocking are no match for the others'"
    )
    page = open_page(f"{shop}/s/mixed/compare?baseline=version%3Agood&comparison=version%3Aunsafe")
    for view in ("Graph", "Side by side", "Table", "Depth"):
        page.get_by_role("link" if view == "Depth" else "radio", name=view, exact=True).click()
        if view == "Depth":
            expect(page.get_by_role("heading", level=1)).to_contain_text("Stack depth")
        # The answer is there: what comes with it replaces what was opened before.
        expect(page.locator(".doubts")).to_contain_text("Set the same --mode on both sides.")
        expect(page.locator("details.quality")).to_have_count(2)
        for letter in "AB":
            page.get_by_label(f"Details of side {letter}").click()
            if letter == "A":
                assert said(page, 0) == WELL_SAID
        assert said(page, 1)[0] == "⚠ mode nonblocking: stacks may be wrong, py-spy reader"
        place = page.locator(".doubts" if view == "Depth" else ".verdict").first
        expect(place).to_contain_text(why)


def test_failures_are_explained_and_a_filter_by_thread_keeps_the_overhead(
    shop: str, open_page: Open, axe: str
) -> None:
    page = open_page(f"{shop}/s/low?type=wall")
    assert remarks(page) == [
        "mode gil, own reader",
        "100 Hz",
        "fewer ticks than requested (CPU limit, CPU budget)",
        "⚠ coverage 54.0 % (low)",
        "overhead: paused 0.38 %, max 210 µs",
        "10.0 % of ticks failed",
        "1.9 % truncated",
        "1.0 % under (other)",
        "preempted 12.0 s",
    ]
    chip(page).locator("> summary").focus()
    page.keyboard.press("Enter")
    expect(chip(page).locator("dl")).to_contain_text("moved 300, slow 60")
    expect(chip(page).locator("dt")).to_have_count(9)
    assert violations_in_both_themes(page, axe) == {}
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Unfold the timeline").click()
    timeline = page.get_by_role("region", name="Timeline", exact=True)
    basis = timeline.locator("> .basis")
    expect(basis).to_contain_text("coverage 54.0 %")
    expect(basis).to_contain_text("overhead: paused 0.38 %, max 210 µs")
    timeline.get_by_text("Timeline as a table").click()
    cells = timeline.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[-2:] == ["54.00 %", "0.38 %"]
    # A filter by thread selects samples and not overhead.
    page.goto(f"{shop}/s/pool?type=wall")
    assert remarks(page)[3] == "overhead: paused 0.38 %, max 210 µs"
    page.get_by_role("button", name="+ filter").click()
    page.get_by_label("Label", exact=True).select_option("thread")
    page.get_by_role("option", name="other").click()
    expect(page).to_have_url(re.compile("thread"))
    expect(page.locator(".quality .basis")).to_contain_text("1,200 samples")
    assert remarks(page)[3] == "overhead: paused 0.38 %, max 210 µs"
    assert any(box["name"].startswith("task") for box in boxes(page))
    assert not any(box["name"].startswith("handle") for box in boxes(page))
