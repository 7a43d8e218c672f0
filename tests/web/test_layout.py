"""The picture first: where the graph begins, how much of it is in view, and what comes before it.

A verdict with everything in it is in `test_compare_page.py`.
"""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import ROW_PIXELS, boxes, graph

PROFILE = "/s/shop"
BAD_PROFILE = "/s/low?type=wall"
"""With warnings about the data."""
COMPARISON = "/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2"
BAD_COMPARISON = "/s/mixed/compare?baseline=version%3Agood&comparison=version%3Aunsafe"
TARGETS = {
    # Window: the first pixel and the rows of a profile, and of a comparison.
    (1440, 900): ((190, 28), (330, 20)),
    (1280, 720): ((190, 20), (330, 12)),
    (2560, 1300): ((190, 40), (330, 32)),
}
MOST_TAB_STOPS = 15
TAB_STOPS = """() => {
  const all = [...document.querySelectorAll('a[href], button, input, select, textarea, summary, [tabindex]')]
    .filter(at => at.tabIndex >= 0 && !at.disabled && at.checkVisibility({ visibilityProperty: true }));
  return all.findIndex(at => at.matches('.flame canvas'));
}"""


def measured(page: Page) -> dict[str, float]:
    """Where the rows begin and end in the window, and how much of its width they and their panel take."""
    graph(page).locator("canvas[data-drawn]").wait_for()
    found: dict[str, float] = page.evaluate(
        """() => {
            const rows = document.querySelector('.flame-scroll').getBoundingClientRect();
            const panel = document.querySelector('.graphs').getBoundingClientRect();
            return { top: rows.top, rows: (Math.min(rows.bottom, innerHeight) - rows.top) / 20,
                     bottom: rows.bottom, panel: panel.width, page: document.documentElement.scrollHeight,
                     wide: document.documentElement.scrollWidth,
                     cut: document.querySelector('.legend').scrollWidth
                        - document.querySelector('.legend').clientWidth };
        }"""
    )
    return found


IS_LAST_ROW_IN_VIEW = """graph => {
    const { left, bottom } = graph.getBoundingClientRect();
    return graph.contains(document.elementFromPoint(left + 100, Math.min(bottom, innerHeight) - 10));
}"""


def test_graph_begins_high_and_fills_the_window(
    shop: str, open_page: Open, subtests: pytest.Subtests
) -> None:
    page = open_page("about:blank")
    for (width, height), (profile, comparison) in TARGETS.items():
        page.set_viewport_size({"width": width, "height": height})
        for address, (top, rows) in (
            (PROFILE, profile),
            (BAD_PROFILE, profile),
            (COMPARISON, comparison),
            (BAD_COMPARISON, comparison),
        ):
            with subtests.test(f"{address} at {width}x{height}"):
                page.goto(shop + address)
                at = measured(page)
                assert at["top"] <= top
                assert at["rows"] >= rows
                assert at["panel"] >= width - 40
                assert at["page"] <= height
                assert at["wide"] <= width
                assert at["cut"] == 0
                # Nothing covers its last row, also while a frame is selected.
                graph(page).locator("canvas").press("ArrowDown")
                expect(page.locator(".chosen strong")).not_to_be_empty()
                assert measured(page) == at
                assert graph(page).locator(".flame-scroll").evaluate(IS_LAST_ROW_IN_VIEW)


@pytest.mark.parametrize("width", [1440, 390])
def test_graph_keeps_its_place_when_the_timeline_arrives_after_it(
    shop: str, open_page: Open, width: int
) -> None:
    page = open_page("about:blank", viewport={"width": width, "height": 900})
    held: list[Route] = []
    page.route("**/api/v1/timeline?*", lambda route: held.append(route))
    page.goto(shop + PROFILE)
    before = measured(page)
    expect(page.locator(".strip > .waiting")).to_be_visible()
    for route in held:
        route.continue_()
    expect(page.locator(".strip .plot")).to_be_visible()
    assert measured(page) == before


