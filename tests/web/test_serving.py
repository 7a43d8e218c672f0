"""How the pages are served: few scripts at first, below a prefix, and speedscope.

Their policy, caching and compression are tested without a browser (`tests/collector/test_ui_files.py`).
"""

from __future__ import annotations

import gzip
import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import expect

from sidelight_collector.http import ui
from tests.web.conftest import Open, Serve
from tests.web.flame import boxes, outline
from tests.web.profiles import AFTER, BEFORE, send, windows
from tests.web.rules import clipboard_after

MOST_SCRIPT_BYTES = 100_000
"""What the scripts of the first page may weigh together, compressed with gzip as they are served."""
GONE = {
    "error": "not_found",
    "message": "there is no file",
    "hint": "Load the page again: the UI was rebuilt.",
}


def test_first_page_loads_few_scripts_and_the_rest_when_it_is_shown(shop: str, open_page: Open) -> None:
    built = ui.find_build()
    assert built
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    urls = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    names = {url.rpartition("/")[2] for url in urls if url.endswith(".js")}
    scripts = [path for path in built.assets.values() if path.name in names]
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in scripts}
    assert len(sizes) == len(names)
    assert 0 < sum(sizes.values()) <= MOST_SCRIPT_BYTES, sizes
    loaded = "of => performance.getEntriesByType('resource').filter(({ name }) => name.includes(of)).length"
    assert [page.evaluate(loaded, name) for name in ("DepthPage", "/help-")] == [0, 0]
    page.keyboard.press("?")
    expect(page.get_by_role("dialog").get_by_text("previous and next sibling")).to_be_visible()
    assert page.evaluate(loaded, "/help-") == 1
    page.keyboard.press("Escape")
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Depth").click()
    expect(page.get_by_role("img").first).to_be_visible()
    assert page.evaluate(loaded, "DepthPage") == 1


def test_parts_that_did_not_load_offer_to_load_again(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop", expected="status of 404")
    boxes(page)
    page.route("**/DepthPage-*.js", lambda route: route.fulfill(status=404, json=GONE))
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Depth").click()
    expect(page.get_by_text("The script of this page did not load.")).to_be_visible()
    page.unroute("**/DepthPage-*.js")
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("img").first).to_be_visible()
    # The keys of the settings page are a file of their own.
    page.route("**/help-*.json", lambda route: route.fulfill(status=404, json=GONE))
    page.goto(f"{shop}/settings")
    keyboard = page.get_by_role("region", name="Keyboard")
    expect(keyboard).to_contain_text("Load the page again")
    page.unroute("**/help-*.json")
    keyboard.get_by_role("button", name="Try again").click()
    expect(keyboard.get_by_text("previous and next sibling")).to_be_visible()


def test_open_in_speedscope_shows_the_profile_there(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    page.get_by_text("Export ▾", exact=True).click()
    link = page.get_by_role("link", name="Open in speedscope")
    target = link.get_attribute("href")
    assert target
    assert link.get_attribute("target") == "_blank"
    speedscope = open_page(shop + target, expected="GPU stall due to ReadPixels")
    expect(speedscope.get_by_text("Left Heavy")).to_be_visible()
    expect(speedscope).to_have_title(re.compile("shop"))
    expect(speedscope.locator("canvas").first).to_be_visible()


def test_everything_works_below_a_path_prefix(serve: Serve, open_page: Open) -> None:
    running = serve("--path-prefix", "/tools/profiles")
    home = f"{running.url}/tools/profiles"
    send(home, windows("shop", "v1", BEFORE), windows("shop", "v2", AFTER, minutes_ago=3))
    page = open_page(home)
    page.get_by_role("link", name="shop", exact=True).click()
    assert boxes(page)
    assert page.url.startswith(f"{home}/s/shop")
    page.reload()
    assert boxes(page)
    page.get_by_text("Export ▾", exact=True).click()
    target = page.get_by_role("link", name="Open in speedscope").get_attribute("href")
    assert target
    assert target.startswith("/tools/profiles/speedscope/")
    speedscope = open_page(running.url + target, expected="GPU stall due to ReadPixels")
    expect(speedscope.get_by_text("Left Heavy")).to_be_visible()
    # A short link shows the same view.
    page.goto(f"{home}/s/shop?from=-30m&q=query&invert=1")
    there = outline(page)
    link = clipboard_after(page, page.get_by_role("button", name="Share", exact=True).click)
    assert re.fullmatch(rf"{re.escape(home)}/l/[a-z2-7]{{16}}", link)
    page.goto(link)
    assert outline(page) == there
    found = urlsplit(page.url)
    assert found.path == "/tools/profiles/s/shop"
    given = parse_qs(found.query)
    assert given["q"] == ["query"]
    for edge in ("from", "until"):
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:]+Z", given[edge][0])
