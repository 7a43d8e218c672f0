"""Comparing two sides: what differs, where it starts, what it is based on, and what its sides can be.

The words of verdicts are tested without a browser (`web/test/verdictText.test.ts`, `renderedText.test.ts`).
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.processes import eventually
from tests.web.conftest import KEEP_PREFETCHED, Open
from tests.web.flame import box, boxes, click, hover, outline, point, widths
from tests.web.found import Json, check, columns, culprit, effect, judged, verdict
from tests.web.profiles import HOSTILE_SERVICE
from tests.web.rules import assert_fits, small_controls, violations_in_both_themes

SIDES = "baseline=version%3Av1&comparison=version%3Av2&basis=equal_load"
GREY = "#c9ccd3"
PALE = "#ebecf0"
MINUS = "\N{MINUS SIGN}"
INTO = "\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}"
ROW = 20
"""The pixels of a row of a flame graph."""
HOSTILE = "<img src=x onerror=alert(1)>\u202e;\N{GRINNING FACE}" + "x" * 2000
OVERLAP: Json = {
    "action": "compare_overlap",
    "label": "Compare 22:41, while both ran",
    "parameters": {"baseline_from": "2026-11-20T22:41:00Z", "comparison_from": "2026-11-20T22:41:00Z"},
}
REQUESTS: Json = {
    "action": "enter_requests",
    "label": "Enter request counts",
    "parameters": {"baseline_requests": "", "comparison_requests": ""},
}
LOAD = check("load", "mismatch", "warn", "A's processes used less CPU than B's", "Count the requests.")
HOLDERS = [
    {"function": name, "file": "app.py", "baseline": a, "comparison": b, "effect": effect(a, b, 0.02)}
    for name, a, b in (("Checkout.handle", 0.107, 0.25), ("serve", 0.008, 0.009))
]


def full(**changes: Any) -> Json:
    """A verdict that says something about everything there is."""
    rows = [culprit(name, "jinja2/runtime.py") for name in ("render", "loop", "walk", "join", "escape", "up")]
    for at, row in enumerate(rows):
        row["names"] = [*row["names"], f"at{at} (a.py)"] if at else row["names"]
    return verdict(
        **{
            "idle": effect(0.832, 0.668, 0.185),
            "thread_kinds": [
                {"thread": "main", "idle": effect(0.2, 0.1, 0.02)},
                {"thread": "other", "idle": effect(0.9, 0.9, 0.02)},
            ],
            "loop": {"busy": effect(0.128, 0.273, 0.169, "inconclusive"), "blockers": HOLDERS},
            "checks": [check("mode", text="gil on both sides"), {**LOAD, "remedy": REQUESTS}],
            "culprits": {"share": 0.9, "rows": rows},
            **changes,
        }
    )


def opened(
    shop: str,
    open_page: Open,
    found: Json | None,
    more: str = "",
    names: tuple[str, ...] = ("render",),
    unjudged: tuple[str, ...] = (),
    path: str = f"shop/compare?{SIDES}",
    **options: Any,
) -> Page:
    """A comparison, of the shop's versions by default, answered with this verdict."""
    page: Page = open_page("about:blank", **options)
    judged(page, found, names, unjudged)
    page.goto(f"{shop}/s/{path}{more}")
    expect(page.locator(".verdict")).to_be_visible()
    expect(page.locator(".verdict")).not_to_have_text("Loading the comparison…")
    return page


def region(page: Page) -> Locator:
    return page.get_by_role("region", name="Verdict")


def card(page: Page) -> Locator:
    return region(page).locator(".verdict")


def culprits(page: Page) -> Locator:
    return page.locator(".culprits tbody tr")


def coloured(page: Page) -> set[str]:
    return {
        each["name"].split(" ")[0].lstrip("▲▼ ") for each in boxes(page) if each["fill"] not in (GREY, PALE)
    }


def given(page: Page) -> dict[str, str]:
    return {
        name: values[0] for name, values in parse_qs(urlsplit(page.evaluate("location.href")).query).items()
    }


def texts(found: Locator) -> list[str]:
    return [re.sub(r"\s+", " ", text).strip() for text in found.all_inner_texts()]


def cells(page: Page, function: str) -> list[str]:
    row = page.locator(".panel tbody tr").filter(has_text=function)
    expect(row).to_have_count(1)
    return texts(row.locator("td:not(.meter)"))


