"""No page breaks a rule that axe-core knows, in light or dark."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import Open
from tests.web.flame import boxes

PAGES = {
    "services": "/services",
    "service": "/s/shop?q=query",
    "service table": "/s/shop?view=table",
    "sandwich": "/s/shop?view=sandwich&fn=query+%28shop%2Fdb.py%29",
    "lines": "/s/shop?view=lines&fn=query+%28shop%2Fdb.py%29",
    "states": "/s/shop?type=wall&colour=state",
    "difference": "/s/shop/compare?a=version%3Av1&b=version%3Av2",
    "side by side": "/s/shop/compare?a=version%3Av1&b=version%3Av2&view=sides",
    "changes": "/s/shop/compare?a=version%3Av1&b=match%3A&view=table",
    "depth": "/s/shop/depth?a=version%3Av1&b=version%3Av2",
    "one depth": "/s/shop/depth",
    "pods by time": "/s/shop/heatmap",
    "hours by day": "/s/shop/heatmap?rows=hours&from=-7d",
    "captures": "/captures",
    "settings": "/settings",
    "nothing to compare": "/s/lone/compare",
    "no profiles": "/services?from=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z",
    "no such page": "/s/shop/nowhere",
}


def violations(page: Page, axe: str) -> list[str]:
    page.evaluate(axe)
    found = page.evaluate("axe.run({ resultTypes: ['violations'] })")
    return [
        f"{rule['id']}: {node['target']} {node['failureSummary']}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_breaks_no_rule(shop: str, open_page: Open, axe: str, name: str, theme: str) -> None:
    url = shop + PAGES[name]
    page = open_page(f"{url}{'&' if '?' in url else '?'}theme={theme}")
    expect(page.locator(".card, .panel").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    if "view=" not in url and name in ("service", "difference"):
        boxes(page)
    assert violations(page, axe) == []


def test_the_help_and_the_range_picker_break_no_rule(shop: str, open_page: Open, axe: str) -> None:
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    page.get_by_label("Time range: last hour").click()
    assert violations(page, axe) == []
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page, axe) == []


def test_the_theme_follows_the_system_until_one_is_chosen(shop: str, open_page: Open) -> None:
    page = open_page(shop, color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.emulate_media(color_scheme="dark")
    page.get_by_role("button", name="Use the light theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_every_button_and_link_is_at_least_24_pixels_high(shop: str, open_page: Open) -> None:
    for path in ("/services", "/s/shop", "/s/shop/compare?a=version%3Av1&b=version%3Av2&view=table"):
        page = open_page(shop + path)
        expect(page.locator(".panel").first).to_be_visible()
        small = page.evaluate(
            """() => [...document.querySelectorAll('button, .button, summary, select, input, nav a')]
                .filter(at => at.offsetParent && at.getBoundingClientRect().height < 24)
                .map(at => at.outerHTML)"""
        )
        assert small == []


def test_the_graph_is_one_tab_stop(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    assert page.locator(".panel .flame [tabindex='0']").count() == 1
    assert page.locator(".flame canvas").get_attribute("aria-label")
