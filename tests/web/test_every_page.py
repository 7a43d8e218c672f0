"""What holds for every page: axe in light and dark, small screens, keyboard, less motion, reload and Back."""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Callable
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


def find_nothing(page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Find")).to_be_focused()
    page.keyboard.type("nobody is called so")
    expect(page.get_by_role("dialog")).to_contain_text("Nothing found.")


def show_notes(page: Page) -> None:
    expect(page.locator(".plot .note-mark")).to_have_count(1)
    page.get_by_role("button", name="1 note", exact=True).click()
    expect(page.get_by_role("dialog").locator(".note-text")).to_have_text("Cache on")


def show_no_notes(page: Page) -> None:
    page.get_by_title("Notes on this time and on functions").click()
    expect(page.get_by_role("dialog")).to_contain_text("There are no notes yet.")


def save_view(page: Page) -> None:
    page.get_by_label("More", exact=True).click()
    page.get_by_role("button", name="Save this view").click()
    expect(page.get_by_role("combobox", name="Find")).to_be_focused()
    page.keyboard.type("Threads")
    page.keyboard.press("Enter")
    page.locator(".brand").click()
    expect(page.get_by_role("button", name="Remove the saved view Threads")).to_be_visible()


def print_page(page: Page) -> None:
    page.emulate_media(media="print")
    expect(page.get_by_role("banner")).to_be_hidden()


def meet_sign_in_page(page: Page) -> None:
    """Refresh the page once a proxy wants people to sign in."""
    page.route("**/api/v1/flamegraph?**", lambda route: route.fulfill(body="<form>Sign in</form>"))
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("alert")).to_contain_text("It may be a sign-in page: reload this page.")
    page.unroute("**/api/v1/flamegraph?**")


def lose_network(page: Page) -> None:
    page.context.set_offline(True)
    page.get_by_role("button", name="Refresh").click()
    expect(page.locator(".band")).to_contain_text("This browser is offline.")


def wait_for_text(text: str) -> Callable[[Page], None]:
    return lambda page: expect(page.get_by_text(text)).to_be_visible()


COMPARISON = PAGES["comparison"]["difference"]
STATES: dict[str, tuple[str, Callable[[Page], None]]] = {
    "palette without results": ("/s/shop", find_nothing),
    "notes": ("/s/lone", show_notes),
    "no notes": ("/s/shop", show_no_notes),
    "saved view": ("/s/shop?type=wall", save_view),
    "no function matches": ("/s/shop?view=table&q=nobody", wait_for_text("No functions match the search.")),
    "no workload matches": ("/fleet?q=nobody", wait_for_text("No workload matches.")),
    "nothing to break down": ("/s/shop?view=breakdown&type=gil_wait", wait_for_text("No GIL wait samples")),
    "printed comparison": (COMPARISON, print_page),
    "printed services": ("/services", print_page),
    "sign-in page of a proxy": ("/s/shop", meet_sign_in_page),
    "offline": (COMPARISON, lose_network),
}
"""What pages become by what is done on them, or happens to them; the last one has no network any more."""

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


def test_states_of_pages_are_accessible(
    shop: str, open_page: Open, axe: str, subtests: pytest.Subtests
) -> None:
    note = json.dumps({"service": "lone", "text": "Cache on", "from": "-10m", "until": "now"}).encode()
    request = urllib.request.Request(f"{shop}/api/v1/notes", note, {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=10).close()
    page = open_page("about:blank", expected="net::ERR_", own_context=True, reduced_motion="reduce")
    for name, (path, act) in STATES.items():
        with subtests.test(name):
            page.emulate_media(media="screen")
            page.goto(shop + path)
            expect(page.locator(".card, .panel").first).to_be_visible()
            page.wait_for_load_state("networkidle")
            act(page)
            assert violations_in_both_themes(page, axe) == {}


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
