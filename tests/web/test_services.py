"""The list of services: what each costs, how its versions differ, and tens of thousands of them at once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, expect
from ulid import ULID

from sidelight.collector.store.opening import open_store, verify
from sidelight.collector.store.segments import event_day, write_segment
from sidelight.stacks.folded import parse_folded
from sidelight.stacks.labels import Labels
from sidelight.stacks.window import Window
from tests.running import collector
from tests.web.conftest import Open, Serve
from tests.web.profiles import AFTER, BEFORE, PERIOD_NS, WELL, send, windows
from tests.web.rules import violations

SERVICES = 30_000


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a collector whose store has 30,000 services, each in two versions."""
    folder = tmp_path_factory.mktemp("fleet")
    store = open_store(str(folder / "store"), s3_endpoint=None, timeout_seconds=20)
    verify(store)
    stacks = [parse_folded(f"main (a.py:1);f{at} (b.py:2) {20 * at}\n") for at in range(1, 30)]
    now = time.time_ns()
    for turn, minutes in enumerate((90, 3)):
        made = [
            Window(
                id=str(ULID()),
                labels=Labels({"service": f"svc-{at:05d}", "version": f"v{turn}", "pod": f"p-{at}-{turn}"}),
                start_ns=now - minutes * 60 * 10**9 + at,
                duration_ns=60 * 10**9,
                period_ns=PERIOD_NS,
                counts=stacks[(at + turn) % 29],
                quality=WELL,
            )
            for at in range(SERVICES)
        ]
        for day in {event_day(one.start_ns) for one in made}:
            write_segment(store, [one for one in made if event_day(one.start_ns) == day])
    with collector(folder, str(folder / "store")) as running:
        yield running.url


def listed(page: Page) -> Page:
    """The page once its services are there: 30,000 take a busy machine a while."""
    page.locator(".services").wait_for(timeout=90_000)
    return page


def rows(page: Page) -> list[str]:
    """The names of the services whose rows are in the page."""
    return page.locator(".services tbody th a").all_inner_texts()


def test_of_thirty_thousand_services_only_the_rows_in_view_are_in_the_page(
    fleet: str, open_page: Open
) -> None:
    page = listed(open_page(f"{fleet}/services?sort=%2Bservice"))
    expect(page.get_by_role("status")).to_contain_text("30,000 services · 30,000 pods now")
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", str(SERVICES + 1))
    expect(page.get_by_role("link", name="svc-00000", exact=True)).to_be_visible()
    assert len(rows(page)) < 60
    expect(page.get_by_role("row").filter(has_text="svc-00000").locator(".sparkline")).to_be_visible()
    page.locator(".windowed").evaluate("host => { host.scrollTop = host.scrollHeight }")
    last = page.get_by_role("row").filter(has_text="svc-29999")
    expect(last).to_be_visible()
    expect(last).to_have_attribute("aria-rowindex", str(SERVICES + 1))
    expect(last.locator(".sparkline")).to_be_visible()
    assert len(rows(page)) < 60


def test_thirty_thousand_services_are_searched_and_sorted(fleet: str, open_page: Open) -> None:
    page = listed(open_page(f"{fleet}/services"))
    page.keyboard.press("/")
    page.keyboard.type("SVC-1234")
    expect(page.get_by_role("status")).to_contain_text("10 of 30,000 services · 10 pods now")
    assert sorted(rows(page)) == [f"svc-1234{at}" for at in range(10)]
    page.get_by_role("button", name="Service").click()
    expect(page.locator(".services tbody th a").first).to_have_text("svc-12340")
    assert rows(page) == [f"svc-1234{at}" for at in range(10)]
    page.get_by_role("button", name="Service").click()
    expect(page.locator(".services tbody th a").first).to_have_text("svc-12349")
    page.get_by_label("Search services").fill("nobody is called so")
    expect(page.get_by_text("No service is called like")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(page.locator(".services tbody th a").first).to_have_text("svc-29999")
    page.get_by_role("button", name="vs previous").click()
    expect(page.locator(".drift").first).to_contain_text("+100.0 % ?")


def test_every_one_of_thirty_thousand_rows_is_reached_by_keyboard(fleet: str, open_page: Open) -> None:
    page = listed(open_page(f"{fleet}/services?sort=%2Bservice"))
    page.get_by_role("link", name="svc-00000", exact=True).focus()
    focused = page.locator(".services a:focus")
    page.keyboard.press("ArrowDown")
    expect(focused).to_have_text("svc-00001")
    page.keyboard.press("End")
    expect(focused).to_have_text("svc-29999")
    expect(focused).to_be_in_viewport()
    page.keyboard.press("PageUp")
    expect(focused).not_to_have_text("svc-29999")
    page.keyboard.press("Home")
    expect(focused).to_have_text("svc-00000")
    page.keyboard.press("Tab")
    expect(focused).to_contain_text("against v0")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("row").filter(has_text="svc-00001").locator("a:focus")).to_contain_text("against")


