"""What can be done with a frame: its menu, and its numbers docked beside the graph."""

from __future__ import annotations

from playwright.sync_api import Locator, Page, expect

from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import box, boxes, click, graph, outline, point, widths
from tests.web.rules import violations_in_both_themes

V2 = "?query=version%3D%22v2%22"
STACK = "main (app.py)\nhandle (shop/views.py)\nrender (jinja2/runtime.py)\nloop (jinja2/runtime.py)"


def menu(page: Page) -> Locator:
    return page.get_by_role("menu")


def right_click(page: Page, name: str) -> None:
    page.mouse.click(*point(page, name), button="right")
    expect(menu(page)).to_be_visible()


def clipboard(page: Page) -> str:
    text: str = page.evaluate("navigator.clipboard.readText()")
    return text


def test_a_right_click_offers_what_can_be_done_with_the_frame_and_copies_parts_of_it(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/shop{V2}")
    right_click(page, "render")
    expect(menu(page)).to_have_accessible_name("Actions for render (jinja2/runtime.py)")
    menu(page).get_by_role("menuitem", name="Zoom in").click()
    expect(menu(page)).to_have_count(0)
    eventually("it is zoomed into", lambda: widths(page)["render"] == widths(page)["total"])
    right_click(page, "render")
    menu(page).get_by_role("menuitem", name="Reset zoom").click()
    eventually("all is in view", lambda: len(boxes(page)) == 7)
    right_click(page, "query")
    menu(page).get_by_role("menuitem", name="Highlight all").click()
    expect(page.locator(".matched")).to_contain_text("1 frame · 37.5 %")
    # Parts of a frame can be copied.
    page.goto(f"{shop}/s/shop{V2}")
    for item, copied in (
        ("Copy function", "loop"),
        ("Copy stack", STACK),
        ("Copy file", "jinja2/runtime.py"),
        ("Copy file and line", "jinja2/runtime.py:90"),
    ):
        if "line" in item:
            page.goto(f"{shop}/s/shop{V2}&by=line")
        right_click(page, "loop")
        menu(page).get_by_role("menuitem", name=item).click()
        eventually(item, lambda copied=copied: clipboard(page) == copied)


def test_menu_dock_and_minimap_are_used_by_keys_accessible_and_in_view(
    shop: str, open_page: Open, axe: str
) -> None:
    page = open_page(f"{shop}/s/shop{V2}")
    boxes(page)
    page.locator(".flame canvas").focus()
    page.keyboard.press("ArrowDown")
    for opening in ("Shift+F10", "ContextMenu"):
        page.keyboard.press(opening)
        expect(menu(page).get_by_role("menuitem").first).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(menu(page).get_by_role("menuitem").nth(1)).to_be_focused()
        page.keyboard.press("End")
        expect(menu(page).get_by_role("menuitem").last).to_be_focused()
        page.keyboard.press("ArrowDown")
        expect(menu(page).get_by_role("menuitem").first).to_be_focused()
        page.keyboard.press("c")
        expect(menu(page).get_by_role("menuitem", name="Callers and callees")).to_be_focused()
        page.keyboard.press("Escape")
        expect(menu(page)).to_have_count(0)
        expect(page.locator(".flame canvas")).to_be_focused()
    assert box(page, "main")["width"] == widths(page)["total"]
    right_click(page, "query")
    page.mouse.click(5, 5)
    expect(menu(page)).to_have_count(0)
    # Beside the graph lies the dock.
    page.goto(f"{shop}/s/shop{V2}")
    click(page, "render")
    eventually("it is zoomed into", lambda: "3 query (shop/db.py)" not in outline(page))

    def places() -> tuple[dict[str, float], dict[str, float]]:
        drawn, dock = page.locator(".flame").bounding_box(), page.locator(".chosen.docked").bounding_box()
        assert drawn
        assert dock
        return dict(drawn), dict(dock)

    eventually(
        "the dock lies beside the graph", lambda: places()[1]["x"] >= places()[0]["x"] + places()[0]["width"]
    )
    expect(page.get_by_role("slider", name="Part of the whole")).to_be_visible()
    assert violations_in_both_themes(page, axe) == {}
    page.locator(".flame canvas").focus()
    page.keyboard.press("Shift+F10")
    expect(menu(page)).to_be_visible()
    assert violations_in_both_themes(page, axe) == {}
    area, opened = page.locator(".flame canvas").bounding_box(), menu(page).bounding_box()
    assert area
    assert opened
    assert opened["x"] >= area["x"]
    assert opened["x"] + opened["width"] <= 1280
    assert opened["y"] + opened["height"] <= 900
    page.keyboard.press("Escape")
    page.set_viewport_size({"width": 360, "height": 800})
    eventually("the graph has all of the width", lambda: places()[0]["width"] > 250)
    drawn, dock = places()
    assert dock["y"] >= drawn["y"] + drawn["height"]
    assert dock["x"] + dock["width"] <= 360


def test_docked_numbers_stay_with_the_frame_and_can_be_selected(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2")
    # It is there from the beginning; with the pointer on another frame the key shows that one.
    page.mouse.move(*point(page, "render"))
    page.keyboard.press("d")
    dock = page.locator(".chosen.docked")
    expect(dock.locator("strong")).to_have_text("render (jinja2/runtime.py)")
    for row in ("A total", "A self", "B total", "B self", "change"):
        expect(dock.locator("dt").get_by_text(row, exact=True)).to_be_visible()
    page.mouse.move(*point(page, "query"))
    expect(graph(page).locator(".flame-tooltip")).to_contain_text("query (shop/db.py)")
    expect(dock.locator("strong")).to_have_text("render (jinja2/runtime.py)")
    dock.locator("strong").select_text()
    assert page.evaluate("getSelection().toString()") == "render (jinja2/runtime.py)"
    dock.get_by_text("Called through 2 frames").click()
    assert dock.locator("li").all_inner_texts() == ["main (app.py)", "handle (shop/views.py)"]
    dock.get_by_role("button", name="Details panel").click()
    expect(page.locator(".chosen.docked")).to_have_count(0)
