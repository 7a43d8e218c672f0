"""Zooming and panning without a click: by wheel, drag, keyboard, fingers and minimap."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import CDPSession, Locator, Page, expect

from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import box, boxes, click, hover, outline, point, turn, widths
from tests.web.profiles import send, windows

V2 = "?query=version%3D%22v2%22"
TOUCH = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 800}}


def wheel(page: Page, name: str, turns: int) -> None:
    """Turn the wheel with Ctrl held over a box: up zooms in."""
    page.mouse.move(*point(page, name))
    page.keyboard.down("Control")
    for _ in range(abs(turns)):
        page.mouse.wheel(0, -120 if turns > 0 else 120)
    page.keyboard.up("Control")


def minimap(page: Page) -> Locator:
    return page.get_by_role("slider", name="Part of the whole graph in view")


def shown(page: Page) -> tuple[float, float]:
    """From where to where the minimap's frame reaches, as parts of the whole."""
    whole, frame = minimap(page).bounding_box(), page.locator(".minimap-frame").bounding_box()
    assert whole
    assert frame
    left = (frame["x"] - whole["x"]) / whole["width"]
    return left, left + frame["width"] / whole["width"]


def test_drags_on_the_graph_and_its_minimap_move_the_part_in_view(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}")
    whole = outline(page)
    wheel(page, "query", 4)
    eventually("it is zoomed", lambda: widths(page)["query"] > 900)
    before, address = box(page, "query")["x"], page.url
    x, y = point(page, "main")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 150, y, steps=6)
    page.mouse.up()
    eventually("it moved", lambda: box(page, "query")["x"] < before or widths(page)["render"] > 50)
    assert page.url == address
    click(page, "query")
    eventually("it is zoomed into", lambda: widths(page)["query"] == widths(page)["total"])
    page.go_back()
    eventually("all is in view", lambda: outline(page) == whole)
    # The minimap shows, moves and widens the part in view.
    page.goto(f"{shop}/s/shop{V2}")
    assert minimap(page).count() == 0
    click(page, "query")
    expect(minimap(page)).to_have_attribute("aria-valuetext", "37.5 % of the width, from 25.0 % to 62.5 %")
    assert shown(page) == pytest.approx((0.25, 0.625), abs=0.01)
    area = minimap(page).bounding_box()
    assert area
    y = area["y"] + 10

    def drag(start: float, end: float) -> None:
        page.mouse.move(area["x"] + area["width"] * start, y)
        page.mouse.down()
        page.mouse.move(area["x"] + area["width"] * end, y, steps=4)
        page.mouse.up()

    drag(0.45, 0.55)
    eventually("it moved", lambda: shown(page) == pytest.approx((0.35, 0.725), abs=0.01))
    assert widths(page)["render"] > 200
    drag(0.725, 0.9)
    eventually("it is wider", lambda: shown(page) == pytest.approx((0.35, 0.9), abs=0.02))
    drag(0.05, 0.2)
    eventually("another part", lambda: shown(page) == pytest.approx((0.05, 0.2), abs=0.02))
    assert [line[2:] for line in outline(page)] == [
        "total", "main (app.py)", "handle (shop/views.py)", "cached (shop/cache.py)",
    ]  # fmt: skip
    # By keys.
    page.keyboard.press("Escape")
    expect(minimap(page)).to_have_count(0)
    click(page, "query")
    expect(minimap(page)).to_be_visible()
    minimap(page).focus()
    page.keyboard.press("ArrowRight")
    expect(minimap(page)).to_have_attribute("aria-valuetext", "37.5 % of the width, from 28.7 % to 66.3 %")
    page.keyboard.press("End")
    expect(minimap(page)).to_have_attribute("aria-valuetext", "37.5 % of the width, from 62.5 % to 100.0 %")
    page.keyboard.press("+")
    expect(minimap(page)).to_have_attribute("aria-valuetext", "30.0 % of the width, from 66.3 % to 96.3 %")
    page.keyboard.press("Escape")
    expect(minimap(page)).to_have_count(0)
    # Rows out of view.
    page.goto(f"{shop}/s/deep")
    boxes(page)
    expect(minimap(page)).to_be_visible()
    area = minimap(page).bounding_box()
    assert area
    page.mouse.click(area["x"] + 300, area["y"] + area["height"] - 2)
    scroller = page.locator(".flame-scroll")
    eventually("it scrolled to the last rows", lambda: scroller.evaluate("at => at.scrollTop") > 60_000)