def opened_panel(page: Page, name: str) -> Locator:
    """The text behind a button, opened."""
    summary = page.locator("summary").filter(has_text=name)
    summary.click()
    return summary.locator("xpath=..").locator(".choices")


def side_panel(page: Page, letter: str) -> Locator:
    page.get_by_label(f"Details of side {letter}").click()
    return page.get_by_role("region", name=f"Side {letter}").locator(".choices")


# Real verdicts


def test_three_clicks_lead_from_the_front_page_to_the_changed_functions(shop: str, open_page: Open) -> None:
    page = open_page("about:blank")
    page.add_init_script(KEEP_PREFETCHED)
    page.goto(shop)
    page.get_by_role("link", name="pay", exact=True).click()
    asked: list[str] = []

    def note(route: Route) -> None:
        asked.append(route.request.url)
        route.continue_()

    page.route("**/api/v1/compare?**", note)
    page.get_by_role("link", name="Compare with previous version").hover()
    page.mouse.down()
    # Playwright reports routes only during a call of the page.
    eventually("it is asked while the button is pressed", lambda: page.title() and len(asked) == 1)
    page.mouse.up()
    expect(card(page)).to_contain_text("▲ CPU +89.9 %")
    assert len(asked) == 1, "pressing the link asks once"
    assert given(page) == {}, "sides and times are the collector's choice"
    expect(page.get_by_label("Version of side A")).to_have_value("version:v1")
    expect(page.get_by_label("Version of side B")).to_have_value("version:v2")
    links = culprits(page).get_by_role("link")
    assert texts(links) == [f"work {INTO} parse", "price"]
    links.first.click()
    expect(page.locator(".chosen strong")).to_contain_text("work (")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    assert boxes(page)[0]["name"].startswith("work "), "the frame is the first row"
    callers = page.get_by_role("toolbar", name="Callers of these frames")
    assert texts(callers.get_by_role("button")) == ["▸ 2 frames", "total", "main"]
    callers.get_by_role("button", name="2 frames").click()
    eventually("the callers are rows", lambda: outline(page)[:2] == ["0 total", "1 main (app.py)"])


