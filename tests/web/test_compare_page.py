"""Comparing two sides: what differs and why, what the comparison stands on, and what its sides can be.

The words of verdicts are tested without a browser (`web/test/renderedText.test.ts`).
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, Route, expect

from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import box, boxes, click, hover, outline
from tests.web.found import Json, check, columns, culprit, effect, judged, verdict
from tests.web.profiles import HOSTILE_SERVICE
from tests.web.rules import assert_fits, small_controls, violations_in_both_themes

SIDES = "baseline=version%3Av1&comparison=version%3Av2&load=equal"
GREY = "#c9ccd3"
MINUS = "\N{MINUS SIGN}"
ROW = 20
"""The pixels of a row of a flame graph."""
HOSTILE = "<img src=x onerror=alert(1)>\u202e;\N{GRINNING FACE}" + "x" * 2000
LOAD = check(
    "load",
    "mismatch",
    "warn",
    "A's processes used 0.095 CPU seconds per pod-second, B's 0.140: one side was busier, or costs more "
    "per request",
    "Give baseline_requests and comparison_requests, or the collector a --prometheus-url.",
)
SENTENCE = (
    f"Not enough data to say whether CPU time changed (95 % interval {MINUS}20.4 % to +279.7 %; "
    "0.168 → 0.332 seconds per pod-second): about 12 minutes more of both sides would show a change of 5 %."
)
HOLDERS = [
    {"function": name, "file": "app.py", "baseline": a, "comparison": b, "effect": effect(a, b, 0.02)}
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
            "summary": SENTENCE,
            "idle": effect(0.832, 0.668, 0.185),
            "thread_kinds": [
                {"thread": "main", "idle": effect(0.2, 0.1, 0.02)},
                {"thread": "other", "idle": effect(0.9, 0.9, 0.02)},
            ],
            "loop": {"busy": effect(0.128, 0.273, 0.169, "inconclusive"), "blockers": HOLDERS},
            "checks": [check("mode", text="gil on both sides"), LOAD],
            **changes,
        }
    )


def opened(
    shop: str,
    open_page: Open,
    found: Json | None,
    more: str = "",
    names: tuple[str, ...] = ("render",),
    **options: Any,
) -> Page:
    """The comparison of the shop's versions, answered with this verdict."""
    page: Page = open_page("about:blank", **options)
    judged(page, found, names)
    page.goto(f"{shop}/s/shop/compare?{SIDES}{more}")
    expect(page.locator(".verdict")).to_be_visible()
    expect(page.locator(".verdict")).not_to_have_text("Loading the comparison…")
    return page


def region(page: Page) -> Locator:
    return page.get_by_role("region", name="Verdict")


def sentence(page: Page) -> Locator:
    return region(page).locator(".verdict")


def coloured(page: Page) -> set[str]:
    return {each["name"].split(" ")[0].lstrip("▲▼ ") for each in boxes(page) if each["fill"] != GREY}


def given(page: Page) -> dict[str, str]:
    return {
        name: values[0] for name, values in parse_qs(urlsplit(page.evaluate("location.href")).query).items()
    }


def texts(found: Locator) -> list[str]:
    return [re.sub(r"\s+", " ", text).strip() for text in found.all_inner_texts()]


def cells(page: Page, function: str) -> list[str]:
    row = page.locator(".panel tbody tr").filter(has_text=function)
    expect(row).to_have_count(1)
    return texts(row.locator("td"))


# Real verdicts