def test_keys_and_the_wheel_with_ctrl_zoom_and_pan_and_walking_follows(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}")
    before = widths(page)
    page.locator(".flame canvas").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    page.keyboard.press("+")
    page.keyboard.press("+")
    eventually("it is wider", lambda: widths(page)["render"] > before["render"])
    at = box(page, "render")["x"]
    page.keyboard.press("Shift+ArrowLeft")
    eventually("it moved right", lambda: box(page, "render")["x"] > at)
    for _ in range(4):
        page.keyboard.press("-")
    eventually("the whole is in view", lambda: widths(page) == before)
    # Walking to a frame out of view brings it into view.
    page.goto(f"{shop}/s/shop{V2}")
    wheel(page, "query", 8)
    eventually("only query is in view", lambda: "3 render (jinja2/runtime.py)" not in outline(page))
    canvas = page.locator(".flame canvas")
    canvas.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    page.keyboard.press("ArrowRight")
    eventually("a sibling came into view", lambda: "3 render (jinja2/runtime.py)" in outline(page))
    # The wheel zooms around the pointer.
    page.goto(f"{shop}/s/shop{V2}")
    before, address = widths(page), page.url
    middle = box(page, "query")["x"] + box(page, "query")["width"] / 2
    history = page.evaluate("history.length")
    wheel(page, "query", 1)
    eventually("it is wider", lambda: widths(page)["query"] > before["query"] * 1.3)
    after = box(page, "query")
    assert after["x"] + after["width"] / 2 == pytest.approx(middle, abs=2)
    assert widths(page)["total"] == before["total"]
    assert page.url == address
    assert page.evaluate("history.length") == history
    expect(minimap(page)).to_be_visible()
    page.get_by_role("button", name="Reset zoom").click()
    eventually("the whole is in view", lambda: widths(page) == before)
    expect(minimap(page)).to_have_count(0)
    wheel(page, "query", 6)
    eventually("it is wider", lambda: widths(page)["query"] > before["query"] * 2)
    wheel(page, "query", -20)
    eventually("the whole is in view", lambda: widths(page) == before)
    expect(page.get_by_role("button", name="Reset zoom")).to_be_disabled()
    # Without Ctrl it scrolls the page.
    page.set_viewport_size({"width": 1280, "height": 340})
    before = widths(page)
    page.evaluate("scrollTo(0, 9999)")
    page.mouse.move(*point(page, "main"))
    top = page.evaluate("scrollY")
    assert top > 0
    page.mouse.wheel(0, -200)
    page.wait_for_function("top => scrollY < top", arg=top)
    assert widths(page) == before


def test_without_a_wish_for_motion_a_zoom_is_there_at_once(shop: str, open_page: Open) -> None:
    pixels = "at => at.getContext('2d').getImageData(0, 70, at.width, 1).data.join()"
    seen: dict[str, set[str]] = {}
    for motion in ("reduce", "no-preference"):
        page = open_page("about:blank", reduced_motion=motion, own_context=True, expected="willRead")
        # Its time passes in steps, however long the browser takes for a frame.
        page.clock.install()
        page.goto(f"{shop}/s/shop{V2}")
        boxes(page)
        canvas = page.locator(".flame canvas")
        canvas.focus()
        for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
            page.keyboard.press(key)
        page.clock.pause_at(page.evaluate("Date.now()") / 1000 + 10)
        page.keyboard.press("Enter")
        seen[motion] = set()
        for _ in range(12):
            page.clock.run_for(20)
            seen[motion].add(canvas.evaluate(pixels))
    assert len(seen["reduce"]) == 1
    assert len(seen["no-preference"]) > 2


def test_tooltip_of_a_frame_is_that_of_the_zoom_in_view(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}", reduced_motion="reduce")
    click(page, "handle")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    assert "of zoomed frame" in hover(page, "loop")
    page.keyboard.press("Escape")
    expect(page.locator(".flame-tooltip")).to_be_hidden()
    assert "of zoomed frame" not in hover(page, "loop")


def test_canvas_has_the_pixels_of_the_screen(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}", device_scale_factor=2)
    drawn = boxes(page)
    wide, shown_wide = page.locator(".flame canvas").evaluate("at => [at.width, at.clientWidth]")
    assert wide == shown_wide * 2
    assert drawn[0]["width"] == shown_wide
    click(page, "render")
    eventually("a click meets the box", lambda: widths(page)["render"] == widths(page)["total"])


# Fingers


def fingers(page: Page) -> CDPSession:
    page.wait_for_load_state("networkidle")
    return page.context.new_cdp_session(page)


def touch(session: CDPSession, kind: str, *points: tuple[float, float]) -> None:
    at = [{"x": x, "y": y, "id": number} for number, (x, y) in enumerate(points)]
    session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": at})


