"""Next to every profile stands how well it was watched."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Locator, Page, expect
from ulid import ULID

from sidelight.stacks.folded import parse_folded
from sidelight.stacks.labels import Labels
from sidelight.stacks.window import Window
from tests.running import collector
from tests.web.conftest import Open
from tests.web.flame import boxes
from tests.web.profiles import AFTER, BEFORE, WELL, send, windows

LOW = replace(
    WELL,
    attempts=600,
    errors={"moved": 50, "slow": 10},
    other=2,
    truncated=4,
    reduced=("cpu", "cgroup"),
    paused_ns=2 * 10**9,
)
UNSAFE = replace(WELL, mode="nonblocking", reader="py-spy", stops=0, stopped_ns=0, longest_stop_ns=0)
FALLBACK = replace(UNSAFE, mode="command", sampler="py-spy 0.4.3", reader="", missing_states=("gil", "idle"))
POOL = "run (pool.py:3);task (pool.py:9) 40\nrun (pool.py:3);wait (threading.py:320);[idle] 160\n"
OTHERS = replace(WELL, stops=0, stopped_ns=0, longest_stop_ns=0)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a collector with services watched well, badly, in doubtful ways and by kind of thread."""
    folder = tmp_path_factory.mktemp("watched")
    with collector(folder, str(folder / "store")) as running:
        send(
            running.url,
            windows("mixed", "good", BEFORE, minutes_ago=30),
            windows("mixed", "unsafe", AFTER, minutes_ago=5, quality=UNSAFE),
            windows("low", "1", BEFORE, quality=LOW),
            windows("fallback", "1", BEFORE, quality=FALLBACK),
            by_thread("pool"),
        )
        yield running.url


def by_thread(service: str) -> Iterator[Window]:
    """Windows of a service's processes, each with one beside it for the threads that are not the main one."""
    for main in windows(service, "1", BEFORE, thread="main"):
        labels = Labels({**main.labels, "thread": "other"})
        yield main
        yield replace(main, id=str(ULID()), labels=labels, counts=parse_folded(POOL), quality=OTHERS)


def line(page: Page, at: int = 0) -> Locator:
    return page.locator("details.quality > summary").nth(at)


def said(page: Page, at: int = 0) -> list[str]:
    """The remarks of a quality line, read as text."""
    expect(line(page, at)).to_contain_text("coverage")
    return line(page, at).inner_text().removeprefix("Quality: ").split(" · ")


WELL_SAID = [
    "mode gil, own reader",
    "100 Hz",
    "coverage 100 %",
    "time lost 0.38 %, longest stop 210 µs",
]


@pytest.mark.parametrize("path", ["mixed", "mixed?view=table", "mixed/depth", "mixed?invert=1&type=wall"])
def test_a_profile_says_mode_coverage_and_time_lost(watched: str, open_page: Open, path: str) -> None:
    query = "query=version%3D%22good%22&from=-1h"
    page = open_page(f"{watched}/s/{path}{'&' if '?' in path else '?'}{query}")
    assert said(page) == WELL_SAID
    expect(page.locator("details.quality")).to_have_count(1)


@pytest.mark.parametrize("view", ["compare", "compare?view=sides", "compare?view=table", "depth"])
def test_each_side_of_a_comparison_says_its_own(watched: str, open_page: Open, view: str) -> None:
    sides = "a=version%3Agood&b=version%3Aunsafe"
    page = open_page(f"{watched}/s/mixed/{view}{'&' if '?' in view else '?'}{sides}")
    expect(page.locator("details.quality")).to_have_count(2)
    assert said(page, 0) == WELL_SAID
    assert said(page, 1)[0] == "⚠ mode nonblocking: stacks may be wrong, py-spy reader"
    why = (
        "A was sampled in mode gil, B in mode nonblocking: stacks of nonblocking are no match for the others'"
    )
    expect(page.locator(".doubts" if view == "depth" else ".verdict").first).to_contain_text(why)
    expect(page.locator(".doubts")).to_contain_text("Set --mode alike on both sides.")


def test_stacks_that_may_be_wrong_are_marked_in_words_wherever_they_are_drawn(
    watched: str, open_page: Open
) -> None:
    page = open_page(f"{watched}/s/mixed?query=version%3D%22unsafe%22")
    boxes(page)
    for place in (line(page), page.get_by_role("region", name="Timeline", exact=True)):
        expect(place.locator(".doubt").first).to_contain_text("stacks may be wrong")
    expect(page.get_by_role("list", name="Before you read this")).to_contain_text("stacks may be wrong")


def test_a_fallback_says_what_it_is_and_what_it_cannot_count(watched: str, open_page: Open) -> None:
    page = open_page(f"{watched}/s/fallback")
    assert said(page)[0] == "⚠ mode command: fallback"
    assert said(page)[3] == "time lost not counted"
    line(page).click()
    expect(page.locator("details.quality dd").first).to_contain_text("waiting threads not recorded")


def test_what_went_wrong_is_said_and_explained_when_the_line_is_opened(
    watched: str, open_page: Open, axe: str
) -> None:
    page = open_page(f"{watched}/s/low?type=wall")
    assert said(page) == [
        "mode gil, own reader",
        "100 Hz",
        "fewer ticks than asked for (CPU limit, CPU budget)",
        "⚠ coverage 54.0 % (low)",
        "time lost 0.38 %, longest stop 210 µs",
        "10.0 % of ticks failed",
        "1.9 % truncated",
        "1.0 % under (other)",
        "paused 12.0 s",
    ]
    line(page).focus()
    page.keyboard.press("Enter")
    expect(page.locator("details.quality dl")).to_contain_text("moved 300, slow 60")
    expect(page.locator("details.quality dt")).to_have_count(9)
    page.evaluate(axe)
    assert page.evaluate("axe.run({ resultTypes: ['violations'] }).then(found => found.violations)") == []


def test_the_timeline_says_coverage_and_time_lost_for_each_step(watched: str, open_page: Open) -> None:
    page = open_page(f"{watched}/s/low")
    timeline = page.get_by_role("region", name="Timeline", exact=True)
    expect(timeline.locator(".basis")).to_contain_text("coverage 54.0 %")
    expect(timeline.locator(".basis")).to_contain_text("time lost 0.38 %, longest stop 210 µs")
    timeline.get_by_text("Timeline as a table").click()
    cells = timeline.locator("tbody tr").first.locator("td").all_inner_texts()
    assert cells[-2:] == ["54.0 %", "0.38 %"]


def test_the_kind_of_thread_is_a_filter_that_picks_samples_and_not_time(
    watched: str, open_page: Open
) -> None:
    page = open_page(f"{watched}/s/pool?type=wall")
    assert said(page)[3] == "time lost 0.38 %, longest stop 210 µs"
    page.get_by_role("button", name="+ filter").click()
    page.get_by_label("Label", exact=True).select_option("thread")
    page.get_by_role("option", name="other").click()
    expect(page).to_have_url(re.compile("thread"))
    expect(page.locator(".basis").filter(has_text="sample").last).to_contain_text("1,200 samples")
    assert said(page)[3] == "time lost 0.38 %, longest stop 210 µs"
    assert any(box["name"].startswith("task") for box in boxes(page))
    assert not any(box["name"].startswith("handle") for box in boxes(page))
