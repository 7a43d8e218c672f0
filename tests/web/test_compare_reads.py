"""The compare page as somebody reads it: what is in view at once, and that its words make sentences."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import Open, Serve
from tests.web.flame import boxes, hover
from tests.web.found import Json, check, effect, judged, verdict
from tests.web.profiles import BEFORE, send, windows
from tests.web.test_verdict_page import SIDES, opened, region, said

ROW = 20
"""The pixels of a row of a flame graph."""
LOAD = check(
    "load",
    "differs",
    "warn",
    "A's processes used 0.095 CPU seconds per pod-second, B's 0.140: one side was busier, or costs more "
    "per request",
    "Give baseline_requests and comparison_requests, or the collector a --prometheus-url.",
)
SENTENCE = (
    "Not enough data to tell whether CPU time changed (95 % interval \N{MINUS SIGN}20.4 % to +279.7 %; "
    "0.168 → 0.332 seconds per pod-second): about 12 minutes more of both sides would show a change of 5 %."
)
HOLDERS = [
    {"function": name, "file": "app.py", "a": a, "b": b, "effect": effect(a, b, 0.02)}
    for name, a, b in (
        ("Checkout.handle", 0.107, 0.25),
        ("serve", 0.008, 0.009),
        ("run_forever", 0.007, 0.007),
    )
]


def full(**changes: Any) -> Json:
    """A verdict that says something about everything there is."""
    return verdict(
        **{
            "sentence": SENTENCE,
            "idle": effect(0.832, 0.668, 0.185),
            "roles": [
                {"thread": "main", "idle": effect(0.2, 0.1, 0.02)},
                {"thread": "other", "idle": effect(0.9, 0.9, 0.02)},
            ],
            "loop": {"busy": effect(0.128, 0.273, 0.169, "unclear"), "holders": HOLDERS},
            "checks": [check("mode", text="gil on both sides"), LOAD],
            **changes,
        }
    )


def warned(page: Page) -> Locator:
    return page.get_by_role("list", name="Before you compare").get_by_role("listitem")


def checks(page: Page) -> Locator:
    return page.locator("details.checks")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_sentence_a_warning_and_the_top_of_the_graph_are_seen_without_scrolling(
    shop: str, open_page: Open, theme: str
) -> None:
    page = opened(shop, open_page, full(), f"&theme={theme}", viewport={"width": 1280, "height": 800})
    assert boxes(page)
    expect(page.locator(".verdict")).to_be_in_viewport(ratio=1)
    expect(warned(page)).to_be_in_viewport(ratio=1)
    top = page.locator(".flame-scroll").evaluate("at => at.getBoundingClientRect().top")
    assert top + 3 * ROW <= 800
    assert page.evaluate("scrollY") == 0


def test_a_warning_is_a_line_with_what_differs_and_what_to_do_and_all_else_is_folded(
    shop: str, open_page: Open
) -> None:
    page = opened(shop, open_page, full())
    expect(warned(page)).to_have_text([f"load {LOAD['text']}. {LOAD['hint']}"])
    expect(checks(page).locator("summary")).to_have_text("Nothing else speaks against comparing them")
    assert checks(page).get_attribute("open") is None
    checks(page).locator("summary").click()
    expect(checks(page).locator("dt")).to_have_text(["mode", "measured"])
    expect(checks(page).locator("dd")).to_have_text(["gil on both sides", "in samples"])


def test_the_checks_say_by_what_the_whole_was_measured(shop: str, open_page: Open) -> None:
    method = {**verdict()["method"], "measured": "clock"}
    page = opened(shop, open_page, verdict(method=method, sampled=effect(0.12, 0.18, 0.01)))
    expect(warned(page)).to_have_count(0)
    summary = checks(page).locator("summary")
    expect(summary).to_have_text("Nothing speaks against comparing them; not known: load")
    summary.click()
    expect(checks(page).locator("dd").last).to_have_text(
        "the whole by the kernel's clock; samples of call paths add up to 120 ms/s → 180 ms/s"
    )


def test_what_keeps_sides_apart_is_said_once_with_what_to_do(shop: str, open_page: Open) -> None:
    text = "A command, B gil: the stacks of command are no match."
    mode = check("mode", "differs", "refuse", text, "Set --mode alike on both sides.")
    sentence = f"CPU time cannot be compared: {text}"
    page = opened(shop, open_page, full(sentence=sentence, direction="incomparable", checks=[mode, LOAD]))
    expect(warned(page)).to_have_text(
        ["mode Set --mode alike on both sides.", f"load {LOAD['text']}. {LOAD['hint']}"]
    )
    assert page.locator("main").inner_text().count(text) == 1


def test_of_a_side_without_windows_nothing_is_said_but_that(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?a=version%3Av1&b=version%3Agone")
    expect(page.locator(".verdict")).to_have_text("B has no windows here, so there is nothing to compare.")
    expect(page.get_by_role("region", name="Side B")).to_contain_text("No windows here.")
    assert boxes(page)
    expect(page.locator(".besides, .why, .changes, .checks")).to_have_count(0)
    assert "alike" not in page.locator("main").inner_text()


@pytest.mark.parametrize(
    ("way", "delta", "words"),
    [
        ("more", 1, ["Stacks are deeper in B", "Threads wait more in B", "The event loop is busier in B"]),
        (
            "less",
            -1,
            ["Stacks are shallower in B", "Threads wait less in B", "The event loop is less busy in B"],
        ),
        (
            "same",
            0,
            [
                "Stacks are as deep in B as in A",
                "Threads wait as much in B as in A",
                "The event loop is as busy in B as in A",
            ],
        ),
        (
            "unclear",
            -1,
            [
                "Whether stacks are shallower in B cannot be told yet",
                "Whether threads wait less in B cannot be told yet",
                "Whether the event loop is less busy in B cannot be told yet",
            ],
        ),
    ],
)
def test_what_else_differs_is_said_of_b(
    shop: str, open_page: Open, way: str, delta: int, words: list[str]
) -> None:
    found = effect(0.4, 0.4 + 0.1 * delta, 0.05, way)
    page = opened(
        shop, open_page, full(depth={"mean": found}, idle=found, loop={"busy": found, "holders": []})
    )
    assert [one.split(":")[0] for one in said(page)] == words


@pytest.mark.parametrize(
    ("share", "paths", "words"),
    [
        (0.8, 1, "80 % of it comes from one call path: f0 ▲ +40.0 ms/s (80 %)"),
        (0.99, 2, "99 % of it comes from 2 call paths: f0 ▲ +40.0 ms/s (80 %) f1 ▲ +40.0 ms/s (80 %)"),
        (1.4, 2, "It comes from 2 call paths: f0 ▲ +40.0 ms/s (80 %) f1 ▲ +40.0 ms/s (80 %)"),
        (None, 1, "These moved, though: f0 ▲ +40.0 ms/s"),
    ],
)
def test_where_a_change_comes_from_reads_on_from_the_sentence(
    shop: str, open_page: Open, share: float | None, paths: int, words: str
) -> None:
    found = [
        {"names": ["main (app.py)", f"f{at} (app.py)"], "delta": 0.04, "share": 0.8} for at in range(paths)
    ]
    page = opened(shop, open_page, full(explanation={"share": share, "paths": found, "functions": []}))
    assert re.sub(r"\s+", " ", region(page).locator(".why").inner_text()) == words


def test_a_verdict_of_another_hour_shows_a_with_the_load_of_that_hour(shop: str, open_page: Open) -> None:
    # B took 160 ms/s and A 110, which in the busier hour of B are 220.
    method = {**verdict()["method"], "expected": 2.1, "expected_sampled": 2.0}
    found = full(method=method, sampled=effect(0.22, 0.16, 0.01), sentence="B takes less.")
    page: Page = open_page(f"{shop}/services")
    judged(page, found, ("query", "render"))
    page.goto(f"{shop}/s/shop/compare?{SIDES}")
    note = page.locator(".norm")
    expect(note).to_contain_text("A is shown with the load expected at B's time (+100.0 %).")
    query = hover(page, "query")
    assert "120 ms/s · 54.55 %" in query
    assert "60.0 ms/s · 37.50 %" in query
    assert "▼ takes less time in B (\N{MINUS SIGN}50.0 %)" in query
    page.get_by_role("button", name="Raw differences").click()
    expect(note).not_to_contain_text("expected")
    assert "60.0 ms/s · 54.55 %" in hover(page, "query")


def test_a_verdict_per_request_colours_a_graph_per_request(shop: str, open_page: Open) -> None:
    # B took 160 ms/s and A 110, for twice as many requests: as much as 80.
    method = {**verdict()["method"], "unit": "request"}
    found = full(method=method, sampled=effect(0.0011, 0.0008, 0.0001), sentence="B takes less.")
    page: Page = open_page(f"{shop}/services")
    judged(page, found, ("query", "render"))
    page.goto(f"{shop}/s/shop/compare?{SIDES}")
    expect(page.locator(".norm")).to_contain_text("B is shown as if it had served as many requests as A.")
    query = hover(page, "query")
    assert "60.0 ms/s · 54.55 %" in query
    assert "30.0 ms/s · 37.50 %" in query
    assert "▼ takes less time in B (\N{MINUS SIGN}50.0 %)" in query
    assert "▲ takes more time in B (+50.0 %)" in hover(page, "render")
    page.get_by_role("button", name="Share of side").click()
    expect(page.locator(".norm")).not_to_contain_text("requests")


def test_where_deploys_are_off_nothing_is_asked_of_them(serve: Serve, open_page: Open) -> None:
    asked = "() => performance.getEntriesByType('resource').map(({ name }) => name)"
    for options, times in ((("--no-deploys",), 0), ((), 1)):
        running = serve(*options)
        send(running.url, windows("shop", "v1", BEFORE))
        # A 404 would be an error in the browser's console, which fails the test.
        page = open_page(running.url)
        expect(page.get_by_role("link", name="shop", exact=True)).to_be_visible()
        page.goto(f"{running.url}/s/shop")
        assert boxes(page)
        page.wait_for_load_state("networkidle")
        assert sum("/api/v1/deploys" in name for name in page.evaluate(asked)) == times
        running.running.end()
