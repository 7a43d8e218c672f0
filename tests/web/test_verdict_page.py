"""The compare page in the states that a verdict can have: what it says, colours and offers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.running import eventually
from tests.web.conftest import Open
from tests.web.flame import boxes
from tests.web.found import Json, check, columns, effect, judged, verdict
from tests.web.test_accessibility import violations

SIDES = "a=version%3Av1&b=version%3Av2&load=alike"
GREY = "#c9ccd3"
HOSTILE = "<img src=x onerror=alert(1)>\u202e;\N{GRINNING FACE}" + "x" * 2000


def opened(shop: str, open_page: Open, found: Json | None, more: str = "", **options: Any) -> Page:
    page: Page = open_page(f"{shop}/services", **options)
    judged(page, found)
    page.goto(f"{shop}/s/shop/compare?{SIDES}{more}")
    expect(page.locator(".verdict")).to_be_visible()
    expect(page.locator(".verdict")).not_to_have_text("Loading the comparison…")
    return page


def region(page: Page) -> Locator:
    return page.get_by_role("region", name="Verdict")


def coloured(page: Page) -> set[str]:
    return {each["name"].split(" ")[0].lstrip("▲▼ ") for each in boxes(page) if each["fill"] != GREY}


def said(page: Page) -> list[str]:
    return [re.sub(r"\s+", " ", one) for one in region(page).locator(".besides li").all_inner_texts()]


def test_the_page_leads_with_the_sentence_and_says_it_to_those_who_listen(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, verdict())
    sentence = region(page).get_by_role("status")
    expect(sentence).to_have_text("B takes 45.5 % more CPU time than A.")
    order = page.evaluate(
        """[...document.querySelectorAll('.verdict, .checks, .viewbar, .flame-graph, .changes')]
            .map(at => at.classList[0])"""
    )
    assert order == ["verdict", "numbers", "viewbar", "flame-graph", "card"]


def test_depth_idle_time_and_the_loop_have_sentences_with_intervals(shop: str, open_page: Open) -> None:
    holders = [{"function": "hash", "file": "app.py", "a": 0.1, "b": 0.3, "effect": effect(0.1, 0.3, 0.02)}]
    found = verdict(
        loop={"busy": effect(0.4, 0.55, 0.02), "holders": holders},
        roles=[
            {"thread": "main", "idle": effect(0.2, 0.1, 0.02)},
            {"thread": "other", "idle": effect(0.9, 0.9, 0.02)},
        ],
    )
    page = opened(shop, open_page, found)
    assert said(page) == [
        "Stacks are deeper in B: 40.7 → 46.1 frames on average (+5.4, between +4.9 and +5.9).",
        "Threads wait more in B: 58.0 % → 62.0 % of their time (+4.0 points, between +3.0 and +5.0)"
        "; main threads 20.0 % → 10.0 %; others 90.0 % → 90.0 %.",
        "The event loop is busier in B: 40.0 % → 55.0 % of its time (+15.0 points, between +13.0 and +17.0)"
        "; it is held by hash (10.0 % → 30.0 %).",
    ]
    expect(region(page).get_by_title("95 % interval")).to_have_count(3)
    region(page).get_by_role("link", name="Threads wait more in B").click()
    expect(page.get_by_role("group", name="Type").get_by_role("button", name="Wall")).to_have_attribute(
        "aria-pressed", "true"
    )
    page.go_back()
    region(page).get_by_role("link", name="Stacks are deeper in B").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Stack depth of shop")


def test_what_did_not_change_and_what_cannot_be_told_are_two_things(shop: str, open_page: Open) -> None:
    found = verdict(
        idle=effect(0.58, 0.6, 0.2, "unclear"),
        depth={"mean": effect(40.7, 40.8, 0.5)},
        direction="unclear",
    )
    page = opened(shop, open_page, found)
    depth, idle = said(page)
    assert depth.startswith("Stacks are as deep in B as in A: 40.7 → 40.8")
    assert idle.startswith("Whether threads wait more in B cannot be told yet: 58.0 % → 60.0 % of their time")


def test_the_graph_colours_what_is_outside_noise_and_nothing_else(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, verdict())
    assert coloured(page) == {"render"}
    assert {each["hatch"] for each in boxes(page)} == {""}
    page.get_by_role("button", name="Raw differences").click()
    eventually("raw differences", lambda: {"render", "loop", "legacy", "cached"} <= coloured(page))
    assert "raw=1" in page.url
    page.go_back()
    eventually("only what is outside noise", lambda: coloured(page) == {"render"})
    page.get_by_role("button", name="Only significant").click()
    page.get_by_role("button", name="Side by side").click()
    eventually("sides turn grey too", lambda: coloured(page) == {"render", "total"})


def test_a_turned_graph_colours_what_stands_for_something_outside_noise(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, verdict(), "&invert=1")
    # Below `loop`, which is not outside noise, stands its caller `render`, which is.
    assert coloured(page) == {"render"}


def test_the_explanation_leads_to_the_place_in_the_graph(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, verdict(), "&invert=1&t=drop%3Aquery&q=x&by=file")
    why = region(page).locator(".why")
    assert re.sub(r"\s+", " ", why.inner_text()) == (
        "80 % of it comes from one call path: render ▲ +40.0 ms/s (80 %)"
    )
    why.get_by_role("link", name="render").click()
    expect(page.locator(".chosen strong")).to_have_text("render (jinja2/runtime.py)")
    expect(page.get_by_role("button", name="Whole graph")).to_be_enabled()
    assert boxes(page)


def test_changes_have_intervals_pods_that_agree_and_q(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, verdict())
    rows = page.get_by_role("region", name="Largest changes").locator("tbody tr")
    expect(rows).to_have_count(1)
    cells = [re.sub(r"\s+", " ", cell) for cell in rows.locator("td").all_inner_texts()]
    change = "▲ +40.0 ms/s +36.0 to +44.0"
    assert cells[:6] == ["20.0 ms/s", "60.0 ms/s", change, change, "5 of 6", "<.001"]
    page.get_by_role("link", name="All 2 functions").click()
    expect(page.get_by_role("columnheader", name="Pods agree")).to_be_visible()
    table = page.locator(".panel tbody tr")
    assert re.sub(r"\s+", " ", table.filter(has_text="render").inner_text()).endswith(
        " +200.0 % 5 of 6 <.001"
    )
    assert re.sub(r"\s+", " ", table.filter(has_text="legacy").inner_text()).endswith(
        "within noise \N{EN DASH} \N{EN DASH}"
    )
    page.get_by_role("button", name="Only significant").click()
    expect(table).to_have_count(1)


def test_a_renamed_function_says_what_it_was(shop: str, open_page: Open) -> None:
    found = verdict()
    found["functions"]["renamed_from"] = ["render_page (jinja2/runtime.py)", None]
    page = opened(shop, open_page, found)
    expect(page.get_by_role("region", name="Largest changes")).to_contain_text(
        "was render_page (jinja2/runtime.py)"
    )


def test_sides_that_cannot_be_compared_say_why_and_are_not_coloured(shop: str, open_page: Open) -> None:
    why = check("mode", "differs", "refuse", "A blocking, B nonblocking", "Use one mode on both sides.")
    found = verdict(
        sentence="The sides cannot be compared: their modes differ.", direction="incomparable", checks=[why]
    )
    page = opened(shop, open_page, found)
    # What differs stands in the sentence; what to do, in a line of its own.
    expect(page.locator(".doubts li")).to_have_text(["mode Use one mode on both sides."])
    assert coloured(page) == set()
    expect(page.locator(".besides, .changes")).to_have_count(0)
    expect(page.locator(".chosen")).to_contain_text("not comparable")
    page.get_by_role("button", name="Show raw differences").click()
    eventually("raw differences", lambda: "render" in coloured(page))
    expect(page.get_by_text("Nothing is coloured")).to_have_count(0)


def test_without_a_verdict_the_page_says_so_and_works(shop: str, open_page: Open) -> None:
    page = opened(shop, open_page, None)
    expect(region(page)).to_contain_text("This answer has no verdict")
    assert "render" in coloured(page)
    expect(page.get_by_role("button", name="Raw differences")).to_have_count(0)
    expect(page.locator(".checks")).to_have_count(0)
    page.get_by_role("button", name="Table", exact=True).click()
    expect(page.locator(".panel tbody tr").filter(has_text="query")).to_contain_text("within counting noise")


def test_numbers_that_cannot_be_had_are_left_out(shop: str, open_page: Open) -> None:
    blank = {"low": None, "high": None, "relative": None}
    found = verdict(idle=None, depth={"mean": effect(3, 4, 0.1, **blank)})
    found["functions"]["total"]["q"] = [None, None]
    found["functions"]["total"]["low"] = [None, None]
    page = opened(shop, open_page, found)
    assert said(page) == ["Stacks are deeper in B: 3.00 → 4.00 frames on average (+1.0)."]
    expect(page.get_by_role("region", name="Largest changes")).to_contain_text("5 of 6")
    assert "null" not in page.locator("main").inner_text()


def test_hostile_names_are_text_and_fit(shop: str, open_page: Open) -> None:
    found = verdict(
        loop={
            "busy": effect(0.4, 0.5, 0.01),
            "holders": [{"function": HOSTILE, "file": HOSTILE, "effect": effect(0, 0.1, 0.01)}],
        },
        checks=[check("Python", "differs", "warn", HOSTILE, HOSTILE)],
        sentence=HOSTILE,
        explanation={"share": 0.9, "paths": [{"names": [HOSTILE, HOSTILE], "delta": 1, "share": 0.9}]},
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
    main = page.locator("main")
    eventually("the page is no wider", lambda: main.evaluate("at => at.scrollWidth") <= 320)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_breaks_no_rule_of_accessibility(shop: str, open_page: Open, axe: str, theme: str) -> None:
    holders = [{"function": "hash", "file": "app.py", "a": 0.1, "b": 0.3, "effect": effect(0.1, 0.3, 0.02)}]
    warned = [
        check("Python", "differs", "warn", "A 3.11.7, B 3.14.0", "Compare like with like."),
        check("mode"),
    ]
    found = verdict(
        loop={"busy": effect(0.4, 0.55, 0.02), "holders": holders},
        checks=warned,
    )
    found["functions"]["renamed_from"] = ["old", None]
    page = opened(shop, open_page, found, f"&theme={theme}")
    expect(page.get_by_role("region", name="Largest changes")).to_be_visible()
    assert violations(page, axe) == []
    small = page.evaluate(
        """() => [...document.querySelectorAll('button, .button, summary, .why a, .besides a, .changes a')]
            .filter(at => at.offsetParent && at.getBoundingClientRect().height < 24)
            .map(at => at.outerHTML)"""
    )
    assert small == []