def test_nothing_moves_under_the_pointer_when_a_frame_is_chosen(
    shop: str, open_page: Open, subtests: pytest.Subtests
) -> None:
    page = open_page("about:blank", viewport={"width": 1440, "height": 900}, reduced_motion="reduce")
    for address in (PROFILE, COMPARISON):
        with subtests.test(address):
            page.goto(shop + address)
            assert_nothing_moves(page)


def assert_nothing_moves(page: Page) -> None:
    before = measured(page)
    area = graph(page).locator("canvas").bounding_box()
    assert area
    page.mouse.move(area["x"] + area["width"] * 0.9, area["y"] + ROW_PIXELS / 2)
    expect(page.locator(".flame-tooltip")).to_be_visible()
    page.mouse.down()
    page.mouse.up()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    eventually("the graph keeps its place and height", lambda: measured(page) == before)
    # Its numbers would be those of another frame.
    expect(page.locator(".flame-tooltip")).to_be_hidden()
    page.mouse.move(area["x"] + area["width"] * 0.9 + 2, area["y"] + ROW_PIXELS / 2)
    expect(page.locator(".flame-tooltip")).to_be_visible()
    page.keyboard.press("i")
    expect(page.locator("details.direction summary")).to_have_text("Bottom-up ▾")
    expect(page.locator(".flame-tooltip")).to_be_hidden()
    assert measured(page) == before
    page.locator("#search").fill("query")
    expect(page.locator(".matched")).to_be_visible()
    assert measured(page) == before


