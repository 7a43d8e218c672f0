"""Reading and using a flame graph from outside: by its draw list, as a person would by eye."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page

from tests.processes import eventually

ROW_PIXELS = 20


def graph(page: Page, which: int = 0) -> Locator:
    return page.locator(".flame").nth(which)


def unfold(page: Page) -> None:
    """Show the first frames of a profile, which fold into one line where they take all of it."""
    if page.locator(".compare").count() == 0 and page.locator(".folded [aria-expanded=false]").count():
        page.locator(".folded [aria-expanded=false]").click()
        page.locator(".folded [aria-expanded=true]").wait_for()


def boxes(page: Page, which: int = 0) -> list[dict[str, Any]]:
    """The draw list, once something has been drawn; of a profile with its first frames."""
    graph(page, which).locator("canvas[data-drawn]").wait_for()
    unfold(page)
    found: list[dict[str, Any]] = graph(page, which).evaluate("host => host.boxes()")
    return found


def outline(page: Page, which: int = 0) -> list[str]:
    """Each box as `level name`, in the order of the tree."""
    return [f"{box['level']} {box['name']}" for box in boxes(page, which)]


def box(page: Page, name: str, which: int = 0) -> dict[str, Any]:
    """The first box whose name begins so, once it is drawn."""

    def found() -> dict[str, Any] | None:
        return next((each for each in boxes(page, which) if each["name"].startswith(name)), None)

    return eventually(f"{name} is drawn", found)


def click(page: Page, name: str, which: int = 0) -> None:
    """Click the middle of the first box whose name begins so."""
    target = box(page, name, which)
    position = {"x": target["x"] + target["width"] / 2, "y": (target["row"] + 0.5) * ROW_PIXELS}
    graph(page, which).locator("canvas").click(position=position)  # type: ignore[arg-type]


def hover(page: Page, name: str, which: int = 0) -> str:
    """Point at a box; returns what the tooltip says."""
    target = box(page, name, which)
    position = {"x": target["x"] + target["width"] / 2, "y": (target["row"] + 0.5) * ROW_PIXELS}
    graph(page, which).locator("canvas").hover(position=position)  # type: ignore[arg-type]
    tooltip = graph(page, which).locator(".flame-tooltip")
    tooltip.wait_for()
    return tooltip.inner_text()


def point(page: Page, name: str, which: int = 0) -> tuple[float, float]:
    """The middle of a box, in the window, once it is in view there."""
    canvas = graph(page, which).locator("canvas")
    canvas.scroll_into_view_if_needed()
    area = canvas.bounding_box()
    assert area
    target = box(page, name, which)
    return area["x"] + target["x"] + target["width"] / 2, area["y"] + (target["row"] + 0.5) * ROW_PIXELS


def turn(page: Page, direction: str) -> None:
    """Choose the way that calls go: Top-down, Bottom-up or Flame."""
    menu = page.locator("details.direction")
    menu.locator("summary").click()
    menu.get_by_role("radio", name=direction).click()
    page.keyboard.press("Escape")


def widths(page: Page, which: int = 0) -> dict[str, float]:
    """How many pixels wide each box is, by its name without the file."""
    return {each["name"].split(" (")[0]: each["width"] for each in boxes(page, which)}
