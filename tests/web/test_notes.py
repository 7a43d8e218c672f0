"""Notes on ranges and functions, and the tooltip that stays."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from tests.web.conftest import Open
from tests.web.flame import boxes, graph, hover, point
from tests.web.rules import assert_fits, clipboard_after, small_controls, violations_in_both_themes

HOSTILE = "<img src=x onerror=alert(1)>"


def dialog(page: Page) -> Locator:
    return page.get_by_role("dialog")


def write(page: Page, text: str) -> None:
    dialog(page).get_by_label("New note:").fill(text)
    dialog(page).get_by_role("button", name="Save").click()
    expect(dialog(page).locator(".note-text").filter(has_text=text)).to_be_visible()


def test_a_note_on_a_range_is_marked_and_can_be_changed_and_deleted(
    shop: str, open_page: Open, axe: str
) -> None:
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    timeline = page.get_by_role("slider")
    timeline.focus()
    for key in ("End", "Shift+Home"):
        timeline.press(key)
    page.get_by_role("group", name="Selected range").get_by_role("button", name="Add note").click()
    write(page, f"Cache on {HOSTILE}")
    expect(dialog(page)).to_contain_text("anonymous")
    assert violations_in_both_themes(page, axe) == {}
    assert small_controls(page) == []
    dialog(page).get_by_role("button", name="Close").click()
    # The strip has a mark, whose text shows under the pointer and the focus.
    expect(page.locator(".plot .note-mark")).to_have_count(1)
    expect(timeline).to_have_attribute("aria-valuetext", re.compile(r"note: Cache on <img"))
    timeline.hover()
    expect(page.locator(".chart-tip")).to_contain_text("note: Cache on <img")
    assert_fits(page)
    # Others see it as well, also on the comparison.
    other = open_page(f"{shop}/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2")
    other.get_by_role("button", name="1 note", exact=True).click()
    dialog(other).get_by_role("button", name="Edit").click()
    dialog(other).get_by_label("Change the note:").fill("Cache off")
    dialog(other).get_by_role("button", name="Save change").click()
    expect(dialog(other).locator(".note-text")).to_have_text("Cache off")
    expect(dialog(other)).to_contain_text("changed by anonymous")
    dialog(other).get_by_role("button", name="Delete").click()
    dialog(other).get_by_role("button", name="Really delete?").click()
    expect(dialog(other)).to_contain_text("There are no notes yet.")
    page.set_viewport_size({"width": 1280, "height": 720})
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator(".plot .note-mark")).to_have_count(0)


def test_a_note_on_a_frame_is_marked_in_the_graph_and_the_table(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop?view=both")
    page.mouse.click(*point(page, "render"), button="right")
    page.get_by_role("menuitem", name="Notes …").click()
    expect(dialog(page)).to_contain_text("Notes on render (jinja2/runtime.py)")
    write(page, f"Slow since 2 {HOSTILE}")
    dialog(page).press("Escape")
    noted = {box["name"].split(" (")[0] for box in boxes(page) if box.get("isNoted")}
    assert noted == {"render"}
    assert f"note\nSlow since 2 {HOSTILE}" in hover(page, "render")
    expect(page.locator(".chosen dd").filter(has_text="Slow since 2")).to_have_count(1)
    row = page.get_by_role("row").filter(has_text="render")
    expect(row.locator(".note-sign")).to_have_attribute("title", f"Slow since 2 {HOSTILE}")
    # Rows are as high as before, or the rows in view would be others.
    assert {
        round(one["height"]) for one in map(Locator.bounding_box, page.locator("tbody tr").all()) if one
    } == {37}
    # Picture files and the call tree have the mark too.
    with page.expect_download() as saved:
        page.get_by_role("button", name="SVG").click()
    picture = saved.value.path().read_text()
    assert picture.count('h-9l9 9z"') == 1
    assert "\N{BLACK UPPER RIGHT TRIANGLE} render (jinja2/runtime.py): Slow since 2 &#60;img" in picture
    page.get_by_role("radio", name="Tree", exact=True).click()
    row = page.get_by_role("treegrid").get_by_role("row").filter(has_text="render")
    expect(row.locator(".note-sign")).to_have_attribute("title", f"Slow since 2 {HOSTILE}")
    row.click(button="right")
    page.get_by_role("menuitem", name="Notes …").click()
    dialog(page).get_by_role("button", name="Delete").click()
    dialog(page).get_by_role("button", name="Really delete?").click()
    dialog(page).get_by_role("button", name="Close").click()
    expect(page.locator(".note-sign")).to_have_count(0)


def test_a_tooltip_stays_with_its_links_by_key_and_by_click(limited: str, open_page: Open, axe: str) -> None:
    page = open_page(f"{limited}/s/shop", permissions=["clipboard-read", "clipboard-write"])
    boxes(page)
    canvas = graph(page).locator("canvas")
    area = canvas.bounding_box()
    pinned = page.locator(".flame-tooltip.pinned")
    assert "t keeps this, with links" in hover(page, "query")
    at = graph(page).locator(".flame-tooltip").bounding_box()
    page.keyboard.press("t")
    expect(pinned).to_contain_text("query (shop/db.py)")
    placed = pinned.bounding_box()
    assert at
    assert placed
    assert (placed["x"], placed["y"]) == (at["x"], at["y"])
    assert canvas.bounding_box() == area
    link = pinned.get_by_role("link", name="Source")
    expect(link).to_be_focused()
    expect(link).to_have_attribute("href", re.compile("https://git.example/acme/shop/blob/.*shop/db.py"))
    assert violations_in_both_themes(page, axe) == {}
    # The pointer goes into it without changing what it says, and can use it.
    page.mouse.move(*point(page, "render"))
    expect(pinned).to_contain_text("query (shop/db.py)")
    assert clipboard_after(page, pinned.get_by_role("button", name="Copy function").click) == "query"
    page.keyboard.press("Escape")
    expect(pinned).to_have_count(0)
    # A press elsewhere closes it too, and with the keys alone it belongs to the selected frame.
    page.keyboard.down("Shift")
    page.mouse.click(*point(page, "render"))
    page.keyboard.up("Shift")
    expect(pinned).to_contain_text("render (jinja2/runtime.py)")
    page.mouse.click(5, 5)
    expect(pinned).to_have_count(0)
    canvas.focus()
    page.keyboard.press("t")
    expect(pinned).to_contain_text("render (jinja2/runtime.py)")
    page.keyboard.press("Escape")
    expect(canvas).to_be_focused()
