"""The heatmap: what each pod took when, and which hours of which days; a block of it leads on."""

from __future__ import annotations

import re
import time
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from tests.web.conftest import Open
from tests.web.flame import boxes
from tests.web.profiles import AFTER, send, windows
from tests.web.rules import violations_in_both_themes

COLOURS = """(canvas, cells) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height)
    const [ratio, width] = [devicePixelRatio, canvas.width]
    const at = (x, y) => 4 * (Math.floor(y * ratio) * width + Math.floor(x * ratio))
    return cells.map(([x, y]) => data.slice(at(x, y), at(x, y) + 4).join())
}"""


class Drawn:
    """The grid as it is drawn: how many rows and columns, and where each cell is."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.canvas = page.locator(".heat canvas")
        page.locator(".heat canvas[data-drawn]").wait_for()
        words = (self.canvas.get_attribute("data-drawn") or "").split()
        self.rows, self.columns = int(words[0]), int(words[1])
        self.gutter, self.top, self.wide, self.high = map(float, words[2:])

    def at(self, row: int, column: int) -> tuple[float, float]:
        return self.gutter + (column + 0.5) * self.wide, self.top + (row + 0.5) * self.high

    def on_page(self, row: int, column: int) -> tuple[float, float]:
        self.canvas.scroll_into_view_if_needed()
        box = self.canvas.bounding_box()
        assert box
        x, y = self.at(row, column)
        return box["x"] + x, box["y"] + y

    def colours(self, *rows: int) -> list[list[str]]:
        """The colour in the middle of each cell of some rows; reading a canvas twice is warned of."""
        middles = [list(self.at(row, column)) for row in rows for column in range(self.columns)]
        found: list[str] = self.canvas.evaluate(COLOURS, middles)
        return [found[at : at + self.columns] for at in range(0, len(found), self.columns)]

    def drag(self, start: tuple[int, int], end: tuple[int, int]) -> None:
        self.page.mouse.move(*self.on_page(*start))
        self.page.mouse.down()
        self.page.mouse.move(*self.on_page(*end), steps=4)
        self.page.mouse.up()

    def says(self, row: int, column: int) -> str:
        """What the line below says of a cell that is pointed at."""
        self.page.mouse.move(*self.on_page(row, column))
        line = self.page.locator(".heat-line")
        expect(line).to_contain_text("·")
        return line.inner_text()

    def watched(self, row: int) -> list[int]:
        """The last columns without a gap in which a row was watched."""
        found: list[int] = []
        for at in reversed(range(self.columns)):
            if "no data" not in self.says(row, at):
                found.insert(0, at)
            elif found:
                break
        return found


def given(page: Page) -> dict[str, str]:
    address = urlsplit(page.evaluate("location.href"))
    return {name: value[0] for name, value in parse_qs(address.query).items()}


def selected_samples(page: Page) -> str:
    found = re.search(r"([\d,]+ samples?)", page.locator(".heat-sum").inner_text())
    assert found
    return found[1]


def test_each_choice_of_rows_stays_on_the_page(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/heat/heatmap")
    choices = page.get_by_role("main").locator(".controls").locator("a, button, [role=radio]")
    expect(choices).to_have_text([re.compile("Pods . time"), re.compile("Hour . day")])
    for choice in reversed(choices.all()):
        choice.click()
        expect(choice).to_be_checked()
        expect(page.locator(".heat-line")).to_be_visible()
        assert urlsplit(page.url).path == "/s/heat/heatmap"


def test_each_pod_is_a_row_and_what_was_not_watched_is_no_colour_of_the_scale(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/heat/heatmap")
    drawn = Drawn(page)
    assert drawn.rows == 2
    busy, still = drawn.watched(0), drawn.watched(1)
    assert busy == still
    assert len(busy) in (1, 2)
    assert drawn.says(0, busy[0]).startswith("heat-busy-0 · ")
    assert "160 m/pod" in drawn.says(0, busy[0])
    assert "0 m/pod · 0 samples · version idle" in drawn.says(1, busy[0])
    page.mouse.move(0, 0)
    took, nothing = drawn.colours(0, 1)
    unwatched = set(nothing[busy[-1] + 1 :])
    assert nothing[busy[0]] not in unwatched
    assert took[busy[0]] not in {nothing[busy[0]], *unwatched}


def test_dragged_block_leads_to_its_flame_graph_and_to_a_comparison_with_other_times(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/shop/heatmap")
    drawn = Drawn(page)
    assert drawn.rows == 4
    seen = drawn.watched(0)
    page.get_by_text("Cells as a table").click()
    table = page.get_by_role("region", name="Cells as a table")
    expect(table.get_by_role("row")).to_have_count(drawn.rows + 1)
    rate = re.search(r"([\d.]+) m/pod", drawn.says(0, seen[0]))
    assert rate
    first = table.get_by_role("row").nth(1).get_by_role("cell").nth(seen[0])
    assert float(first.inner_text()) == float(rate[1])
    page.get_by_text("Cells as a table").click()
    drawn.drag((0, seen[0]), (1, seen[-1]))
    expect(page.locator(".heat-sum")).to_contain_text("2 pods · ")
    samples = selected_samples(page)
    assert samples == "960 samples"
    page.reload()
    expect(page.locator(".heat-sum")).to_contain_text(samples)
    page.get_by_role("link", name="Open flame graph").click()
    expect(page.locator(".quality .basis")).to_contain_text(f"{samples} · 2 pods · 6 windows")
    assert boxes(page)
    page.go_back()
    expect(page.locator(".heat-sum")).to_contain_text(samples)
    page.get_by_role("button", name="Clear").click()
    expect(page.locator(".heat-sum")).to_have_count(0)
    assert "cells" not in given(page)
    # All pods at a time are compared with the longer time outside it.
    page.goto(f"{shop}/s/shop/heatmap")
    drawn = Drawn(page)
    seen = drawn.watched(0)
    drawn.drag((0, seen[0]), (3, seen[-1]))
    assert selected_samples(page) == "960 samples"
    page.get_by_role("link", name="Compare with the time before it").click()
    sides = page.locator(".picker .basis")
    expect(sides.nth(1)).to_contain_text("960 samples · 2 pods · 6 windows")
    expect(sides.nth(0)).to_contain_text("660 samples · 2 pods · 6 windows")


def test_the_keyboard_and_fingers_select_extend_open_and_clear(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/heatmap")
    drawn = Drawn(page)
    drawn.canvas.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".heat-line")).to_contain_text("shop-v2-0 · ")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".heat-line")).to_contain_text("shop-v2-1 · ")
    page.keyboard.press("Shift+End")
    expect(page.locator(".heat-sum")).to_contain_text("1 pod · ")
    assert selected_samples(page) == "480 samples"
    page.keyboard.press("Shift+ArrowUp")
    expect(page.locator(".heat-sum")).to_contain_text("2 pods · ")
    page.keyboard.press("Escape")
    expect(page.locator(".heat-sum")).to_have_count(0)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Shift+End")
    page.keyboard.press("Enter")
    expect(page.locator(".quality .basis")).to_contain_text("480 samples · 1 pod · 3 windows")
    assert given(page)["query"].startswith('pod="shop-v2-')
    # A finger selects a cell and then the other corner.
    page = open_page(f"{shop}/s/shop/heatmap", has_touch=True, is_mobile=True)
    drawn = Drawn(page)
    expect(page.locator(".heat-line")).to_contain_text("Tap a cell for its value")
    page.touchscreen.tap(*drawn.on_page(0, 0))
    expect(page.locator(".heat-sum")).to_contain_text("1 pod · ")
    page.get_by_role("button", name="Extend selection").tap()
    page.touchscreen.tap(*drawn.on_page(2, drawn.columns - 1))
    expect(page.locator(".heat-sum")).to_contain_text("3 pods · ")
    expect(page.get_by_role("button", name="Extend selection")).to_have_attribute("aria-pressed", "false")
    page.touchscreen.tap(*drawn.on_page(1, 1))
    expect(page.locator(".heat-sum")).to_contain_text("1 pod · ")


def test_names_and_times_select_rows_and_columns_to_compare_with_other_pods(
    shop: str, open_page: Open
) -> None:
    # Sorting keeps a selection.
    page = open_page(f"{shop}/s/shop/heatmap")
    drawn = Drawn(page)
    drawn.drag((0, 0), (0, drawn.columns - 1))
    assert selected_samples(page) == "480 samples"
    drawn.canvas.click(position={"x": drawn.at(0, 2)[0], "y": 8})
    expect(page.locator(".heat-sum")).to_contain_text("4 pods · ")
    drawn.canvas.click(position={"x": 10, "y": drawn.at(0, 0)[1]})
    expect(page.locator(".heat-sum")).to_contain_text("1 pod · ")
    assert selected_samples(page) == "480 samples"
    first = drawn.says(0, 0).split(" · ")[0]
    page.get_by_role("radio", name="By name").click()
    expect(page.locator(".heat-sum")).to_contain_text("1 pod · ")
    assert selected_samples(page) == "480 samples"
    assert drawn.says(0, 0).startswith("shop-v1-0 · ")
    page.get_by_role("link", name="Open flame graph").click()
    assert first in given(page)["query"]
    # It is compared with the other pods at its time.
    page.goto(f"{shop}/s/web.1/heatmap?sort=%2Bname")
    drawn = Drawn(page)
    drawn.drag((3, 0), (3, drawn.columns - 1))
    samples = selected_samples(page)
    page.get_by_role("link", name="Compare with the other pods at the same time").click()
    sides = page.locator(".picker .basis")
    expect(sides.nth(1)).to_contain_text(f"{samples} · 1 pod · 6 windows")
    expect(sides.nth(0)).to_contain_text("3 pods · 9 windows")


def test_hours_are_the_browsers_and_those_of_several_days_are_not_one_profile(
    shop: str, open_page: Open
) -> None:
    # Hours begin at a quarter past there: windows that begin at half past or at the full hour are of one.
    start = (time.time() - 120) // 1800 * 1800
    send(shop, windows("hours", "1", AFTER, pods=1, minutes_ago=(time.time() - start) / 60))
    page = open_page(f"{shop}/s/hours/heatmap", timezone_id="Asia/Kathmandu")
    page.get_by_role("radio", name=re.compile("^Hour")).click()
    expect(page.get_by_text(re.compile("hours of Asia/Kath?mandu"))).to_be_visible()
    drawn = Drawn(page)
    assert drawn.rows == 24
    assert drawn.columns in (7, 8)
    assert given(page)["from"] == "-7d"
    hour = page.evaluate("start => new Date(1000 * start).getHours()", start)
    column = next(
        at for at in (drawn.columns - 1, drawn.columns - 2) if "no data" not in drawn.says(hour, at)
    )
    drawn.drag((hour, column), (hour, column))
    assert selected_samples(page) == "480 samples"
    page.get_by_role("link", name="Open flame graph").click()
    expect(page.locator(".quality .basis")).to_contain_text("480 samples · 1 pod · 3 windows")
    # Hours of several days are not one profile, and whole days are.
    page = open_page(f"{shop}/s/shop/heatmap?rows=hours&from=-7d")
    drawn = Drawn(page)
    drawn.drag((3, drawn.columns - 2), (5, drawn.columns - 1))
    expect(page.locator(".heat-sum")).to_contain_text("3 hours of 2 days")
    expect(page.get_by_role("link", name="Open flame graph")).to_have_count(0)
    page.get_by_role("button", name="use whole days").click()
    expect(page.locator(".heat-sum")).to_contain_text("1,620 samples")
    page.get_by_role("link", name="Compare with the time before it").click()
    expect(page.locator(".picker .basis").nth(1)).to_contain_text("1,620 samples")


def test_what_is_not_drawn_is_said_and_the_rest_is_accessible_and_fits_a_phone(
    shop: str, open_page: Open, axe: str
) -> None:
    page = open_page(f"{shop}/s/wide/heatmap")
    drawn = Drawn(page)
    assert drawn.rows == 100
    drawn.drag((0, 0), (1, 1))
    expect(page.locator(".chosen-cells")).to_be_in_viewport(ratio=1)
    expect(page.get_by_text("30 cheaper pods hidden")).to_be_visible()
    page.goto(f"{shop}/s/shop/heatmap?cells=1000~2000~%2Fnobody")
    expect(page.get_by_text("The selected cells are not in view")).to_be_visible()
    page.goto(f"{shop}/s/nobody/heatmap")
    expect(page.get_by_role("heading", name="No samples in this range")).to_be_visible()
    for rows in ("pods", "hours&from=-7d"):
        page.goto(f"{shop}/s/shop/heatmap?rows={rows}")
        drawn = Drawn(page)
        drawn.drag((0, 0), (1, drawn.columns - 1))
        page.get_by_text("Cells as a table").click()
        expect(page.locator(".heat-sum")).to_be_visible()
        assert violations_in_both_themes(page, axe) == {}
    page.set_viewport_size({"width": 360, "height": 700})
    page.goto(f"{shop}/s/shop/heatmap")
    drawn = Drawn(page)
    drawn.drag((0, 0), (1, 5))
    expect(page.locator(".heat-sum")).to_be_visible()
    assert page.evaluate("document.querySelector('main').scrollWidth") == 360
