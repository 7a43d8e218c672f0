"""From the front page to why: what a comparison says, what it stands on, and what its sides can be."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.running import collector, eventually
from tests.web.conftest import HOSTILE_SERVICE, Open
from tests.web.flame import boxes, click, hover, outline
from tests.web.profiles import AFTER, BEFORE, WELL, send, windows
from tests.web.test_accessibility import violations

SIDES = "a=version%3Av1&b=version%3Av2&load=alike"
MAIN = "main (app.py:1)"
SLOW = "\n".join(
    f"{MAIN};work (shop/work.py:1);{name} {count}"
    for name, count in (
        ("parse (json/decoder.py:3)", 90),
        ("price (shop/rules.py:8)", 50),
        ("log (l.py:1)", 10),
    )
)
FAST = "\n".join(
    f"{MAIN};work (shop/work.py:1);{name} {count}"
    for name, count in (
        ("parse (json/decoder.py:3)", 40),
        ("price (shop/rules.py:8)", 30),
        ("log (l.py:1)", 9),
    )
)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a collector with two versions of a service, one older than an hour, and a capture."""
    folder = tmp_path_factory.mktemp("compare")
    with collector(folder, str(folder / "store")) as running:
        other = replace(WELL, python="3.14.0")
        send(
            running.url,
            windows("pay", "v1", FAST, minutes_ago=5),
            windows("pay", "v2", SLOW, minutes_ago=5, pods=3, quality=other),
            windows("old", "now", AFTER, minutes_ago=5),
            windows("old", "before", BEFORE, minutes_ago=300),
            windows("same", "v1", FAST, minutes_ago=30, count=1, pods=1),
            windows("same", "v2", FAST, minutes_ago=5, count=1, pods=1, capture="c_01abc"),
            windows("bare", "", FAST),
        )
        yield running.url


def verdict(page: Page) -> Locator:
    return page.get_by_role("region", name="Verdict")


def given(page: Page) -> dict[str, str]:
    return {
        name: values[0] for name, values in parse_qs(urlsplit(page.evaluate("location.href")).query).items()
    }


def test_three_clicks_lead_from_the_front_page_to_the_functions_that_are_why(
    stores: str, open_page: Open
) -> None:
    page = open_page(stores)
    page.get_by_role("link", name="pay", exact=True).click()
    page.get_by_role("link", name="Compare with previous version").click()
    expect(verdict(page).locator(".verdict")).to_contain_text("B takes 89.9 % more CPU time than A")
    expect(verdict(page)).to_contain_text("99 % of it comes from 2 call paths:")
    assert verdict(page).locator(".why").get_by_role("link").all_inner_texts() == ["parse", "price"]
    verdict(page).get_by_role("link", name="parse").click()
    expect(page.locator(".chosen strong")).to_have_text("parse (json/decoder.py)")
    expect(page.get_by_role("button", name="Whole graph")).to_be_enabled()


def test_the_reasons_say_how_much_each_took_and_what_went_the_other_way(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    expect(verdict(page)).to_contain_text("It comes from 3 call paths:")
    reasons = verdict(page).locator(".why li")
    assert [re.sub(r"\s+", " ", one) for one in reasons.all_inner_texts()] == [
        "loop ▲ +60.0 ms/s (120 %)",
        "cached ▲ +40.0 ms/s (80 %)",
        "legacy ▼ \N{MINUS SIGN}30.0 ms/s (\N{MINUS SIGN}60 %)",
    ]
    page.get_by_role("button", name="Swap the sides").click()
    expect(reasons.first).to_contain_text("loop ▼ \N{MINUS SIGN}60.0 ms/s (120 %)")


def test_every_check_is_listed_those_that_warn_as_lines_and_the_others_folded(
    stores: str, open_page: Open
) -> None:
    page = open_page(f"{stores}/s/pay/compare?{SIDES}")
    warned = page.get_by_role("list", name="Before you compare").get_by_role("listitem")
    python = warned.filter(has_text="python")
    expect(python).to_have_text(
        "python A 3.11.7, B 3.14.0: the standard library's frames can differ. "
        "Compare within one version of Python, or read changes of its own modules with care."
    )
    assert [words.split(" ")[0] for words in warned.all_inner_texts()] == ["python"]
    checks = page.locator(".checks")
    summary = checks.locator("summary")
    expect(summary).to_have_text("Nothing else speaks against comparing them; not known: load, contention")
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
            *("pods", "rate", "load", "contention", "time", "before", "measured"),
        ]
    )
    assert found["mode"] == "gil on both sides"
    assert found["load"].startswith("not known")
    page = open_page(f"{stores}/s/pay/compare?a=version%3Av1&b=version%3Av1")
    expect(page.locator(".checks summary")).to_have_text(
        "Nothing speaks against comparing them; not known: load, contention"
    )
    expect(page.locator(".doubts")).to_have_count(0)