def test_the_focus_stays_on_a_row_that_is_scrolled_away(fleet: str, open_page: Open) -> None:
    page = listed(open_page(f"{fleet}/services?sort=%2Bservice"))
    page.get_by_role("link", name="svc-00003", exact=True).focus()
    page.locator(".windowed").evaluate("host => { host.scrollTop = 400_000 }")
    expect(page.get_by_role("link", name="svc-10000", exact=True)).to_be_attached()
    expect(page.locator(".services a:focus")).to_have_text("svc-00003")
    page.keyboard.press("ArrowDown")
    expect(page.locator(".services a:focus")).to_have_text("svc-00004")
    expect(page.locator(".services a:focus")).to_be_in_viewport()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_list_of_thirty_thousand_breaks_no_rule(fleet: str, open_page: Open, axe: str, theme: str) -> None:
    page = listed(open_page(f"{fleet}/services?theme={theme}"))
    expect(page.locator(".sparkline").first).to_be_visible()
    assert violations(page, axe) == []


def test_a_change_that_nobody_has_looked_at_is_no_claim_and_leads_to_its_comparison(
    shop: str, open_page: Open
) -> None:
    page = open_page(shop)
    row = page.get_by_role("row").filter(has_text="shop")
    expect(row).to_contain_text(re.compile(r"v2 \(\d+ min\)"))
    # 160 busy samples of ten seconds against 110, in six windows each.
    expect(row.locator(".drift")).to_have_text("+45.5 % ? against v1: compare")
    row.locator(".drift").click()
    expect(page.locator(".verdict")).to_contain_text("(0.110 → 0.160 seconds per pod-second)")
    given = parse_qs(urlsplit(page.url).query)
    assert (given["a"], given["b"]) == (["version:v1"], ["version:v2"])


def test_what_cannot_be_compared_says_why(shop: str, open_page: Open) -> None:
    page = open_page(shop)
    expect(page.get_by_role("row").filter(has_text="lone")).to_contain_text("one version")
    unversioned = page.get_by_role("row").filter(has_text="unversioned")
    unversioned.get_by_role("link", name="how").click()
    expect(page.get_by_role("heading", name="unversioned")).to_be_visible()


def test_the_cost_of_all_pods_is_told_from_that_of_one(serve: Serve, open_page: Open) -> None:
    running = serve()
    send(
        running.url,
        windows("three", "1", "f (a.py:1) 500\n", pods=3),
        windows("one", "1", "f (a.py:1) 900\n", pods=1),
    )
    page = open_page(running.url)
    expect(page.locator(".services tbody th").first).to_have_text("three")
    cells = page.get_by_role("row").filter(has_text="three").get_by_role("cell")
    expect(cells.nth(0)).to_have_text("1.50")
    expect(cells.nth(1)).to_have_text("0.500")
    page.get_by_role("button", name="per pod").click()
    expect(page.locator(".services tbody th").first).to_have_text("one")


def test_a_version_with_few_samples_is_still_collecting_and_pods_say_how_far(
    serve: Serve, open_page: Open
) -> None:
    running = serve()
    send(
        running.url,
        windows("rolling", "old", BEFORE, pods=3, count=20),
        windows("rolling", "new", "f (a.py:1) 3\n", pods=1, count=1, minutes_ago=2),
        windows("alike", "1", BEFORE, minutes_ago=30, count=40),
        windows("alike", "2", BEFORE, minutes_ago=12, count=40),
    )
    page = open_page(running.url)
    row = page.get_by_role("row").filter(has_text="rolling")
    expect(row).to_contain_text("1/4")
    expect(row.locator(".drift")).to_contain_text("%")
    expect(page.get_by_role("row").filter(has_text="alike").locator(".drift")).to_contain_text("0.0 % ?")
    send(
        running.url,
        windows("quiet", "1", "f (a.py:1) 3\n", minutes_ago=9),
        windows("quiet", "2", "f (a.py:1) 3\n"),
    )
    page.get_by_role("button", name="Refresh").click()
    expect(page.get_by_role("row").filter(has_text="quiet").locator(".drift")).to_contain_text("… collecting")


def test_services_are_filtered_by_cluster_and_namespace_where_there_are_any(
    serve: Serve, open_page: Open
) -> None:
    running = serve()
    send(
        running.url,
        windows("cart", "1", AFTER, cluster="eu", namespace="prod"),
        windows("pay", "1", AFTER, cluster="us", namespace="prod"),
        windows("tool", "1", AFTER, namespace="<i>lab"),
    )
    page = open_page(running.url)
    page.get_by_label("namespace").select_option("prod")
    expect(page.get_by_role("status")).to_contain_text("2 services")
    page.get_by_label("cluster").select_option("us")
    expect(page.locator(".services tbody th")).to_have_text(["pay"])
    page.reload()
    expect(page.get_by_label("cluster")).to_have_value("us")
    page.get_by_label("namespace").select_option("<i>lab")
    expect(page.get_by_text("No service has windows with")).to_be_visible()
    page.go_back()
    expect(page.locator(".services tbody th")).to_have_text(["pay"])
    page.get_by_role("link", name="pay", exact=True).click()
    expect(page.get_by_role("button", name="namespace is prod")).to_be_visible()
    expect(page.get_by_role("button", name="cluster is us")).to_be_visible()


def test_without_such_labels_there_are_no_such_filters(shop: str, open_page: Open) -> None:
    page = open_page(shop)
    expect(page.locator(".sparkline").first).to_be_visible()
    expect(page.get_by_label("cluster")).to_have_count(0)


def test_on_a_narrow_screen_the_table_scrolls_and_the_page_does_not(shop: str, open_page: Open) -> None:
    page = open_page(shop)
    page.set_viewport_size({"width": 360, "height": 700})
    expect(page.get_by_role("link", name="shop", exact=True)).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 360
