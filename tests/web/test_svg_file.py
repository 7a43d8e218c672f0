"""The SVG flame graph in a real browser: as a file, and from the collector under its policy."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from sidelight_model.counts import ProfileType
from sidelight_model.export_formats.svg import write_svg
from tests.model.strategies import HOSTILE, profile
from tests.web.conftest import Open

SHOP = profile(
    "main (app.py:1);handle (shop/views.py:7);query (shop/db.py:3) 60 | "
    "main (app.py:1);handle (shop/views.py:7);render (shop/views.py:30) 25 | "
    "main (app.py:1);poll (selectors.py:9) 15"
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "shop.svg"
    path.write_bytes(write_svg(SHOP.rows(ProfileType.CPU), "process 7 app.py", ["cpu time"]))
    return f"file://{path}"


def boxes(page: Page) -> dict[str, tuple[float, float]]:
    """Each box that is shown: its label, where it begins and how wide it is, in pixels."""
    found: list[tuple[str, float, float]] = page.evaluate(
        """() => [...document.querySelectorAll('#frames > g')]
          .filter(g => g.style.display !== 'none')
          .map(g => [g.querySelector('title').textContent.split('\\n')[0],
                     g.querySelector('rect').getBoundingClientRect().x,
                     g.querySelector('rect').getBoundingClientRect().width])"""
    )
    return {name: (x, width) for name, x, width in found}


def click(page: Page, name: str) -> None:
    page.locator("#frames > g", has=page.locator("title", has_text=name)).locator("rect").click()


def test_svg_file_is_accessible_zooms_searches_and_is_walked_by_keyboard(
    file: str, open_page: Open, axe: str
) -> None:
    page = open_page(file)
    whole = boxes(page)
    assert whole["total"][1] == pytest.approx(1280 - 20, abs=1)
    assert whole["query (shop/db.py:3)"][1] == pytest.approx(0.6 * 1260, abs=1)
    click(page, "handle")
    zoomed = boxes(page)
    assert "poll (selectors.py:9)" not in zoomed
    assert zoomed["handle (shop/views.py:7)"][1] == pytest.approx(1260, abs=1)
    assert zoomed["query (shop/db.py:3)"][1] == pytest.approx(60 / 85 * 1260, abs=1)
    assert "850.0 ms (85 samples), 85.0 %" in page.locator("#at").text_content()  # type: ignore[operator]
    page.get_by_role("button", name="Whole graph").click()
    assert boxes(page) == whole
    # The button is disabled now and would take keys: the focus is on the graph. A search marks what it finds.
    page.keyboard.press("/")
    page.keyboard.type("VIEWS")
    assert page.get_by_role("status").text_content() == "2 found, 85.0 % "
    assert page.locator("#frames > g.hit").count() == 2
    page.get_by_role("searchbox").fill("/^(query|poll)/")
    assert page.get_by_role("status").text_content() == "2 found, 75.0 % "
    page.get_by_role("searchbox").fill("/(/")
    assert page.get_by_role("status").text_content() == "0 found, 0.0 % "
    page.keyboard.press("Escape")
    assert page.locator("#frames > g.hit").count() == 0
    # It is walked by keyboard.
    page.goto(file)
    page.locator("#frames > g").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator("#at").text_content().startswith("render")  # type: ignore[union-attr]
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert boxes(page)["handle (shop/views.py:7)"][1] == pytest.approx(1260, abs=1)
    page.keyboard.press("Escape")
    assert boxes(page)["handle (shop/views.py:7)"][1] == pytest.approx(0.85 * 1260, abs=1)
    # The picture follows the window.
    page.set_viewport_size({"width": 640, "height": 480})
    page.wait_for_function("document.querySelector('#frames rect').getBoundingClientRect().width < 630")
    assert boxes(page)["query (shop/db.py:3)"][1] == pytest.approx(0.6 * boxes(page)["total"][1], abs=1)
    # axe finds nothing wrong with its colours and names.
    page.goto(file)
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {rules: {'document-title': {enabled: false}}})")
    assert [wrong["id"] for wrong in found["violations"]] == []


def test_without_a_script_it_is_the_same_picture(file: str, chromium: Browser) -> None:
    context = chromium.new_context(viewport={"width": 1280, "height": 900}, java_script_enabled=False)
    page = context.new_page()
    page.goto(file)
    shown = page.locator("#frames > g text").all_text_contents()
    assert "query (shop/db.py:3)" in shown
    box = page.locator("#frames > g").first.locator("rect").bounding_box()
    assert box is not None
    assert box["width"] == pytest.approx(1180, abs=1)
    context.close()


def test_hostile_names_are_text_in_it_and_the_collectors_policy_lets_it_zoom(
    shop: str, tmp_path: Path, open_page: Open
) -> None:
    names = [*HOSTILE, "<script>alert(1)</script>", "]]><b>", "\x1b[2J", "\u202eevil", '"&amp;']
    path = tmp_path / "hostile.svg"
    path.write_bytes(write_svg([([name], 1, 10) for name in names], "<title>&", ["]]>"]))
    page = open_page(f"file://{path}")
    assert page.locator("script").count() == 1
    assert page.locator("b").count() == 0
    assert page.title() == "<title>&"
    assert len(boxes(page)) == len(set(names)) + 1
    # From the collector it zooms under its policy.
    page.goto(f"{shop}/api/v1/export?format=svg&query={{service=%22shop%22}}")
    whole = boxes(page)
    assert whole["total"][1] == pytest.approx(1280 - 20, abs=1)
    page.locator("#frames > g").nth(2).locator("rect").click()
    page.get_by_role("button", name="Whole graph").click()
    assert boxes(page) == whole