def test_only_significant_hides_rows_and_greys_frames(stores: str, open_page: Open) -> None:
    page = open_page(f"{stores}/s/pay/compare?{SIDES}&view=table")
    rows = page.locator(".panel tbody tr")
    expect(rows.filter(has_text="l.py")).to_have_count(1)
    before = rows.count()
    page.get_by_role("button", name="Only significant").click()
    expect(rows.filter(has_text="l.py")).to_have_count(0)
    assert 0 < rows.count() < before
    assert given(page)["sig"] == "1"
    page.get_by_role("button", name="Side by side").click()
    grey = {each["name"].split(" ")[0] for each in boxes(page) if each["fill"] == "#c9ccd3"}
    assert "log" in grey
    assert not grey & {"parse", "price"}
    page.get_by_role("button", name="Only significant").click()
    eventually(
        "colours are back",
        lambda: all(each["fill"] != "#c9ccd3" or each["level"] == 0 for each in boxes(page)),
    )


def test_the_largest_changes_lead_to_the_graph_the_sandwich_and_a_link(stores: str, open_page: Open) -> None:
    page = open_page(f"{stores}/s/pay/compare?{SIDES}", permissions=["clipboard-read", "clipboard-write"])
    changes = page.get_by_role("region", name="Largest changes")
    rows = changes.locator("tbody tr")
    expect(rows).to_have_count(5)
    assert [row.split("\n")[0].split(" ")[0] for row in rows.get_by_role("rowheader").all_inner_texts()][
        :3
    ] == [
        *("main", "work", "parse"),
    ]
    parse = rows.filter(has_text="json/decoder.py")
    assert [re.sub(r"\s+", " ", cell) for cell in parse.locator("td").all_inner_texts()][:6] == [
        *("40.0 ms/s", "90.0 ms/s", "▲ +50.0 ms/s +42.0 to +58.0", "▲ +50.0 ms/s +42.0 to +58.0"),
        *("3 of 3", ".002"),
    ]
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


def test_versions_say_when_they_came_and_how_many_pods_and_older_ones_bring_their_time(
    stores: str, open_page: Open
) -> None:
    page = open_page(f"{stores}/s/old/compare?a=version%3Anow&b=version%3Anow")
    picker = page.get_by_label("Version of side A")
    expect(picker.locator("option", has_text="before")).to_have_text(
        re.compile("before · since 5 h ago · 2 pods")
    )
    picker.select_option("version:before")
    expect(page.get_by_role("region", name="Side A").locator(".basis")).to_contain_text("660 samples")
    assert given(page)["a"] == "version:before"
    assert {"a_from", "a_until"} <= set(given(page))
    expect(verdict(page).locator(".verdict")).to_contain_text("(0.110 → 0.160 seconds per pod-second)")
    page.get_by_label("Version of side A").select_option("version:now")
    eventually("the page's range again", lambda: "a_from" not in given(page))