def test_fingers_select_zoom_pan_scroll_and_open_the_menu(shop: str, open_page: Open) -> None:
    # A tap selects and docks, and a second one zooms.
    page = open_page(f"{shop}/s/shop{V2}", **TOUCH)
    page.touchscreen.tap(*point(page, "render"))
    expect(page.locator(".chosen.docked strong")).to_have_text("render (jinja2/runtime.py)")
    assert widths(page)["render"] < widths(page)["total"]
    expect(page.locator(".flame-tooltip")).to_be_hidden()
    page.touchscreen.tap(*point(page, "render"))
    eventually("it is zoomed into", lambda: widths(page)["render"] == widths(page)["total"])
    # Two fingers zoom and one pans.
    page.goto(f"{shop}/s/shop{V2}")
    session = fingers(page)
    before = widths(page)
    x, y = point(page, "query")
    touch(session, "touchStart", (x - 20, y), (x + 20, y))
    for apart in (30, 40, 60, 80):
        touch(session, "touchMove", (x - apart, y), (x + apart, y))
    touch(session, "touchEnd")
    eventually("it is wider", lambda: widths(page)["query"] > before["query"] * 2)
    assert page.evaluate("visualViewport.scale") == 1
    at = box(page, "query")["x"]
    touch(session, "touchStart", (x, y))
    for along in (10, 30, 60, 80):
        touch(session, "touchMove", (x + along, y))
    touch(session, "touchEnd")
    eventually("it moved", lambda: box(page, "query")["x"] > at + 30 or box(page, "query")["x"] == 0)
    assert "focus" not in page.url
    # A finger down scrolls a page that is higher than the window.
    page.set_viewport_size({"width": 390, "height": 500})
    page.goto(f"{shop}/s/shop{V2}")
    page.wait_for_load_state("networkidle")
    page.evaluate("scrollTo(0, 120)")
    x, y = point(page, "main")
    top = page.evaluate("scrollY")
    assert top > 0
    page.evaluate("addEventListener('pointercancel', () => { window.given = true })")
    touch(session, "touchStart", (x, y))
    touch(session, "touchMove", (x, y + 20))
    touch(session, "touchMove", (x, y + 60))
    page.wait_for_function("window.given")
    for down in (100, 140, 180):
        touch(session, "touchMove", (x, y + down))
    touch(session, "touchEnd")
    page.wait_for_function("top => scrollY < top", arg=top)
    # A long press opens the menu and is no tap.
    page.goto(f"{shop}/s/shop{V2}")
    page.wait_for_load_state("networkidle")
    x, y = point(page, "query")
    touch(session, "touchStart", (x, y))
    expect(page.get_by_role("menu")).to_be_visible()
    touch(session, "touchEnd")
    expect(page.get_by_role("menu", name="Actions for query (shop/db.py)")).to_be_visible()
    assert widths(page)["query"] < widths(page)["total"]


# Very many call paths


@pytest.mark.parametrize(
    ("branches", "depth"), [(1400, 12), pytest.param(5200, 96, marks=pytest.mark.long, id="half a million")]
)
def test_very_many_call_paths_are_drawn_zoomed_searched_and_inverted(
    shop: str, open_page: Open, branches: int, depth: int
) -> None:
    deep = ";".join(f"c{at} ({'json/x' if at % 2 else 'django/y'}.py)" for at in range(depth))
    stacks = "\n".join(f"r (a.py);b{at} (shop/b.py);{deep} {1 + (at % 37) ** 2}" for at in range(branches))
    send(shop, windows(f"huge-{branches}", "1", stacks, pods=1, count=1))
    page = open_page(f"{shop}/s/huge-{branches}?nodes=all")
    whole = boxes(page)
    label = re.compile(f"^Flame graph: {1 + branches * (depth + 1)} call paths, {depth + 2} deep")
    expect(page.locator(".flame canvas")).to_have_attribute("aria-label", label)
    width = whole[0]["width"]
    assert {each["level"] for each in whole} >= {0, 1, 2}
    assert len(whole) <= 2 + width * (max(each["level"] for each in whole) - 1)
    wheel(page, "r (a.py)", 24)
    eventually("all rows show", lambda: max(each["level"] for each in boxes(page)) == depth + 2)
    assert all(0 <= each["x"] <= width and each["x"] + each["width"] <= width + 1 for each in boxes(page))
    expect(minimap(page)).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_label("Search frames").fill("b17 ")
    expect(page.locator(".matched")).to_contain_text("1 frame")
    assert [each["width"] for each in boxes(page) if each["hit"]] == [2]
    page.get_by_label("Search frames").fill("")
    turn(page, "Bottom-up")
    eventually("it is inverted", lambda: outline(page)[1].startswith(f"1 c{depth - 1} "))