def test_three_clicks_lead_from_the_front_page_to_the_changed_functions(shop: str, open_page: Open) -> None:
    page = open_page(shop)
    page.get_by_role("link", name="pay", exact=True).click()
    asked: list[str] = []

    def note(route: Route) -> None:
        asked.append(route.request.url)
        route.continue_()

    page.route("**/api/v1/compare?**", note)
    page.get_by_role("link", name="Compare with previous version").hover()
    page.mouse.down()
    # Routes are told of while the page is spoken to.
    eventually("it is asked while the button is pressed", lambda: page.title() and len(asked) == 1)
    page.mouse.up()
    expect(sentence(page)).to_contain_text("B takes 89.9 % more CPU time than A")
    assert len(asked) == 1, "pressing the link asks once"
    assert (given(page)["baseline"], given(page)["comparison"]) == ("version:v1", "version:v2")
    expect(region(page)).to_contain_text("The change starts here (99 % of it):")
    links = region(page).locator(".why").get_by_role("link")
    assert links.all_inner_texts() == ["work › parse", "price"]  # noqa: RUF001
    links.first.click()
    expect(page.locator(".chosen strong")).to_contain_text("work (")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()


def test_differential_graph_shows_each_call_path_with_its_change(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    assert outline(page) == [
        "0 total",
        "1 main (app.py)",
        "2 handle (shop/views.py)",
        "3 cached (shop/cache.py)",
        "3 legacy (shop/old.py)",
        "3 query (shop/db.py)",
        "3 render (jinja2/runtime.py)",
        "4 loop (jinja2/runtime.py)",
    ]
    drawn = {each["name"].split(" ")[0]: each for each in boxes(page)}
    assert {name: each["hatch"] for name, each in drawn.items() if each["hatch"]} == {
        "cached": "new",
        "legacy": "removed",
        "loop": "new",
    }
    assert drawn["query"]["fill"] == GREY
    widths = {name: round(270 * drawn[name]["width"] / drawn["total"]["width"]) for name in drawn}
    assert {name: widths[name] for name in ("query", "legacy", "cached", "render")} == {
        "query": 120,
        "legacy": 30,
        "cached": 40,
        "render": 80,
    }, "widths are the mean of both sides"
    told = hover(page, "render")
    assert "20.0 ms/s · 18.18 % · 1.20 s · 120 samples" in told
    assert "60.0 ms/s · 37.50 % · 3.60 s · 360 samples" in told
    assert "▲ takes more time in B (+200.0 %)" in told
    assert "slower" not in page.locator("main").inner_text()
    expect(region(page)).to_contain_text("The change starts here (100 % of it):")
    assert texts(region(page).locator(".why li")) == [
        "handle › render › loop ▲ +60.0 ms/s (60 %)",  # noqa: RUF001
        "cached ▲ +40.0 ms/s (40 %)",
        f"legacy ▼ {MINUS}30.0 ms/s (60 %)",
        f"handle › render ▼ {MINUS}20.0 ms/s (40 %)",  # noqa: RUF001
    ]


def test_shares_are_a_switch_and_per_request_is_not_offered(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    norms = page.get_by_role("group", name="Normalise by").get_by_role("button")
    expect(norms).to_have_text(["Per pod", "% of total"])
    expect(page.locator(".norm")).to_contain_text("in milliseconds per pod-second")
    norms.nth(1).click()
    expect(page.locator(".norm")).to_contain_text("shares")
    assert "A total\n54.55 % · 3.60 s" in hover(page, "query")
    page.get_by_role("button", name="Table", exact=True).click()
    assert cells(page, "legacy")[2] == f"▼ {MINUS}27.27 pp"
    expect(page.locator(".norm")).to_contain_text("percentage points")
    page.go_back()
    page.go_back()
    expect(page.locator(".norm")).to_contain_text("in milliseconds per pod-second")


def test_side_by_side_links_pointer_search_and_zoom(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    page.get_by_role("button", name="Side by side").click()
    assert "3 legacy (shop/old.py)" in outline(page, 0)
    assert "3 legacy (shop/old.py)" not in outline(page, 1)
    assert "3 cached (shop/cache.py)" in outline(page, 1)
    assert "A total" in hover(page, "query", 0)
    pixels = """at => { const [x, y] = [at.width / 2, 70 * at.height / at.clientHeight];
        return [...at.getContext('2d').getImageData(x, y, 1, 1).data] }"""
    assert page.locator(".flame canvas").nth(1).evaluate(pixels)
    page.locator("#search").fill("query")
    eventually("both sides mark the hit", lambda: all(box(page, "query", side)["hit"] for side in (0, 1)))
    click(page, "render", 1)
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    for side in (0, 1):
        eventually(
            "both sides zoom", lambda side=side: not any("query" in line for line in outline(page, side))
        )
    page.get_by_role("link", name="Open B").click()
    expect(page.locator(".chosen strong")).to_have_text("render (jinja2/runtime.py)")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    assert given(page)["query"] == 'version="v2"'


def test_side_by_side_scrolls_together(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/deep/compare?baseline=match:&comparison=match:&view=sides")
    boxes(page)
    tops = "[...document.querySelectorAll('.flame-scroll')].map(each => Math.round(each.scrollTop))"

    def scrolled() -> bool:
        page.locator(".flame-scroll").first.hover()
        page.mouse.wheel(0, 700)
        one, other = page.evaluate(tops)
        return bool(one == other > 0)

    eventually("both are scrolled", scrolled)


def test_every_check_is_listed_and_those_that_warn_are_lines(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/pay/compare?{SIDES}")
    warned = page.get_by_role("list", name="Before you compare").get_by_role("listitem")
    python = warned.filter(has_text="python")
    expect(python).to_have_text(
        "python A 3.11.7, B 3.14.0: the standard library's frames can differ. "
        "Compare within one version of Python, or read changes of its own modules with care."
    )
    assert [words.split(" ")[0] for words in warned.all_inner_texts()] == ["python"]
    checks = page.locator(".checks")
    summary = checks.locator("summary")
    expect(summary).to_have_text("✓ 10 comparability checks passed; unknown: load, contention")
    assert checks.get_attribute("open") is None
    summary.click()
    found = {
        row.locator("dt").inner_text(): row.locator("dd").inner_text()
        for row in checks.locator("dl > div").all()
    }
    told = [*found, *(words.split(" ")[0] for words in warned.all_inner_texts())]
    assert sorted(told) == sorted(
        [
            *("mode", "states", "sampler", "reader", "normalisation", "python", "truncation", "coverage"),
            *("pods", "rate", "load", "contention", "time", "measured"),
        ]
    )
    assert found["mode"] == "gil on both sides"
    assert found["load"].startswith("not known")
    page.get_by_label("Version of side B").select_option("version:v1")
    expect(summary).to_have_text("✓ 11 comparability checks passed; unknown: load, contention")
    expect(page.locator(".doubts")).to_have_count(0)


def test_table_lists_changes_and_only_significant_ones_if_asked(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}&view=table")
    assert cells(page, "legacy")[:3] == ["30.0 ms/s", "0 ms/s", f"▼ {MINUS}30.0 ms/s"]
    assert cells(page, "cached")[-3:] == ["new in B", "2 of 2", ".001"]
    assert cells(page, "legacy")[-3:] == ["removed in B", "2 of 2", ".001"]
    assert cells(page, "query")[-3:] == ["within noise", "0 of 2", "1.000"]
    page.goto(f"{shop}/s/pay/compare?{SIDES}&view=table")
    rows = page.locator(".panel tbody tr")
    expect(rows.filter(has_text="l.py")).to_have_count(1)
    before = rows.count()
    page.get_by_role("button", name="Hide noise").click()
    expect(rows.filter(has_text="l.py")).to_have_count(0)
    assert 0 < rows.count() < before
    assert given(page)["sig"] == "1"
    page.get_by_role("button", name="Side by side").click()
    grey = {each["name"].split(" ")[0] for each in boxes(page) if each["fill"] == GREY}
    assert "log" in grey
    assert not grey & {"parse", "price"}
    page.get_by_role("button", name="Hide noise").click()
    eventually(
        "colours are back", lambda: all(each["fill"] != GREY or each["level"] == 0 for each in boxes(page))
    )


def test_largest_changes_lead_to_graph_sandwich_table_and_a_link(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/pay/compare?{SIDES}")
    changes = page.get_by_role("region", name="Largest changes")
    rows = changes.locator("tbody tr")
    expect(rows).to_have_count(5)
    names = [text.split(" ")[0] for text in texts(rows.get_by_role("rowheader"))]
    assert names[:3] == ["main", "work", "parse"]
    parse = rows.filter(has_text="json/decoder.py")
    change = "▲ +50.0 ms/s +42.0 to +58.0"
    assert texts(parse.locator("td"))[:6] == ["40.0 ms/s", "90.0 ms/s", change, change, "3 of 3", ".002"]
    parse.get_by_role("button", name="copy").click()
    expect(page.locator(".toast")).to_have_text("Name copied")
    assert page.evaluate("navigator.clipboard.readText()") == "parse (json/decoder.py)"
    parse.get_by_role("button", name="link").click()
    expect(page.locator(".toast")).to_have_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    sandwich = parse.get_by_role("link", name="sandwich").get_attribute("href") or ""
    assert parse_qs(urlsplit(sandwich).query)["fn"] == ["parse (json/decoder.py)"]
    page.goto(link)
    eventually(
        "the link shows the function",
        lambda: [box["name"] for box in boxes(page) if box["hit"]] == ["parse (json/decoder.py)"],
    )
    page.get_by_role("link", name="All 5 functions").click()
    expect(page.locator(".panel tbody tr").first).to_contain_text("main")


# What sides can be


def test_sides_can_be_swapped_and_never_stand_over_old_numbers(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    side = page.get_by_role("region", name="Side A").locator(".basis")
    expect(side).to_contain_text("660 samples")
    held: list[Route] = []
    page.route("**/api/v1/compare?**", lambda route: held.append(route))
    page.keyboard.press("x")
    expect(page.get_by_label("Version of side A")).to_have_value("version:v2")
    expect(sentence(page)).to_have_text("Loading the comparison…")
    expect(side).not_to_contain_text("samples")
    # Routes are told of while the page is spoken to.
    eventually("the question is asked", lambda: page.evaluate("1") and held)
    held[0].continue_()
    expect(side).to_contain_text("960 samples")
    expect(sentence(page)).to_contain_text("B takes 31.3 % less CPU time than A")
    expect(region(page).locator(".why li").first).to_contain_text(f"loop ▼ {MINUS}60.0 ms/s (60 %)")
    page.unroute("**/api/v1/compare?**")
    page.get_by_role("button", name="Swap the sides").click()
    expect(sentence(page)).to_contain_text("B takes 45.5 % more CPU time than A")
    page.get_by_label("Version of side A").select_option("match:")
    page.get_by_label("Matchers of side A").fill('node="n2"')
    page.get_by_role("region", name="Side A").get_by_role("button", name="Set", exact=True).click()
    expect(sentence(page)).to_contain_text("Not enough data to say whether CPU time changed")


def test_older_versions_say_when_they_ran_and_bring_their_time(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/old/compare?baseline=version%3Anow&comparison=version%3Anow")
    picker = page.get_by_label("Version of side A")
    expect(picker.locator("option", has_text="before")).to_have_text(
        re.compile("before · since 5 h ago · 2 pods")
    )
    picker.select_option("version:before")
    expect(page.get_by_role("region", name="Side A").locator(".basis")).to_contain_text("660 samples")
    assert given(page)["baseline"] == "version:before"
    assert {"baseline_from", "baseline_until"} <= set(given(page))
    expect(sentence(page)).to_contain_text("(0.110 → 0.160 seconds per pod-second)")
    page.get_by_label("Version of side A").select_option("version:now")
    eventually("the page's range again", lambda: "baseline_from" not in given(page))


def test_one_version_alone_offers_other_sides(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/lone/compare")
    expect(page.get_by_role("heading", name="Nothing to compare yet")).to_be_visible()
    page.get_by_role("link", name="Compare with the same time yesterday").click()
    expect(sentence(page)).to_have_text("A has no windows here, so there is nothing to compare.")
    assert {each["hatch"] for each in boxes(page)} == {""}
    expect(page.locator(".besides, .why, .changes, .checks")).to_have_count(0)
    expect(page.get_by_role("region", name="Side A")).to_contain_text("No windows in this range.")
    assert "alike" not in page.locator("main").inner_text()
    page.go_back()
    expect(page.get_by_role("heading", name="Nothing to compare yet")).to_be_visible()
    page.goto(f"{shop}/s/bare/compare")
    expect(page.get_by_role("heading", name="Nothing to compare yet")).to_be_visible()
    expect(page.get_by_text("SIDELIGHT_VERSION")).to_be_visible()


def test_unknown_load_colours_nothing_until_equal_load_is_assumed(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/old/compare")
    page.get_by_role("link", name="Compare with before, last seen 5 h ago").click()
    expect(sentence(page)).to_have_text(
        "Not enough data to say whether CPU time changed (0.110 → 0.160 seconds per pod-second): "
        "they ran at different times, and their load may differ."
    )
    expect(page.get_by_text("Not colour-coded: A and B ran at different times")).to_be_visible()
    doubts = page.get_by_role("list", name="Before you compare").get_by_role("listitem")
    expect(doubts.filter(has_text="time")).to_contain_text("load=equal")
    shown = {box["fill"] for box in boxes(page)}
    equal = page.get_by_role("button", name="Assume equal load")
    equal.click()
    expect(sentence(page)).to_contain_text("B takes 45.5 % more CPU time than A")
    assert given(page)["load"] == "equal"
    expect(page.get_by_text("a load change could explain this")).to_have_count(0)
    eventually("what changed has its colour", lambda: {box["fill"] for box in boxes(page)} - shown)
    equal.click()
    expect(sentence(page)).to_contain_text("their load may differ")
    assert "load" not in given(page)
    page.goto(f"{shop}/s/pay/compare?{SIDES.replace('&load=equal', '')}")
    expect(sentence(page)).to_contain_text("B takes 89.9 % more CPU time than A")
    expect(page.get_by_role("button", name="Assume equal load")).to_have_count(0)


def test_side_can_be_a_capture_any_label_or_another_time(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/same/compare?{SIDES}", expected="404")
    expect(region(page)).to_contain_text(
        re.compile(r"Not enough data to say .*\. Take at least .+ more of both sides\.")
    )
    a = page.get_by_role("region", name="Side A")
    expect(a.locator(".basis")).to_contain_text("79 samples")
    a.get_by_label("Version of side A").select_option("capture")
    expect(a.get_by_label("Capture of side A").locator("option", has_text="c_01abc")).to_have_count(1)
    a.get_by_label("Capture of side A").select_option("c_01abc")
    eventually("the capture is a side", lambda: given(page)["baseline"] == 'match:capture="c_01abc"')
    expect(a.locator(".basis")).to_contain_text("79 samples")
    page.reload()
    expect(a.get_by_label("Capture of side A")).to_have_value("c_01abc")
    a.get_by_label("Version of side A").select_option("match:")
    a.get_by_label("Matchers of side A").fill("")
    a.get_by_role("button", name="Set", exact=True).click()
    a.get_by_role("button", name="+ label").click()
    a.get_by_label("Label", exact=True).select_option("pod")
    a.get_by_role("option", name="same-v1-0").click()
    eventually("a label is a side", lambda: given(page)["baseline"] == 'match:pod="same-v1-0"')
    a.locator("summary").first.click()
    a.get_by_role("button", name="the day before").click()
    eventually("another time", lambda: "baseline_from" in given(page))
    expect(sentence(page)).to_contain_text("A has no windows here")
    a.get_by_role("button", name="Use the page's range").click()
    expect(a.locator(".basis")).to_contain_text("79 samples")


# Verdicts of days or of a cluster, put into the collector's answer


def test_sentence_warning_and_top_of_the_graph_need_no_scrolling(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, full(), viewport={"width": 1280, "height": 800})
    warned = page.get_by_role("list", name="Before you compare").get_by_role("listitem")
    assert boxes(page)
    expect(region(page).get_by_role("status")).to_have_text(SENTENCE)
    expect(page.locator(".verdict")).to_be_in_viewport(ratio=1)
    expect(warned).to_have_text([f"load {LOAD['text']}. {LOAD['hint']}"])
    expect(warned).to_be_in_viewport(ratio=1)
    top = page.locator(".flame-scroll").evaluate("at => at.getBoundingClientRect().top")
    assert top + 3 * ROW <= 800
    assert page.evaluate("scrollY") == 0
    order = page.evaluate(
        """[...document.querySelectorAll('.verdict, .checks, .viewbar, .flame-graph, .changes')]
            .map(at => at.classList[0])"""
    )
    assert order == ["verdict", "numbers", "viewbar", "flame-graph", "card"]
    region(page).get_by_role("link", name="Threads wait").click()
    expect(page.get_by_role("group", name="Type").get_by_role("button", name="Wall")).to_have_attribute(
        "aria-pressed", "true"
    )
    page.go_back()
    region(page).get_by_role("link", name="Stacks are deeper in B").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Stack depth of shop")


def test_graph_and_table_mark_what_is_outside_noise_alone(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, verdict())
    assert coloured(page) == {"render"}
    assert {each["hatch"] for each in boxes(page)} == {""}
    page.get_by_role("button", name="Show all differences").click()
    eventually("all differences", lambda: {"render", "loop", "legacy", "cached"} <= coloured(page))
    assert "raw=1" in page.url
    page.go_back()
    eventually("only what is outside noise", lambda: coloured(page) == {"render"})
    page.get_by_role("button", name="Hide noise").click()
    page.get_by_role("button", name="Side by side").click()
    eventually("sides turn grey too", lambda: coloured(page) == {"render", "total"})
    page.get_by_role("button", name="Table", exact=True).click()
    table = page.locator(".panel tbody tr")
    expect(table).to_have_count(1)
    page.get_by_role("button", name="Hide noise").click()
    expect(page.get_by_role("columnheader", name="FDR q")).to_be_visible()
    assert " ".join(cells(page, "render")).endswith(" +200.0 % 5 of 6 <.001")
    assert cells(page, "legacy")[-3:] == ["within noise", "\N{EN DASH}", "\N{EN DASH}"]


def test_culprit_leads_to_its_place_from_any_other_view(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, verdict(), "&invert=1")
    # Below `loop`, which is not outside noise, stands its caller `render`, which is.
    assert coloured(page) == {"render"}
    page.goto(f"{shop}/s/shop/compare?{SIDES}&invert=1&t=drop%3Aquery&q=x&by=file")
    why = region(page).locator(".why")
    assert re.sub(r"\s+", " ", why.inner_text()) == (
        "The change starts here (80 % of it): render ▲ +40.0 ms/s (80 %)"
    )
    why.get_by_role("link", name="render").click()
    expect(page.locator(".chosen strong")).to_have_text("render (jinja2/runtime.py)")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    assert boxes(page)


def test_incomparable_sides_say_why_once_and_are_not_coloured(shop: str, open_page: Open) -> None:
    text = "A command, B gil: the stacks of command are no match."
    mode = check("mode", "mismatch", "blocking", text, "Set the same --mode on both sides.")
    found = full(
        summary=f"CPU time cannot be compared: {text}", direction="not_comparable", checks=[mode, LOAD]
    )
    page = opened(shop, open_page, found)
    expect(page.locator(".doubts li")).to_have_text(
        ["mode Set the same --mode on both sides.", f"load {LOAD['text']}. {LOAD['hint']}"]
    )
    assert page.locator("main").inner_text().count(text) == 1
    assert coloured(page) == set()
    expect(page.locator(".besides, .changes")).to_have_count(0)
    expect(page.locator(".chosen")).to_contain_text("not comparable")
    page.get_by_role("button", name="Colour all differences").click()
    eventually("all differences", lambda: "render" in coloured(page))
    expect(page.get_by_text("Not colour-coded")).to_have_count(0)


def test_answer_without_a_verdict_is_shown_by_counting_noise(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, None)
    expect(region(page)).to_contain_text("This answer has no verdict")
    assert "render" in coloured(page)
    expect(page.get_by_role("button", name="Show all differences")).to_have_count(0)
    expect(page.locator(".checks")).to_have_count(0)
    page.get_by_role("button", name="Table", exact=True).click()
    expect(page.locator(".panel tbody tr").filter(has_text="query")).to_contain_text("within counting noise")


def test_requests_scale_the_graph(shop: str, open_page: Open) -> None:
    # B took 160 ms/s and A 110, for twice as many requests: as much as 80.
    method = {**verdict()["method"], "unit": "request"}
    found = full(method=method, sampling_only=effect(0.0011, 0.0008, 0.0001), summary="B takes less.")
    page = opened(shop, open_page, found, names=("query", "render"))
    note = page.locator(".norm")
    expect(note).to_contain_text("B is scaled to A's number of requests.")
    query = hover(page, "query")
    assert "60.0 ms/s · 54.55 %" in query
    assert "30.0 ms/s · 37.50 %" in query
    assert f"▼ takes less time in B ({MINUS}50.0 %)" in query
    assert "▲ takes more time in B (+50.0 %)" in hover(page, "render")
    page.get_by_role("button", name="% of total").click()
    expect(note).not_to_contain_text("requests")


def test_full_verdict_with_warnings_is_accessible(shop: str, open_page: Open, axe: str) -> None:
    warned = check("Python", "mismatch", "warn", "A 3.11.7, B 3.14.0", "Compare like with like.")
    found = full(checks=[warned, check("mode")])
    found["functions"]["renamed_from"] = ["old", None]
    page = opened(shop, open_page, found)
    expect(page.get_by_role("region", name="Largest changes")).to_contain_text("was old")
    assert violations_in_both_themes(page, axe) == {}
    assert small_controls(page) == []


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
    expect(page.get_by_role("region", name="Largest changes")).to_be_visible()
    assert page.locator("main img, main script").count() == 0
    assert_fits(page, 320, 700)
    name = "%3Cb%20onclick%3Dalert(3)%3E%D7%A9%D7%9C%D7%95%D7%9D%2F%F0%9F%98%80%20%26%20co"
    page = open_page(f"{shop}/s/{name}/compare?baseline=version%3A1%3B2&comparison=match%3Apod%3D%22x%22")
    expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE_SERVICE)
    expect(region(page)).to_contain_text("B has no windows here")
    page.goto(f"{shop}/s/{name}/compare?baseline=version%3A1%3B2&comparison=match%3A")
    expect(sentence(page)).to_contain_text("CPU time")
    page.reload()
    expect(sentence(page)).to_contain_text("CPU time")
    boxes(page)
    assert page.locator("main img, main b, main script").count() == 0


def test_deploys_are_not_asked_for_where_they_are_off(shop: str, limited: str, open_page: Open) -> None:
    asked = "() => performance.getEntriesByType('resource').map(({ name }) => name)"
    for url, times in ((limited, 0), (shop, 1)):
        # A 404 would be an error in the browser's console, which fails the test.
        page = open_page(url)
        expect(page.get_by_role("link", name="shop", exact=True)).to_be_visible()
        page.goto(f"{url}/s/shop")
        assert boxes(page)
        page.wait_for_load_state("networkidle")
        assert sum("/api/v1/deploys" in name for name in page.evaluate(asked)) == times
