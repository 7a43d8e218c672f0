"""What holds for every page: small and enlarged screens, the keyboard alone, less motion, reload and Back."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import Open
from tests.web.test_accessibility import PAGES

TABBABLE = """() => {
  const all = 'a[href], button, input, select, textarea, summary, [tabindex]';
  const shown = at => at.checkVisibility({ visibilityProperty: true });
  const reachable = at => at.tabIndex >= 0 && !at.disabled && shown(at);
  return [...document.querySelectorAll(all)].filter(reachable).length;
}"""
FOCUSED = """() => {
  const at = document.activeElement;
  if (!at || at === document.body) return null;
  const before = document.querySelectorAll('[data-visited]').length;
  at.dataset.visited ||= String(before + 1);
  const style = getComputedStyle(at);
  const marked = style.outlineStyle !== 'none' || style.boxShadow !== 'none' || at.tagName === 'CANVAS';
  return { number: at.dataset.visited, marked, text: at.outerHTML.slice(0, 200) };
}"""
WIDER = """() => [...document.querySelectorAll('main *, header *')]
  .filter(at => at.getBoundingClientRect().right > innerWidth + 1 && !at.closest('.wide, .unseen'))
  .map(at => at.outerHTML.slice(0, 160)).slice(0, 5)"""


def opened(open_page: Open, url: str, **options: object) -> Page:
    page = open_page(url, **options)
    expect(page.locator(".card, .panel").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    return page


@pytest.mark.parametrize(("width", "height"), [(360, 740), (640, 450)], ids=["telephone", "enlarged twice"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_fits_its_width(shop: str, open_page: Open, name: str, width: int, height: int) -> None:
    page = opened(open_page, shop + PAGES[name])
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    expect(page.locator("main h1, main h2").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width, page.evaluate(WIDER)


@pytest.mark.parametrize("name", PAGES)
def test_every_control_is_reached_with_tab_and_seen_there(shop: str, open_page: Open, name: str) -> None:
    page = opened(open_page, shop + PAGES[name])
    controls = page.evaluate(TABBABLE)
    reached: set[str] = set()
    unmarked = []
    for _ in range(controls + 20):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused is None or focused["number"] in reached:
            break
        reached.add(focused["number"])
        if not focused["marked"]:
            unmarked.append(focused["text"])
    assert unmarked == []
    # A group of radio buttons is one stop.
    assert len(reached) >= controls - page.locator("input[type=radio]").count()


@pytest.mark.parametrize("name", PAGES)
def test_nothing_moves_for_those_who_want_less_motion(shop: str, open_page: Open, name: str) -> None:
    page = opened(open_page, shop + PAGES[name], reduced_motion="reduce")
    assert page.evaluate("document.getAnimations().length") == 0


@pytest.mark.parametrize("name", PAGES)
def test_a_page_survives_reload_and_back(shop: str, open_page: Open, name: str) -> None:
    page = opened(open_page, shop + PAGES[name])
    heading, address = page.locator("main h1, main h2").first.inner_text(), page.url
    page.reload()
    expect(page.locator("main h1, main h2").first).to_have_text(heading)
    assert page.url == address
    page.get_by_role("link", name=re.compile("Sidelight")).first.click()
    expect(page.get_by_role("heading", name="Services", level=1)).to_be_visible()
    page.go_back()
    expect(page.locator("main h1, main h2").first).to_have_text(heading)
    assert page.url == address
