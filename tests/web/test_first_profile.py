"""A collector that has seen nothing yet, and the moment it has."""

from __future__ import annotations

import time
from pathlib import Path

from playwright.sync_api import expect

from tests.running import collector
from tests.web.conftest import Open, Serve
from tests.web.flame import boxes
from tests.web.profiles import BEFORE, send, windows


def test_the_empty_page_says_what_is_up_and_turns_into_services_by_itself(
    serve: Serve, open_page: Open
) -> None:
    running = serve()
    page = open_page(running.url)
    expect(page.get_by_role("heading", name="No profiles yet")).to_be_visible()
    expect(page.locator(".checks")).to_contain_text("store is reachable (directory)")
    expect(page.locator(".checks")).to_contain_text("windows acknowledged: 0; last: never")
    expect(page.locator(".command").first).to_contain_text(f"sidelight sidecar --collector {running.url}")
    send(running.url, windows("first", "v1", BEFORE))
    page.get_by_role("link", name="first", exact=True).click()
    assert boxes(page)


def test_an_empty_range_offers_a_longer_one(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/services?from=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z")
    expect(page.get_by_role("heading", name="No profiles in this range")).to_be_visible()
    page.get_by_role("button", name="Look at the last 30 days").click()
    expect(page.get_by_role("link", name="shop", exact=True)).to_be_visible()


def test_an_unknown_service_is_an_empty_page_with_ways_out(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/nobody")
    expect(page.get_by_role("heading", name="No CPU samples of nobody here")).to_be_visible()
    page.get_by_role("button", name="Show wall time").click()
    expect(page.get_by_role("heading", name="No wall samples of nobody here")).to_be_visible()


def test_a_collector_that_went_away_is_said_and_asked_again(tmp_path: Path, open_page: Open) -> None:
    with collector(tmp_path, str(tmp_path / "store")) as running:
        send(running.url, windows("gone", "v1", BEFORE))
        page = open_page(f"{running.url}/s/gone", expected="net::ERR_")
        boxes(page)
        running.running.end()
        page.get_by_role("button", name="Wall").click()
        expect(page.get_by_role("alert")).to_contain_text("The collector does not answer.")
        port = running.url.rsplit(":", 1)[1]
        with collector(tmp_path, str(tmp_path / "store"), "--listen", f"127.0.0.1:{port}"):
            # The page asks by itself as well, and then the button is gone.
            page.get_by_role("button", name="Try again").evaluate_all(
                "found => found.forEach((one) => one.click())"
            )
            expect(page.get_by_role("alert")).to_have_count(0, timeout=45_000)
            assert boxes(page)


def test_a_range_in_the_past_calls_nothing_stale_that_was_alive_at_its_end(
    shop: str, open_page: Open
) -> None:
    now = time.time()
    page = open_page(f"{shop}/services?from={now - 7200:.0f}&until={now - 1560:.0f}")
    row = page.get_by_role("row").filter(has_text="shop")
    expect(row).to_contain_text("min ago")
    expect(row.locator(".badge")).to_have_count(0)
    page.goto(f"{shop}/services?from={now - 7200:.0f}&until={now - 600:.0f}")
    expect(row.locator(".badge")).to_have_text("stale")


def test_a_reader_without_a_token_is_told_the_way_in(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("secret\n")
    page = open_page(f"{serve('--read-tokens-file', str(tokens)).url}/s/shop", expected="401")
    expect(page.get_by_role("alert")).to_contain_text("a proxy that adds one or signs you in")


def test_on_a_phone_the_numbers_never_cover_the_graph(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare")
    page.set_viewport_size({"width": 390, "height": 700})
    boxes(page)
    graph, numbers = (page.locator(each).bounding_box() for each in (".flame-scroll", ".chosen"))
    assert graph
    assert numbers
    assert numbers["y"] >= graph["y"] + graph["height"]
    assert page.evaluate("document.documentElement.scrollWidth") == 390