def test_differential_graph_shows_each_call_path_by_rate_or_share(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    assert outline(page) == [
        "0 cached (shop/cache.py)",
        "0 legacy (shop/old.py)",
        "0 query (shop/db.py)",
        "0 render (jinja2/runtime.py)",
        "1 loop (jinja2/runtime.py)",
    ]
    drawn = {each["name"].split(" ")[0]: each for each in boxes(page)}
    assert {name: each["hatch"] for name, each in drawn.items() if each["hatch"]} == {
        "cached": "new",
        "legacy": "removed",
        "loop": "new",
    }
    assert drawn["query"]["fill"] == GREY
    whole = sum(each["width"] for name, each in drawn.items() if name != "loop")
    parts = {name: round(270 * each["width"] / whole) for name, each in drawn.items()}
    assert {name: parts[name] for name in ("query", "legacy", "cached", "render")} == {
        "query": 120,
        "legacy": 30,
        "cached": 40,
        "render": 80,
    }, "widths are the mean of both sides"
    told = hover(page, "render")
    assert "20.0 m/pod · 18.18 % · 1.20 s · 120 samples" in told
    assert "60.0 m/pod · 37.50 % · 3.60 s · 360 samples" in told
    assert "▲ takes more time in B (+200.0 %)" in told
    assert "slower" not in page.locator("main").inner_text()
    expect(card(page)).to_contain_text("110 → 160 m/pod")
    assert [row.split(" shop")[0] for row in texts(culprits(page).get_by_role("rowheader"))] == [
        f"▲ handle {INTO} render {INTO} loop",
        "▲ cached",
        "▼ legacy",
        f"▼ handle {INTO} render",
    ]
    assert texts(culprits(page).nth(2).locator("td"))[:3] == [f"{MINUS}30 m", "60 %", "removed"]
    # Widths are rates or shares as the basis needs, unless they are chosen.
    norms = page.get_by_role("radiogroup", name="Normalise by").get_by_role("radio")
    pressed = page.get_by_role("radiogroup", name="Normalise by").locator("[aria-checked=true]")
    legend = page.locator(".legend.change")
    expect(norms).to_have_text(["Per pod", "% of total"])
    expect(pressed).to_have_text("Per pod")
    expect(legend).to_contain_text("colour: change per pod")
    norms.nth(1).click()
    expect(pressed).to_have_text("% of total")
    assert "A total\n54.55 % · 3.60 s" in hover(page, "query")
    page.get_by_role("radio", name="Table", exact=True).click()
    assert cells(page, "legacy")[2] == f"▼ {MINUS}27.27"
    page.go_back()
    page.go_back()
    expect(pressed).to_have_text("Per pod")
    page.get_by_label("What is compared").select_option("composition")
    expect(pressed).to_have_text("% of total")
    expect(legend).to_contain_text("colour: change of share")
    assert given(page)["basis"] == "composition"
    assert "norm" not in given(page)


def test_side_by_side_links_pointer_search_and_zoom_at_one_scale(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    page.get_by_role("radio", name="Side by side").click()
    assert "0 legacy (shop/old.py)" in outline(page, 0)
    assert "0 legacy (shop/old.py)" not in outline(page, 1)
    assert "0 cached (shop/cache.py)" in outline(page, 1)

    def query_pixels() -> list[int]:
        return [round(box(page, "query", side)["width"]) for side in (0, 1)]

    eventually("what did not change is as wide on both sides", lambda: len(set(query_pixels())) == 1)
    page.get_by_role("radio", name="% of total").click()
    eventually("each side fills its width", lambda: len(set(query_pixels())) == 2)
    assert "A total" in hover(page, "query", 0)
    pixels = """at => { const [x, y] = [at.width / 2, 10 * at.height / at.clientHeight];
        return [...at.getContext('2d').getImageData(x, y, 1, 1).data] }"""
    assert page.locator(".flame canvas").nth(1).evaluate(pixels)
    page.locator("#search").fill("query")
    eventually("both sides mark the hit", lambda: all(box(page, "query", side)["hit"] for side in (0, 1)))
    whole = query_pixels()
    click(page, "render", 1)
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    for side in (0, 1):
        eventually(
            "both sides zoom", lambda side=side: not any("query" in line for line in outline(page, side))
        )
    # The wheel zooms both.
    page.keyboard.press("Escape")
    page.locator("#search").fill("")
    eventually("all is in view", lambda: query_pixels() == whole)
    before = widths(page, 0), widths(page, 1)
    x, y = point(page, "query", 0)
    page.mouse.move(x, y)
    page.keyboard.down("Control")
    page.mouse.wheel(0, -240)
    page.keyboard.up("Control")
    eventually("A is wider", lambda: widths(page, 0)["query"] > before[0]["query"] * 1.5)
    eventually("B is wider", lambda: widths(page, 1)["query"] > before[1]["query"] * 1.2)
    page.get_by_role("button", name="Reset zoom").click()
    eventually("all is in view", lambda: query_pixels() == whole)
    click(page, "render", 1)
    eventually("both are zoomed again", lambda: not any("query" in line for line in outline(page, 0)))
    side_panel(page, "B").get_by_role("link", name="Open B").click()
    expect(page.locator(".chosen strong")).to_have_text("render (jinja2/runtime.py)")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    assert given(page)["query"] == 'version="v2"'
    page.goto(f"{shop}/s/deep/compare?baseline=match:&comparison=match:&view=sides")
    boxes(page)
    tops = "[...document.querySelectorAll('.flame-scroll')].map(each => Math.round(each.scrollTop))"

    def scrolled() -> bool:
        page.locator(".flame-scroll").first.hover()
        page.mouse.wheel(0, 700)
        one, other = page.evaluate(tops)
        return bool(one == other > 0)

    eventually("both are scrolled", scrolled)


def test_checks_and_table_give_the_evidence_of_each_change(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/pay/compare?{SIDES}")
    panel = opened_panel(page, "1 warning")
    warned = panel.get_by_role("list", name="Before you compare").get_by_role("listitem")
    expect(warned).to_have_count(1)
    expect(warned).to_contain_text("python A 3.11.7, B 3.14.0: the standard library's frames can differ.")
    found = {
        row.locator("dt").inner_text(): row.locator("dd").inner_text()
        for row in panel.locator("dl > div").all()
    }
    assert sorted([*found, "python"]) == sorted(
        [
            *("mode", "states", "sampler", "reader", "normalisation", "python", "truncation", "coverage"),
            *("pods", "rate", "load", "contention", "time", "measured"),
        ]
    )
    assert found["mode"] == "gil on both sides"
    assert found["load"].startswith("not known")
    page.keyboard.press("Escape")
    page.get_by_label("Version of side B").select_option("version:v1")
    expect(region(page).locator("summary").last).to_have_text(
        re.compile(r"✓ 1\d checks passed, \d unknown ▾")
    )
    reasons = opened_panel(page, "Why")
    expect(reasons).to_contain_text("Both sides ran")
    expect(reasons).to_contain_text("false-discovery rate 5 %")
    # The table lists changes, and only significant ones if asked.
    page.goto(f"{shop}/s/shop/compare?{SIDES}&view=table")
    assert cells(page, "legacy")[:3] == ["30.0", "\N{EN DASH}", f"▼ {MINUS}30.0"]
    expect(page.get_by_role("columnheader", name="Total A, m/pod")).to_be_visible()
    for name, words in (("cached", "new in B"), ("legacy", "removed in B")):
        *agreeing, q = cells(page, name)[-3:]
        assert agreeing == [words, "2/2"]
        assert float(q) < 0.05
    assert cells(page, "query")[-3:] == ["within noise", "0/2", "1.000"]
    page.goto(f"{shop}/s/pay/compare?{SIDES}&view=table")
    rows = page.locator(".panel tbody tr")
    expect(rows.filter(has_text="l.py")).to_have_count(1)
    before = rows.count()
    page.get_by_role("button", name="Hide noise").click()
    expect(rows.filter(has_text="l.py")).to_have_count(0)
    assert 0 < rows.count() < before
    assert given(page)["sig"] == "1"
    page.get_by_role("radio", name="Side by side").click()
    grey = {each["name"].split(" ")[0] for each in boxes(page) if each["fill"] == GREY}
    assert "log" in grey
    assert not grey & {"parse", "price"}
    page.get_by_role("button", name="Hide noise").click()
    eventually("colours are back", lambda: all(each["fill"] != GREY for each in boxes(page)))


# What sides, times and tests can be


def test_sides_are_swapped_and_can_be_a_capture_any_label_or_another_time(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    expect(card(page)).to_contain_text("▲ CPU +45.5 %")
    held: list[Route] = []
    page.route("**/api/v1/compare?**", lambda route: held.append(route))
    page.keyboard.press("x")
    expect(page.get_by_label("Version of side A")).to_have_value("version:v2")
    expect(card(page)).to_have_text("Loading the comparison…")
    expect(page.locator(".culprits")).to_have_count(0)
    # Playwright reports routes only during a call of the page.
    eventually("the question is asked", lambda: page.evaluate("1") and held)
    held[0].continue_()
    expect(card(page)).to_contain_text(f"▼ CPU {MINUS}31.3 %")
    expect(culprits(page).first).to_contain_text(f"{MINUS}60 m")
    page.unroute("**/api/v1/compare?**")
    page.get_by_role("button", name="Swap the sides").click()
    expect(card(page)).to_contain_text("▲ CPU +45.5 %")
    page.get_by_label("Version of side A").select_option("match:")
    page.get_by_label("Matchers of side A").fill('node="n2"')
    page.get_by_role("region", name="Side A").get_by_role("button", name="Set", exact=True).click()
    eventually("a label is a side", lambda: given(page)["baseline"] == 'match:node="n2"')
    expect(page.get_by_label("Version of side A").locator("option:checked")).to_have_text('node="n2"')
    page = open_page(f"{shop}/s/same/compare?{SIDES}", expected="404")
    expect(card(page)).to_contain_text("inconclusive")
    a = page.get_by_role("region", name="Side A")
    a.get_by_label("Version of side A").select_option("capture")
    expect(a.get_by_label("Capture of side A").locator("option", has_text="c_01abc")).to_have_count(1)
    a.get_by_label("Capture of side A").select_option("c_01abc")
    eventually("the capture is a side", lambda: given(page)["baseline"] == 'match:capture="c_01abc"')
    expect(a.locator(".basis")).to_contain_text("79 samples")
    page.reload()
    a.get_by_label("Details of side A").click()
    expect(a.get_by_label("Capture of side A")).to_have_value("c_01abc")
    a.get_by_label("Version of side A").select_option("match:")
    a.get_by_label("Matchers of side A").fill("")
    a.get_by_role("button", name="Set", exact=True).click()
    a.get_by_role("button", name="+ label").click()
    a.get_by_label("Label", exact=True).select_option("pod")
    a.get_by_role("option", name="same-v1-0").click()
    eventually("a label is a side", lambda: given(page)["baseline"] == 'match:pod="same-v1-0"')
    expect(a.locator(".basis")).to_contain_text("79 samples")
    a.get_by_role("button", name="the day before").click()
    eventually("another time", lambda: "baseline_from" in given(page))
    expect(page.get_by_role("heading", name="No CPU samples of A")).to_be_visible()
    page.get_by_role("button", name="Choose the times automatically").click()
    expect(card(page)).to_contain_text("CPU")


def test_sides_times_and_tests_stay_automatic_until_a_person_chooses(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/services")
    page.get_by_role("link", name="old", exact=True).first.click()
    expect(page.get_by_label("Time range: last 24 hours")).to_be_visible()
    # The last hour has one version; the one before it is found all the same.
    page.goto(f"{shop}/s/old")
    page.get_by_role("link", name="Compare with previous version").click()
    expect(page.get_by_label("Version of side A")).to_have_value("version:before")
    expect(card(page)).to_contain_text("CPU 110 → 160 m/pod, +45.5 % – may be load")  # noqa: RUF001
    page.goto(f"{shop}/s/pay/compare")
    expect(page.get_by_label("Time range: automatic times")).to_be_visible()
    panel = page.get_by_label("Compared times").locator("xpath=..").locator(".choices")
    page.get_by_label("Compared times").click()
    expect(panel).to_contain_text('Version "v2" is compared with the one before it, "v1": both sides ran')
    assert given(page) == {}
    page.get_by_label("Time range").click()
    page.get_by_role("button", name="last 6 hours").click()
    eventually("the range is a person's", lambda: given(page) == {"from": "-6h", "until": "now"})
    page.get_by_label("Compared times").click()
    expect(panel).to_contain_text("the request gives")
    expect(panel.get_by_role("button", name="while both ran")).to_have_count(0)
    page.get_by_label("What is compared").select_option("composition")
    eventually("it is in the address", lambda: given(page).get("basis") == "composition")
    expect(card(page)).to_contain_text("may be load")
    page.get_by_label("Compared times").click()
    panel.get_by_role("button", name="while both ran").click()
    eventually("other times are in the address", lambda: "baseline_from" in given(page))
    page.get_by_label("Compared times").click()
    panel.get_by_role("button", name="Choose the times automatically").click()
    eventually(
        "the times are chosen again", lambda: given(page).keys() <= {"baseline", "comparison", "basis"}
    )
    page.get_by_label("Version of side A").select_option("version:v2")
    eventually("both sides are named", lambda: given(page)["baseline"] == "version:v2")
    assert given(page)["comparison"] == "version:v2"
    # Other tests are a switch.
    page.goto(f"{shop}/s/shop/compare")
    expect(card(page)).to_contain_text("may be load")
    assert card(page).locator("strong").get_attribute("class") == "", "no colour for what may be load"
    assert {"render", "loop"} <= coloured(page), "shares are coloured"
    switch = page.get_by_label("What is compared")
    assert texts(switch.locator("option")) == ["Composition (automatic)", "Composition", "Equal load"]
    switch.select_option("equal_load")
    expect(card(page)).to_contain_text("▲ CPU +45.5 %")
    assert given(page) == {"basis": "equal_load"}
    switch.select_option("")
    expect(card(page)).to_contain_text("may be load")
    page.goto(f"{shop}/s/pay/compare")
    expect(card(page)).to_contain_text("▲ CPU +89.9 %")
    expect(switch.locator("option")).to_have_text(["Concurrent (automatic)", "Concurrent", "Composition"])


def test_nothing_to_compare_is_one_message_with_ways_out(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/lone/compare", expected="400")
    heading = page.get_by_role("heading", name="Nothing to compare yet")
    expect(heading).to_be_visible()
    expect(page.locator(".zero")).to_contain_text(re.compile(r'No version ran before "only".*:\d\d UTC\.'))
    there = open_page(f"{shop}/s/lone/compare", expected="400", timezone_id="Asia/Kathmandu")
    expect(there.locator(".zero")).to_contain_text(re.compile(r'before "only".*:\d\d UTC\+05:45\.'))
    page.get_by_role("link", name="Compare with the same time yesterday").click()
    expect(page.locator(".zero")).to_contain_text("No CPU samples of A everything")
    expect(page.locator(".besides, .culprits, .finding, .flame, .doubts")).to_have_count(0)
    page.get_by_role("button", name="Choose the times automatically").click()
    expect(card(page)).to_contain_text("110 → 110 m/pod")
    page.goto(f"{shop}/s/bare/compare")
    expect(heading).to_be_visible()
    expect(page.get_by_text("SIDELIGHT_VERSION")).to_be_visible()
    page.get_by_role("link", name="Choose two sides by label").click()
    expect(card(page)).to_be_visible()
    assert given(page) == {"baseline": "match:", "comparison": "match:"}
    page.goto(f"{shop}/s/nothing/compare")
    expect(page.get_by_role("heading", name="No CPU samples of A")).to_be_visible()
    expect(page.get_by_text("check the name")).to_be_visible()


# Verdicts of days or of a cluster, put into the collector's answer


def test_verdict_culprits_and_graph_are_on_the_first_screen(
    shop: str, open_page: Open, subtests: pytest.Subtests
) -> None:
    for width, height, rows in ((1440, 900, 20), (1280, 720, 12)):
        for view, first in (("flame", 4), ("sides", 3)):
            with subtests.test(f"{view} at {width}x{height}"):
                assert_first_screen(shop, open_page, (width, height), view, rows, first)


def assert_first_screen(
    shop: str, open_page: Open, size: tuple[int, int], view: str, rows: int, first: int
) -> None:
    width, height = size
    found = full(checks=[{**LOAD, "remedy": OVERLAP}, check("python", "mismatch", "warn", "3.11, 3.14")])
    viewport = {"width": width, "height": height}
    path = f"deep/compare?baseline=match:&comparison=match:&view={view}"
    page = opened(shop, open_page, found, path=path, viewport=viewport)
    visible = """() => {
        const graph = document.querySelector('.flame-scroll').getBoundingClientRect();
        const details = document.querySelector('.chosen');
        const isOver = getComputedStyle(details).position === 'sticky';
        const over = isOver ? details.getBoundingClientRect().top : innerHeight;
        return [graph.top, Math.min(graph.bottom, over, innerHeight) - graph.top] }"""
    for select in (False, True):
        if select:
            click(page, "odd")
            expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
        top, tall = page.evaluate(visible)
        assert top <= 330
        assert tall // ROW >= rows
    assert page.evaluate("scrollY") == 0
    for shown in (card(page), culprits(page).last, page.locator(".besides"), page.locator("#search")):
        expect(shown).to_be_in_viewport(ratio=1)
    expect(region(page).get_by_role("button", name=OVERLAP["label"]).first).to_be_in_viewport(ratio=1)
    expect(culprits(page)).to_have_count(first)
    page.get_by_role("button", name=f"Show {6 - first} more rows").click()
    expect(culprits(page)).to_have_count(6)


def test_effects_and_culprits_lead_to_where_they_are_shown(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, full())
    effects = page.get_by_role("list", name="Other effects")
    assert texts(effects.get_by_role("listitem"))[0] == "Stacks deeper 40.7 → 46.1 frames"
    effects.get_by_role("link", name="Wait time unchanged").click()
    expect(page.get_by_label("Profile type")).to_have_value("wall")
    page.go_back()
    effects.get_by_role("link", name="Stacks deeper").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Stack depth of shop")
    # From any other view a culprit leads to its place.
    page = opened(shop, open_page, verdict(), "&invert=1")
    # B has no time of `render` itself, nor have its callers in stacks that end there.
    assert coloured(page) == {"render", "handle", "main"}
    page.goto(f"{shop}/s/shop/compare?{SIDES}&invert=1&t=drop%3Aquery&q=x&by=file")
    row = culprits(page).filter(has_text="render")
    expect(row).to_have_count(1)
    assert texts(row.locator("td"))[:5] == ["+40 m", "80 %", "+200 % (+180 … +220)", "<.001", "5/6"]
    # Also where page and graph are scrolled, its frame is the row that is seen first.
    page.set_viewport_size({"width": 390, "height": 600})
    page.evaluate("document.querySelector('.flame-scroll').scrollTo(0, 9999); scrollTo(0, 9999)")
    row.get_by_role("link", name="render").click()
    expect(page.locator(".chosen strong")).to_have_text("render (jinja2/runtime.py)")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    expect(page.locator(".flame-graph")).to_be_in_viewport()
    assert boxes(page)[0]["name"].startswith("render")
    top = "at => [at.scrollTop, at.getBoundingClientRect().top >= 0]"
    assert page.locator(".flame-scroll").evaluate(top) == [0, True]
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_role("link", name="All 2 functions").click()
    expect(page.locator(".panel tbody tr").first).to_be_visible()


@pytest.mark.parametrize(("width", "more"), [(1280, 2), (390, 4)])
def test_no_culprit_and_no_button_is_cut(shop: str, open_page: Open, width: int, more: int) -> None:
    found = full()
    found["culprits"]["rows"][0]["function"] = "render_" * 15
    page = opened(shop, open_page, found, viewport={"width": width, "height": 900})
    table = page.get_by_role("region", name="Functions where the change starts")
    assert table.evaluate("at => at.scrollWidth <= at.clientWidth")
    for button in (
        page.get_by_role("button", name=f"Show {more} more rows"),
        table.get_by_role("link", name="All 2 functions"),
    ):
        expect(button).to_be_in_viewport(ratio=1)
    expect(table.get_by_role("cell", name="+200 % (+180 … +220)").first).to_be_in_viewport(ratio=1)


def test_graph_and_table_mark_what_is_outside_noise_alone(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, verdict(), unjudged=("legacy",))
    assert coloured(page) == {"render"}
    # What B alone calls below `render` is in both sides' render, and not found by itself.
    assert {each["hatch"] for each in boxes(page)} == {""}
    assert box(page, "legacy")["fill"] == PALE
    assert "change\nnot judged" in hover(page, "legacy")
    assert "change\nwithin noise" in hover(page, "query")
    opened_panel(page, "More").get_by_role("button", name="Show all differences").click()
    eventually("all differences", lambda: {"render", "loop", "legacy", "cached"} <= coloured(page))
    assert "raw=1" in page.url
    page.go_back()
    eventually("only what is outside noise", lambda: coloured(page) == {"render"})
    page.get_by_role("button", name="Hide noise").click()
    page.get_by_role("radio", name="Side by side").click()
    eventually("sides turn grey too", lambda: coloured(page) == {"render"})
    page.get_by_role("radio", name="Table", exact=True).click()
    table = page.locator(".panel tbody tr")
    expect(table).to_have_count(1)
    page.get_by_role("button", name="Hide noise").click()
    expect(page.get_by_role("columnheader", name="FDR q").last).to_be_visible()
    assert " ".join(cells(page, "render")).endswith(" +200.0 % 5/6 <.001")
    assert cells(page, "legacy")[-3:] == ["not judged", "\N{EN DASH}", "\N{EN DASH}"]


def test_sides_without_a_statement_say_why_once_and_are_not_coloured(shop: str, open_page: Open) -> None:
    text = "A command, B gil: the stacks of command are no match"
    mode = check("mode", "mismatch", "blocking", f"{text}.", "Set the same --mode on both sides.")
    found = full(direction="not_comparable", checks=[mode, LOAD])
    page = opened(shop, open_page, found)
    expect(card(page)).to_have_text(f"CPU not comparable: {text}")
    expect(opened_panel(page, "2 warnings")).to_contain_text("Set the same --mode on both sides.")
    assert coloured(page) == set()
    expect(page.locator(".besides, .culprits")).to_have_count(0)
    expect(page.locator(".chosen")).to_contain_text("not comparable")
    page.get_by_role("button", name="Colour all differences").click()
    eventually("all differences", lambda: "render" in coloured(page))
    expect(page.get_by_text("Not colour-coded")).to_have_count(0)
    # An answer without a verdict is shown by counting noise.
    page = opened(shop, open_page, None)
    expect(region(page)).to_contain_text("This answer has no verdict")
    assert "render" in coloured(page)
    expect(page.locator(".checks, .culprits")).to_have_count(0)
    page.get_by_role("radio", name="Table", exact=True).click()
    expect(page.locator(".panel tbody tr").filter(has_text="query")).to_contain_text("within counting noise")


def test_remedies_change_the_address_and_requests_scale_the_graph(shop: str, open_page: Open) -> None:
    # B took 160 m and A 110, for twice as many requests: as much as 80.
    method = {**verdict()["method"], "unit": "request"}
    checks = [{**LOAD, "remedy": REQUESTS}, check("time", "mismatch", "warn") | {"remedy": OVERLAP}]
    found = full(method=method, sampling_only=effect(0.0011, 0.0008, 0.0001), checks=checks)
    page = opened(shop, open_page, found, names=("query", "render"))
    query = hover(page, "query")
    assert "60.0 ms/request · 54.55 %" in query
    assert "30.0 ms/request · 37.50 %" in query
    assert f"▼ takes less time in B ({MINUS}50.0 %)" in query
    assert "▲ takes more time in B (+50.0 %)" in hover(page, "render")
    page.mouse.move(0, 0)
    region(page).get_by_role("button", name=REQUESTS["label"]).first.click()
    page.get_by_label("Requests of A").fill("1000")
    page.get_by_label("Requests of B").fill("2000")
    page.get_by_role("button", name="Compare per request").click()
    eventually("the counts are asked with", lambda: given(page)["comparison_requests"] == "2000")
    assert given(page)["baseline_requests"] == "1000"
    opened_panel(page, "2 warnings").get_by_role("button", name=OVERLAP["label"]).click()
    eventually("the times are those of the remedy", lambda: "baseline_from" in given(page))
    assert given(page)["baseline_from"] == OVERLAP["parameters"]["baseline_from"]


def test_full_verdict_with_warnings_is_accessible(shop: str, open_page: Open, axe: str) -> None:
    warned = check("Python", "mismatch", "warn", "A 3.11.7, B 3.14.0", "Compare like with like.")
    found = full(checks=[{**warned, "remedy": OVERLAP}, check("mode")])
    found["functions"]["renamed_from"] = ["old", None]
    page = opened(shop, open_page, found, unjudged=("legacy",))
    expect(culprits(page).first).to_contain_text("was old")
    opened_panel(page, "1 warning")
    assert violations_in_both_themes(page, axe) == {}
    assert small_controls(page) == []
    opened_panel(page, "Why")
    page.get_by_label("Details of side A").click()
    assert violations_in_both_themes(page, axe) == {}
    # On paper there are the result and the graph, and no controls.
    page.emulate_media(media="print")
    expect(page.locator(".flame canvas")).to_be_visible()
    for hidden in (page.locator("header"), page.get_by_role("toolbar", name="Graph tools")):
        expect(hidden).to_be_hidden()


def test_hostile_names_are_text_and_fit(shop: str, open_page: Open) -> None:
    found = verdict(
        loop={
            "busy": effect(0.4, 0.5, 0.01),
            "blockers": [{"function": HOSTILE, "file": HOSTILE, "effect": effect(0, 0.1, 0.01)}],
        },
        checks=[check("Python", "mismatch", "warn", HOSTILE, HOSTILE)],
        summary=HOSTILE,
        culprits={"share": 0.9, "rows": [culprit(HOSTILE, HOSTILE) | {"folded": [HOSTILE]}]},
        functions={
            "function": [HOSTILE],
            "file": [HOSTILE],
            "renamed_from": [HOSTILE],
            **{of: columns([effect(0.1, 0.4, 0.1)], [(1, 1)], [0.01]) for of in ("self", "total")},
        },
    )
    page = opened(shop, open_page, found, viewport={"width": 320, "height": 700})
    expect(page.get_by_role("region", name="What changed")).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    assert_fits(page, 320, 700)
    name = "%3Cb%20onclick%3Dalert(3)%3E%D7%A9%D7%9C%D7%95%D7%9D%2F%F0%9F%98%80%20%26%20co"
    page = open_page(f"{shop}/s/{name}/compare?baseline=version%3A1%3B2&comparison=match%3Apod%3D%22x%22")
    expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE_SERVICE)
    expect(page.get_by_role("heading", name="No CPU samples of B")).to_be_visible()
    page.goto(f"{shop}/s/{name}/compare?baseline=version%3A1%3B2&comparison=match%3A")
    expect(card(page)).to_contain_text("CPU")
    page.reload()
    expect(card(page)).to_contain_text("CPU")
    boxes(page)
    assert page.locator("main img, main b, main script").count() == 0
