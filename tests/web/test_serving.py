"""How the pages are served: policy, prefix, compression, speedscope, and no UI at all."""

from __future__ import annotations

import asyncio
import gzip
import json
import re
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from playwright.sync_api import expect

from sidelight_collector.http import ui
from tests.web.conftest import Open, Serve
from tests.web.flame import boxes, outline
from tests.web.profiles import AFTER, BEFORE, send, windows

MOST_SCRIPT_BYTES = 100_000
"""What the scripts of the first page may weigh together, compressed with gzip as they are served."""
GONE = {
    "error": "not_found",
    "message": "there is no file",
    "hint": "Load the page again: the UI was rebuilt.",
}


def fetch(url: str, **headers: str) -> tuple[bytes, dict[str, str]]:
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read(), dict(answer.headers)


def test_every_page_is_sent_with_the_strict_policy_and_checked_for_changes(shop: str) -> None:
    for path in ("/", "/services", "/s/shop", "/s/shop/compare?baseline=x", "/s/shop/depth", "/s/a%2Fb"):
        _, headers = fetch(shop + path)
        assert headers["Content-Security-Policy"] == (
            "default-src 'none'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
            "frame-src 'self'; "
            "frame-ancestors 'self'; base-uri 'none'; form-action 'none'; object-src 'none'; "
            "script-src 'self'; style-src 'self'; require-trusted-types-for 'script'; trusted-types 'none'"
        )
        assert headers["Cache-Control"] == "no-cache"
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_hashed_files_are_kept_for_ever_and_sent_compressed(shop: str) -> None:
    page, _ = fetch(shop)
    script = re.search(r'src="([^"]+\.js)"', page.decode())
    assert script
    plain, headers = fetch(shop + script[1])
    assert headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert headers["Content-Type"].startswith("text/javascript")
    smaller, headers = fetch(shop + script[1], **{"Accept-Encoding": "br"})
    assert headers["Content-Encoding"] == "br"
    assert len(smaller) < MOST_SCRIPT_BYTES < len(plain)


def test_the_scripts_of_the_first_page_are_within_their_budget(shop: str, open_page: Open) -> None:
    built = ui.find_build()
    assert built
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    names = {
        url.rpartition("/")[2]
        for url in page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
        if url.endswith(".js")
    }
    scripts = [path for path in built.assets.values() if path.name in names]
    sizes = {path.name: len(gzip.compress(path.read_bytes())) for path in scripts}
    assert len(sizes) == len(names)
    assert 0 < sum(sizes.values()) <= MOST_SCRIPT_BYTES, sizes


def test_a_rarely_used_page_loads_its_script_when_it_opens_or_offers_to_reload(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    loaded = "performance.getEntriesByType('resource').filter(({ name }) => /DepthPage/.test(name)).length"
    assert page.evaluate(loaded) == 0
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Depth").click()
    expect(page.get_by_role("img").first).to_be_visible()
    assert page.evaluate(loaded) == 1
    page = open_page(f"{shop}/s/shop", expected="status of 404")
    boxes(page)
    page.route("**/DepthPage-*.js", lambda route: route.fulfill(status=404, json=GONE))
    page.get_by_role("navigation", name="Pages").get_by_role("link", name="Depth").click()
    expect(page.get_by_text("The script of this page did not load.")).to_be_visible()
    page.unroute("**/DepthPage-*.js")
    page.get_by_role("button", name="Reload").click()
    expect(page.get_by_role("img").first).to_be_visible()


def test_what_few_visits_need_is_loaded_where_it_is_shown_and_asked_for_again(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    loaded = "performance.getEntriesByType('resource').filter(({ name }) => /help-.*json/.test(name)).length"
    assert page.evaluate(loaded) == 0
    page.keyboard.press("?")
    expect(page.get_by_role("dialog").get_by_text("previous and next sibling")).to_be_visible()
    assert page.evaluate(loaded) == 1
    page = open_page(f"{shop}/settings", expected="status of 404")
    page.route("**/help-*.json", lambda route: route.fulfill(status=404, json=GONE))
    page.reload()
    keyboard = page.get_by_role("region", name="Keyboard")
    expect(keyboard).to_contain_text("Load the page again")
    page.unroute("**/help-*.json")
    keyboard.get_by_role("button", name="Try again").click()
    expect(keyboard.get_by_text("previous and next sibling")).to_be_visible()


def test_only_built_files_can_be_named(shop: str) -> None:
    for path in (
        "/assets/../index.html",
        "/assets/%2e%2e%2findex.html",
        "/assets/nothing.js",
        "/speedscope/..%2findex.html",
    ):
        with pytest.raises(urllib.error.HTTPError) as refused:
            fetch(shop + path)
        assert refused.value.code == 404
        assert json.load(refused.value)["error"] == "not_found"


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
    page.get_by_role("button", name="Share", exact=True).click()
    expect(page.locator(".toast")).to_have_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert re.fullmatch(rf"{re.escape(home)}/l/[a-z2-7]{{16}}", link)
    page.goto(link)
    assert outline(page) == there
    found = urlsplit(page.url)
    assert found.path == "/tools/profiles/s/shop"
    given = parse_qs(found.query)
    assert given["q"] == ["query"]
    for edge in ("from", "until"):
        assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:]+Z", given[edge][0])


def test_without_a_built_ui_the_page_says_how_to_build_it() -> None:
    async def answers() -> list[tuple[int, str]]:
        app = web.Application()
        app.add_routes(ui.routes())
        async with TestClient(TestServer(app)) as client:
            paths = ("/", "/services", "/s/shop", "/speedscope/")
            return [
                (answer.status, await answer.text()) for answer in [await client.get(path) for path in paths]
            ]

    # In a thread of its own: the browser's loop runs in this one.
    with ThreadPoolExecutor(1) as thread:
        for status, text in thread.submit(asyncio.run, answers()).result():
            assert status == 404
            assert "make ui" in text


def test_the_package_is_looked_in_before_the_source_tree(tmp_path: Path) -> None:
    for place in ("package", "source"):
        for folder in ("assets", "speedscope"):
            (tmp_path / place / folder).mkdir(parents=True)
        (tmp_path / place / "index.html").write_text(place)
        (tmp_path / place / "speedscope" / "index.html").write_text("<head></head>")
    assert ui.find_build((tmp_path / "nowhere", tmp_path / "package", tmp_path / "source")) is not None
    found = ui.find_build((tmp_path / "package", tmp_path / "source"))
    assert found is not None
    assert found.index_html == "package"
    assert ui.find_build((tmp_path / "nowhere",)) is None
