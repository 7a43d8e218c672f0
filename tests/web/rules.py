"""Rules that every page keeps: accessibility, sizes of controls, and the width of the screen."""

from __future__ import annotations

from collections.abc import Callable

from playwright.sync_api import Page, expect

from tests.processes import eventually

SMALL = """() => [...document.querySelectorAll(
    'button, .button, summary, select, input:not([type=checkbox]), nav a, .besides a, .culprits a')]
  .filter(at => at.checkVisibility() && at.getBoundingClientRect().height < 24)
  .map(at => at.outerHTML)"""
WIDER = """() => [...document.querySelectorAll('main *, header *')]
  .filter(at => at.checkVisibility())
  .filter(at => !at.closest('.wide, .unseen, details:not([open]) > :not(summary)'))
  .filter(at => at.getBoundingClientRect().right > innerWidth + 1)
  .map(at => at.outerHTML.slice(0, 160)).slice(0, 5)"""
FRAMES = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"


def clipboard_after(page: Page, press: Callable[[], None]) -> str:
    """What `press` puts into the clipboard.

    The page's message about it disappears after 2.5 s, so a test cannot wait for that.
    """
    page.evaluate("navigator.clipboard.writeText('')")
    press()
    text: str = eventually("it is copied", lambda: page.evaluate("navigator.clipboard.readText()"))
    return text


def violations(page: Page, axe: str) -> list[str]:
    """What axe-core finds wrong with the page as it is."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe)
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def violations_in_both_themes(page: Page, axe: str) -> dict[str, list[str]]:
    """What axe-core finds in light and dark, on a page that follows the system's theme."""
    found = {}
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")  # type: ignore[arg-type]
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        page.evaluate(FRAMES)
        if wrong := violations(page, axe):
            found[theme] = wrong
    return found


def small_controls(page: Page) -> list[str]:
    """Controls in view that are less than 24 pixels high."""
    found: list[str] = page.evaluate(SMALL)
    return found


def assert_fits(page: Page, width: int = 360, height: int = 740) -> None:
    """Fails when the page is wider than a screen of this width."""
    page.set_viewport_size({"width": width, "height": height})
    page.evaluate(FRAMES)
    assert page.evaluate("document.documentElement.scrollWidth") <= width, page.evaluate(WIDER)