def test_one_version_alone_offers_the_one_before_if_it_ran_lately(stores: str, open_page: Open) -> None:
    page = open_page(f"{stores}/s/old/compare")
    page.get_by_role("link", name="Compare with before, last seen 5 h ago").click()
    expect(verdict(page).locator(".verdict")).to_contain_text("(0.110 → 0.160 seconds per pod-second)")
    page = open_page(f"{stores}/s/bare/compare")
    expect(page.get_by_role("heading", name="Nothing to compare yet")).to_be_visible()
    expect(page.get_by_text("SIDELIGHT_VERSION")).to_be_visible()


def test_sides_of_which_nothing_tells_what_load_does_are_judged_once_load_is_said_to_be_alike(
    stores: str, open_page: Open
) -> None:
    page = open_page(f"{stores}/s/old/compare")
    page.get_by_role("link", name="Compare with before, last seen 5 h ago").click()
    said = verdict(page).locator(".verdict")
    expect(said).to_contain_text("nothing tells yet how far load alone makes such times differ")
    expect(page.get_by_text("Nothing is coloured, because all of it may be load.")).to_be_visible()
    doubts = page.get_by_role("list", name="Before you compare").get_by_role("listitem")
    expect(doubts.filter(has_text="before")).to_contain_text("load=alike")
    shown = {box["fill"] for box in boxes(page)}
    alike = page.get_by_role("button", name="Load was alike")
    alike.click()
    expect(said).to_contain_text("B takes 45.5 % more CPU time than A")
    assert given(page)["load"] == "alike"
    expect(page.get_by_text("all of it may be load")).to_have_count(0)
    eventually("what changed has its colour", lambda: {box["fill"] for box in boxes(page)} - shown)
    alike.click()
    expect(said).to_contain_text("nothing tells yet")
    assert "load" not in given(page)
    page = open_page(f"{stores}/s/pay/compare?{SIDES.replace('&load=alike', '')}")
    expect(verdict(page).locator(".verdict")).to_contain_text("B takes 89.9 % more CPU time than A")
    expect(page.get_by_role("button", name="Load was alike")).to_have_count(0)


def test_a_side_can_be_a_capture_any_label_or_another_time(stores: str, open_page: Open) -> None:
    page = open_page(f"{stores}/s/same/compare?{SIDES}", expected="404")
    a = page.get_by_role("region", name="Side A")
    expect(a.locator(".basis")).to_contain_text("79 samples")
    a.get_by_label("Version of side A").select_option("capture")
    expect(a.get_by_label("Capture of side A").locator("option", has_text="c_01abc")).to_have_count(1)
    a.get_by_label("Capture of side A").select_option("c_01abc")
    eventually("the capture is a side", lambda: given(page)["a"] == 'match:capture="c_01abc"')
    expect(a.locator(".basis")).to_contain_text("79 samples")
    page.reload()
    expect(a.get_by_label("Capture of side A")).to_have_value("c_01abc")
    a.get_by_label("Version of side A").select_option("match:")
    a.get_by_label("Matchers of side A").fill("")
    a.get_by_role("button", name="Set", exact=True).click()
    a.get_by_role("button", name="+ label").click()
    a.get_by_label("Label", exact=True).select_option("pod")
    a.get_by_role("option", name="same-v1-0").click()
    eventually("a label is a side", lambda: given(page)["a"] == 'match:pod="same-v1-0"')
    a.locator("summary").first.click()
    a.get_by_role("button", name="the day before").click()
    eventually("another time", lambda: "a_from" in given(page))
    expect(verdict(page).locator(".verdict")).to_contain_text("A has no windows here")
    a.get_by_role("button", name="Use the page's range").click()
    expect(a.locator(".basis")).to_contain_text("79 samples")


def test_too_little_data_says_about_how_much_more_is_needed(stores: str, open_page: Open) -> None:
    page = open_page(f"{stores}/s/same/compare?{SIDES}")
    expect(verdict(page)).to_contain_text(
        re.compile(r"Not enough data to tell .*\. Take at least .+ more of both sides\.")
    )