def test_picture_comes_first_on_a_phone_too(shop: str, open_page: Open) -> None:
    page = open_page("about:blank", has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    for address, top in ((PROFILE, 240), (BAD_PROFILE, 240), (COMPARISON, 460), (BAD_COMPARISON, 460)):
        page.goto(shop + address)
        at = measured(page)
        assert at["top"] <= top, address
        assert at["rows"] >= 16, address
        assert at["wide"] == 390
    page.goto(f"{shop}{COMPARISON}&view=tree")
    tree = page.get_by_role("treegrid").locator("xpath=..")
    assert tree.evaluate("box => box.scrollWidth - box.clientWidth") == 0
    page.goto(shop + PROFILE)
    expect(page.get_by_role("button", name="shop: switch to another service")).to_be_in_viewport()
    # Tools that are out of view fade out, and scroll into it.
    more = page.get_by_label("More options")
    more.click()
    sheet = more.locator("xpath=..").locator(".choices").bounding_box()
    assert sheet
    assert 0 <= sheet["x"] <= sheet["x"] + sheet["width"] <= 390
    assert 0 <= sheet["y"] <= sheet["y"] + sheet["height"] <= 844
    page.keyboard.press("Escape")
    # A hint is in words of the device, and gone for good once it is dismissed.
    expect(page.locator(".hint")).to_contain_text("Pinch to zoom")
    page.get_by_role("button", name="Hide this hint").click()
    expect(page.locator(".hint")).to_have_count(0)
    page.reload()
    measured(page)
    expect(page.locator(".hint")).to_have_count(0)


SHOWN_CELLS = """row => [...row.cells].filter(cell => {
    const { left, right, width } = cell.getBoundingClientRect();
    return cell.checkVisibility() && width > 0 && left >= 0 && right <= innerWidth;
}).map(cell => cell.innerText)"""


def test_tables_on_a_phone_show_the_numbers_that_matter(
    shop: str, open_page: Open, subtests: pytest.Subtests
) -> None:
    page = open_page("about:blank", viewport={"width": 390, "height": 844})
    for address, name, numbers in (
        ("/s/shop?view=table&query=version%3D%22v2%22", "loop", [r"37\.50 %", r"37\.50 %"]),
        (f"{COMPARISON}&view=table", "legacy", [r"▼ .27\.27", r"▼ .27\.27", r"\.\d+$"]),
        ("/services?query=service%3D%22shop%22", "shop", [r"[+]\d+(\.\d)? %", r"^\d+\.\d+", r"^\d+"]),
        ("/fleet/functions?q=legacy", "legacy", [r"^\d+\.\d+", r"\d %", "service"]),
    ):
        with subtests.test(address):
            page.goto(shop + address)
            row = page.locator(".wide tbody tr:visible").filter(has_text=name).last
            expect(row).to_contain_text(re.compile(numbers[0].lstrip("^")))
            shown = row.evaluate(SHOWN_CELLS)
            assert name in shown[0]
            for number, cell in zip(numbers, shown[1:], strict=False):
                assert re.search(number, cell), shown


def test_few_tab_stops_come_before_the_graph_and_arrows_reach_the_rest(shop: str, open_page: Open) -> None:
    page = open_page("about:blank")
    for address in (BAD_COMPARISON, COMPARISON, BAD_PROFILE, PROFILE):
        page.goto(shop + address)
        measured(page)
        expect(page.get_by_role("button", name="Share", exact=True)).to_be_visible()
        assert 0 < page.evaluate(TAB_STOPS) <= MOST_TAB_STOPS, address
    tools = page.get_by_role("toolbar", name="Graph tools")
    tools.get_by_role("radio", name="Graph").focus()
    page.keyboard.press("ArrowRight")
    table = tools.get_by_role("radio", name="Table")
    expect(table).to_be_focused()
    expect(table).not_to_be_checked()
    page.keyboard.press("End")
    # Reset zoom is disabled.
    expect(tools.locator("details.direction summary")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(tools.get_by_role("radio", name="Graph")).to_be_focused()
    types = page.get_by_label("Profile type")
    types.focus()
    page.keyboard.press("ArrowDown")
    expect(types).to_have_value("wall")
    expect(types).to_be_focused()
    # Leading frames of all time are one row that unfolds.
    page.goto(f"{shop}/s/shop?query=version%3D%22v2%22")
    graph(page).locator("canvas[data-drawn]").wait_for()
    rows = "host => host.boxes().map(box => box.name)"
    folded = graph(page).evaluate(rows)
    assert folded[0] == "cached (shop/cache.py)"
    page.get_by_role("button", name="3 frames").click()
    eventually("all frames are drawn", lambda: graph(page).evaluate(rows)[:2] == ["total", "main (app.py)"])


def test_bar_stays_the_timeline_unfolds_and_numbers_never_cover_the_graph(shop: str, open_page: Open) -> None:
    page = open_page(shop + PROFILE, viewport={"width": 1280, "height": 720})
    measured(page)
    bar = page.get_by_role("banner")
    for name in ("Profile", "Compare", "Depth", "Pods"):
        expect(bar.get_by_role("link", name=name, exact=True)).to_be_visible()
    expect(bar.get_by_role("button", name="Capture", exact=True)).to_be_visible()
    expect(page.locator(".flag")).to_have_count(0)
    page.get_by_role("button", name="Unfold the timeline").click()
    expect(page.locator(".flag")).to_have_count(2)
    page.mouse.wheel(0, 4000)
    eventually("the page has scrolled", lambda: page.evaluate("scrollY") > 0)
    place = bar.bounding_box()
    assert place
    assert place["y"] == 0
    page.get_by_role("link", name="Compare", exact=True).click()
    page.get_by_role("link", name="Profile", exact=True).click()
    expect(page.locator(".flag")).to_have_count(2)
    page.get_by_role("button", name="Fold the timeline").click()
    expect(page.locator(".flag")).to_have_count(0)
    # On a phone the numbers never cover the graph.
    page.goto(f"{shop}/s/shop/compare")
    page.set_viewport_size({"width": 390, "height": 700})
    boxes(page)
    area, numbers = (page.locator(each).bounding_box() for each in (".flame-scroll", ".chosen"))
    assert area
    assert numbers
    assert numbers["y"] >= area["y"] + area["height"]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
