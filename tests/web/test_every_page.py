"""What holds for every page: axe in light and dark, small screens, keyboard, less motion, reload and Back."""

from __future__ import annotations

import re
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import Open
from tests.web.flame import boxes
from tests.web.rules import assert_fits, small_controls, violations_in_both_themes

V2 = "?query=version%3D%22v2%22"
SIDES = "?baseline=version%3Av1&comparison=version%3Av2&basis=equal_load"
HANDLE = quote("handle (shop/views.py)")
DEPTHS = "?baseline=version%3A1&comparison=version%3A2&basis=equal_load&min_depth=4&max_depth=9"

FEW = 'service=~"shop|lone|unversioned"'
"""Few enough that each row of their table is in the page."""

Addresses = dict[str, str]
PAGES: dict[str, Addresses] = {
    "services": {
        "services": f"/services?query={quote(FEW)}",
        "no profiles": "/services?from=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z",
        "coverage": "/fleet?q=shop",
        "functions": "/fleet/functions?q=query",
    },
    "profile": {
        "service": "/s/shop?q=query",
        "service table": "/s/shop?view=table",
        "sandwich": "/s/shop?view=sandwich&fn=query+%28shop%2Fdb.py%29",
        "lines": "/s/shop?view=lines&fn=query+%28shop%2Fdb.py%29",
        "states": "/s/shop?type=wall&colour=state",
    },
    "comparison": {
        "difference": "/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2",
        "side by side": "/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2&view=sides",
        "changes": "/s/shop/compare?baseline=version%3Av1&comparison=match%3A&view=table",
        "nothing to compare": "/s/lone/compare",
    },
    "depth and pods": {
        "depth": "/s/shop/depth?baseline=version%3Av1&comparison=version%3Av2",
        "one depth": "/s/shop/depth",
        "pods by time": "/s/shop/heatmap",
        "hours by day": "/s/shop/heatmap?rows=hours&from=-7d",
    },
    "others": {
        "captures": "/captures",
        "files": "/files",
        "settings": "/settings",
        "no such page": "/s/shop/nowhere",
    },
}
VARIANTS: dict[str, Addresses] = {
    "services": {
        "services by namespace": f"/services?group=namespace&query={quote(FEW)}",
        "no function of the fleet": "/fleet/functions?q=nobody",
        "nothing seen": "/s/nobody",
        "invalid filter": "/s/shop?query=pod%3D",
        "stale": "/s/unversioned",
    },
    "profile": {
        "profile by endpoint": "/s/shop?endpoints=1&utc=1",
        "transforms": f"/s/shop{V2}&t={quote('drop:loop (jinja2/runtime.py)*fold:gone')}",
        "everything left out": f"/s/shop{V2}&t={quote('drop:main (app.py)')}",
        "no function for a sandwich": f"/s/shop{V2}&view=sandwich",
        "no function for lines": f"/s/shop{V2}&view=lines",
        "packages": f"/s/shop{V2}&by=package&view=table",
        "table and graph": f"/s/shop{V2}&view=both",
        "call tree": f"/s/shop{V2}&view=tree",
        "roots at the bottom": f"/s/shop{V2}&roots=bottom&order=weight&app=1",
        "invalid search": f"/s/shop{V2}&q=/[a/",
    },
    "comparison": {
        "sandwich of two sides": f"/s/shop/compare{SIDES}&view=sandwich&fn={HANDLE}",
        "lines of two sides": f"/s/shop/compare{SIDES}&view=lines&fn={HANDLE}",
        "significant changes": f"/s/pay/compare{SIDES}&sig=1",
        "sides by any label": "/s/pay/compare?baseline=match:&comparison=match%3Acapture%3D%22%22",
        "too little data": f"/s/same/compare{SIDES}",
        "one version lately": "/s/old/compare",
        "table and graph of two sides": f"/s/shop/compare{SIDES}&view=both",
        "call tree of two sides": f"/s/shop/compare{SIDES}&view=tree",
    },
    "depth and groups": {
        "depths of a function": f"/s/api/depth{DEPTHS}&scope=function",
        "depths without a focus": "/s/one/depth?scope=focus",
        "groups by version": "/s/shop?view=breakdown",
        "groups by state": "/s/states?type=wall&view=breakdown&group=state",
        "groups by package": "/s/shop?view=breakdown&group=package",
    },
}
"""Other looks of the same pages: checked for accessibility and width alone."""

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
DISABLED_CONTRASTS = """() => {
  const light = colour => {
    const [red, green, blue] = colour.match(/[\\d.]+/g).map(part => Number(part) / 255)
      .map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue + 0.05;
  };
  return [...document.querySelectorAll('button:disabled')].map(button => {
    button.classList.add('primary');
    const { color, backgroundColor } = getComputedStyle(button);
    const [ink, ground] = [light(color), light(backgroundColor)];
    return Math.max(ink / ground, ground / ink);
  });
}"""