def test_only_one_side_keeps_the_focus(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    click(page, "render")
    expect(page.get_by_role("button", name="Whole graph")).to_be_enabled()
    page.get_by_role("link", name="only B").click()
    expect(page.locator(".chosen strong")).to_have_text("render (jinja2/runtime.py)")
    expect(page.get_by_role("button", name="Whole graph")).to_be_enabled()
    assert given(page)["query"] == 'version="v2"'


def test_side_by_side_links_what_is_pointed_at(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}&view=sides")
    assert "A total" in hover(page, "query", 0)
    pixels = """at => { const [x, y] = [at.width / 2, 70 * at.height / at.clientHeight];
        return [...at.getContext('2d').getImageData(x, y, 1, 1).data] }"""
    assert page.locator(".flame canvas").nth(1).evaluate(pixels)
    assert outline(page, 0)[:2] == outline(page, 1)[:2] == ["0 total", "1 main (app.py)"]


def test_per_request_is_not_offered_because_nothing_counts_requests(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    group = page.get_by_role("group", name="Normalise by")
    expect(group.get_by_role("button")).to_have_text(["Per pod-second", "Share of side"])


def test_pressing_the_link_asks_once(stores: str, open_page: Open) -> None:
    page = open_page(f"{stores}/s/pay")
    asked: list[str] = []

    def note(route: Route) -> None:
        asked.append(route.request.url)
        route.continue_()

    page.route("**/api/v1/compare?**", note)
    link = page.get_by_role("link", name="Compare with previous version")
    link.hover()
    page.mouse.down()
    eventually("it is asked while the button is pressed", lambda: page.title() and len(asked) == 1)
    page.mouse.up()
    expect(verdict(page).locator(".verdict")).to_contain_text("B takes 89.9 % more CPU time than A")
    assert len(asked) == 1


def test_hostile_names_are_text(shop: str, open_page: Open) -> None:
    name = "%3Cb%20onclick%3Dalert(3)%3E%D7%A9%D7%9C%D7%95%D7%9D%2F%F0%9F%98%80%20%26%20co"
    page = open_page(f"{shop}/s/{name}/compare?a=version%3A1%3B2&b=match%3Apod%3D%22x%22")
    expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE_SERVICE)
    expect(verdict(page)).to_contain_text("B has no windows here")
    page = open_page(f"{shop}/s/{name}/compare?a=match:&b=match:")
    boxes(page)
    assert page.locator("main img, main b, main script").count() == 0


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(
    "path",
    [
        f"pay/compare?{SIDES}&sig=1",
        "pay/compare?a=match:&b=match%3Acapture%3D%22%22",
        f"same/compare?{SIDES}",
        "old/compare",
    ],
)
def test_it_breaks_no_rule_of_accessibility(
    stores: str, open_page: Open, axe: str, path: str, theme: str
) -> None:
    page = open_page(f"{stores}/s/{path}&theme={theme}".replace("compare&", "compare?"), expected="404")
    expect(page.locator(".card").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    assert violations(page, axe) == []
    small = page.evaluate(
        """() => [...document.querySelectorAll(
            'button, .button, summary, select, input:not([type=checkbox]), .why a, .changes a')]
            .filter(at => at.offsetParent && at.getBoundingClientRect().height < 24)
            .map(at => at.outerHTML)"""
    )
    assert small == []


def test_it_fits_360_pixels(stores: str, open_page: Open) -> None:
    page = open_page(f"{stores}/s/pay/compare?{SIDES}")
    page.set_viewport_size({"width": 360, "height": 740})
    boxes(page)
    expect(page.get_by_role("region", name="Largest changes")).to_be_visible()
    main = page.locator("main")
    eventually("the page is no wider", lambda: main.evaluate("at => at.scrollWidth") <= 360)