def opened(open_page: Open, url: str) -> Page:
    """A page for those who want less motion, once all of it has come."""
    page = open_page(url, reduced_motion="reduce", expected="the server responded with a status of 40")
    expect(page.locator(".card, .panel").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    return page


def assert_tab_reaches_every_control(page: Page) -> None:
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


@pytest.mark.parametrize("area", PAGES)
def test_pages_are_accessible_fit_and_survive_reload_and_back(
    shop: str, open_page: Open, axe: str, subtests: pytest.Subtests, area: str
) -> None:
    for name, path in PAGES[area].items():
        with subtests.test(name):
            page = opened(open_page, shop + path)
            assert page.evaluate("document.getAnimations().length") == 0
            assert_tab_reaches_every_control(page)
            assert violations_in_both_themes(page, axe) == {}
            assert small_controls(page) == []
            assert_fits(page, 360, 740)
            # As an enlarged screen has it.
            assert_fits(page, 640, 450)
            heading, address = page.locator("main h1, main h2").first.inner_text(), page.url
            page.reload()
            expect(page.locator("main h1, main h2").first).to_have_text(heading)
            assert page.url == address
            page.locator(".brand").click()
            expect(page.get_by_role("heading", name="Services", level=1)).to_be_visible()
            page.go_back()
            expect(page.locator("main h1, main h2").first).to_have_text(heading)
            assert page.url == address
            page.close()


@pytest.mark.parametrize("area", VARIANTS)
def test_other_looks_of_pages_are_accessible_and_fit(
    shop: str, open_page: Open, axe: str, subtests: pytest.Subtests, area: str
) -> None:
    for name, path in VARIANTS[area].items():
        with subtests.test(name):
            page = opened(open_page, shop + path)
            assert violations_in_both_themes(page, axe) == {}
            more = page.locator("button[aria-label=More]")
            if more.count():
                more.first.click()
                expect(page.get_by_role("menu")).to_be_visible()
                assert violations_in_both_themes(page, axe) == {}
                page.keyboard.press("Escape")
            assert_fits(page)
            assert small_controls(page) == []
            page.close()


def test_dialogs_and_the_range_picker_work_and_are_accessible(shop: str, open_page: Open, axe: str) -> None:
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    assert page.locator(".panel .flame [tabindex='0']").count() == 1, "the graph is one tab stop"
    assert page.locator(".flame canvas").get_attribute("aria-label")
    page.get_by_label("Time range: last hour").click()
    page.get_by_label("from", exact=True).fill("now-1h")
    page.get_by_label("until", exact=True).fill("now-3h")
    page.get_by_role("button", name="Show this range").click()
    expect(page.get_by_role("alert")).to_have_text("The range ends before it begins.")
    assert violations_in_both_themes(page, axe) == {}
    page.get_by_label("until", exact=True).fill("now")
    page.get_by_label("from", exact=True).fill("now-3h")
    page.get_by_role("button", name="Show this range").click()
    expect(page).to_have_url(re.compile(r"from=-3h"))
    page.get_by_label("Earlier range of the same length").click()
    expect(page.get_by_label("Later range of the same length")).to_be_visible()
    page.go_back()
    boxes(page)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.type("compare shop v1 v2")
    choices = page.get_by_role("dialog").get_by_role("option")
    expect(choices).to_have_text(re.compile("Compare shop: v1 with v2"))
    assert violations_in_both_themes(page, axe) == {}
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/s/shop/compare\?.*baseline=version%3Av1&comparison=version%3Av2"))
    page.go_back()
    boxes(page)
    page.get_by_role("button", name="shop: switch to another service").click()
    page.keyboard.type("pay")
    expect(choices.first).to_contain_text("pay")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"/s/pay\?"))
    page.get_by_text("Endpoints ▾", exact=True).click()
    expect(page.get_by_text("No known framework handles requests in this range.")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations_in_both_themes(page, axe) == {}


def test_disabled_buttons_are_readable_and_unknown_addresses_are_pages(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        contrasts = page.evaluate(DISABLED_CONTRASTS)
        assert contrasts
        assert min(contrasts) >= 4.5
    page = open_page(f"{shop}/nosuch/page", expected="404")
    expect(page.get_by_role("heading", name="No such page")).to_be_visible()


def test_theme_follows_the_system_until_one_is_chosen(shop: str, open_page: Open) -> None:
    page = open_page(shop, color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.emulate_media(color_scheme="dark")
    page.get_by_label("More", exact=True).click()
    page.get_by_role("button", name="Use the light theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
