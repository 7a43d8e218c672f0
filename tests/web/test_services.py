"""The list of services: what each costs, how its versions differ, and thousands of them at once."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from sidelight_collector.storage.backends.open_store import open_store, verify_store
from sidelight_collector.storage.segments import event_day, write_segment
from sidelight_model.folded import parse_folded
from sidelight_model.labels import Labels
from sidelight_model.window import Window
from tests.processes import Collector, collector, eventually
from tests.web.conftest import Open
from tests.web.profiles import PERIOD_NS, WELL, make_window_id
from tests.web.rules import FRAMES, violations_in_both_themes

SERVICES = 3_000


def fleet_of(folder: Path, count: int) -> AbstractContextManager[Collector]:
    """A collector whose store has this many services, each in two versions."""
    store = open_store(str(folder / "store"), s3_endpoint=None, timeout_seconds=20)
    verify_store(store)
    stacks = [parse_folded(f"main (a.py:1);f{at} (b.py:2) {20 * at}\n") for at in range(1, 30)]
    now = time.time_ns()
    for turn, minutes in enumerate((90, 3)):
        first_ns = now - minutes * 60 * 10**9
        made = [
            Window(
                id=make_window_id(start_ns),
                labels=Labels({"service": f"svc-{at:05d}", "version": f"v{turn}", "pod": f"p-{at}-{turn}"}),
                start_ns=start_ns,
                duration_ns=60 * 10**9,
                period_ns=PERIOD_NS,
                counts=stacks[(at + turn) % 29],
                quality=WELL,
            )
            for at, start_ns in enumerate(range(first_ns, first_ns + count))
        ]
        for day in {event_day(one.start_ns) for one in made}:
            write_segment(store, [one for one in made if event_day(one.start_ns) == day])
    return collector(folder, str(folder / "store"))


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a collector with three thousand services."""
    with fleet_of(tmp_path_factory.mktemp("fleet"), SERVICES) as running:
        yield running.url


def listed(page: Page) -> Page:
    """The page once its services are there: thousands take a busy machine a while."""
    page.locator(".services").wait_for(timeout=90_000)
    return page


def rows(page: Page) -> list[str]:
    """The names of the services whose rows are in the page."""
    return page.locator(".services tbody th a").all_inner_texts()


def assert_windowed(page: Page, count: int) -> None:
    """Only the rows in view are in the page, whichever end of the list is."""
    expect(page.get_by_role("status")).to_contain_text(f"{count:,} services · {count:,} pods now")
    expect(page.get_by_role("table")).to_have_attribute("aria-rowcount", str(count + 1))
    expect(page.get_by_role("link", name="svc-00000", exact=True)).to_be_visible()
    assert len(rows(page)) < 60
    expect(page.get_by_role("row").filter(has_text="svc-00000").locator(".sparkline")).to_be_visible()
    page.locator(".windowed").evaluate("host => { host.scrollTop = host.scrollHeight }")
    last = page.get_by_role("row").filter(has_text=f"svc-{count - 1:05d}")
    expect(last).to_be_visible()
    expect(last).to_have_attribute("aria-rowindex", str(count + 1))
    expect(last.locator(".sparkline")).to_be_visible()
    assert len(rows(page)) < 60


def test_thousands_of_services_are_scrolled_walked_searched_and_sorted(
    fleet: str, open_page: Open, axe: str
) -> None:
    page = listed(open_page(f"{fleet}/services?sort=%2Bservice"))
    expect(page.get_by_label("cluster")).to_have_count(0)
    assert_windowed(page, SERVICES)
    assert violations_in_both_themes(page, axe) == {}
    page.locator(".windowed").evaluate("host => { host.scrollTop = 0 }")
    page.get_by_role("link", name="svc-00000", exact=True).focus()
    focused = page.locator(".services a:focus")
    page.keyboard.press("ArrowDown")
    expect(focused).to_have_text("svc-00001")
    page.keyboard.press("End")
    expect(focused).to_have_text("svc-02999")
    expect(focused).to_be_in_viewport()
    page.keyboard.press("PageUp")
    expect(focused).not_to_have_text("svc-02999")
    page.keyboard.press("Home")
    expect(focused).to_have_text("svc-00000")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Capture svc-00000", exact=True)).to_be_focused()
    page.keyboard.press("Tab")
    expect(focused).to_contain_text("against v0")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("row").filter(has_text="svc-00001").locator("a:focus")).to_contain_text("against")
    # The focus stays on a row that is scrolled away.
    page.get_by_role("link", name="svc-00003", exact=True).focus()
    page.locator(".windowed").evaluate("host => { host.scrollTop = 40_000 }")
    expect(page.get_by_role("link", name="svc-01000", exact=True)).to_be_attached()
    expect(focused).to_have_text("svc-00003")
    page.keyboard.press("ArrowDown")
    expect(focused).to_have_text("svc-00004")
    expect(focused).to_be_in_viewport()
    # They are searched and sorted.
    page.goto(f"{fleet}/services")
    listed(page)
    page.keyboard.press("/")
    page.keyboard.type("SVC-0123")
    expect(page.get_by_role("status")).to_contain_text("10 of 3,000 services · 10 pods now")
    eventually("they are listed", lambda: sorted(rows(page)) == [f"svc-0123{at}" for at in range(10)])
    page.get_by_role("button", name="Service").click()
    expect(page.locator(".services tbody th a").first).to_have_text("svc-01230")
    eventually("all are in order", lambda: rows(page) == [f"svc-0123{at}" for at in range(10)])
    page.get_by_role("button", name="Service").click()
    expect(page.locator(".services tbody th a").first).to_have_text("svc-01239")
    page.get_by_label("Search services").fill("nobody is called so")
    expect(page.get_by_text("No service matches")).to_be_visible()
    page.get_by_role("button", name="Show all").click()
    expect(page.locator(".services tbody th a").first).to_have_text("svc-02999")
    page.get_by_role("button", name="vs previous").click()
    expect(page.locator(".drift").first).to_contain_text("+100.0 % unverified")


@pytest.mark.long
def test_thirty_thousand_services_have_only_the_rows_in_view(tmp_path: Path, open_page: Open) -> None:
    with fleet_of(tmp_path, 30_000) as running:
        page = listed(open_page(f"{running.url}/services?sort=%2Bservice"))
        assert_windowed(page, 30_000)
        page.close()


def test_a_change_that_nobody_has_looked_at_is_no_claim_and_leads_to_its_comparison(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/services?q=shop", viewport={"width": 360, "height": 700})
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="shop", exact=True))
    expect(row.locator("td[data-head=cores]")).to_be_in_viewport()
    expect(row.locator(".drift")).to_be_in_viewport()
    assert page.evaluate("document.documentElement.scrollWidth") == 360, "nothing is hidden at the right"
    page.set_viewport_size({"width": 1280, "height": 900})
    page.get_by_label("Search services").fill("")
    # A press that begins before the wide table is drawn ends on another element.
    page.evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    expect(page.get_by_role("row").filter(has_text="lone").locator("td").first).to_have_text("\N{EN DASH}")
    expect(page.get_by_role("columnheader", name="vs previous")).to_have_css("text-align", "left")
    expect(row).to_contain_text(re.compile(r"v2 \(\d+ min\)"))
    # 160 busy samples of ten seconds against 110, in six windows each.
    expect(row.locator(".drift")).to_have_text("+45.5 % unverified against v1: compare")
    row.locator(".drift").click()
    expect(page.locator(".verdict")).to_contain_text("110 → 160 m/pod")
    given = parse_qs(urlsplit(page.evaluate("location.href")).query)
    assert (given["baseline"], given["comparison"]) == (["version:v1"], ["version:v2"])


def test_late_filters_move_nothing(shop: str, open_page: Open) -> None:
    page = open_page("about:blank")
    held: list[Route] = []
    page.route("**/api/v1/labels**", lambda route: held.append(route))
    # What else comes late has a place of its own, which may change the width of columns.
    with page.expect_response("**/api/v1/deploys?**"), page.expect_response("**/api/v1/workloads**"):
        page.goto(shop)
    rows = page.locator(".services tbody")
    expect(rows).to_be_visible()
    page.evaluate(FRAMES)
    eventually("filters ask for their labels", lambda: page.evaluate("true") and len(held) == 3)
    before = rows.bounding_box()
    for each in held:
        each.continue_()
    for label in ("cluster", "namespace"):
        expect(page.get_by_label(label)).to_be_visible()
    assert rows.bounding_box() == before


def test_a_row_under_the_pointer_is_lit_from_its_first_cell_to_its_last(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/services?query=service%3D~%22shop%7Clone%22")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="shop", exact=True))
    name = row.get_by_role("rowheader")
    expect(name).to_have_css("position", "sticky")
    colour, line = (f"at => getComputedStyle(at).{of}" for of in ("backgroundColor", "borderBottom"))
    before = name.evaluate(colour)
    name.hover()
    expect(name).not_to_have_css("background-color", before)
    expect(row).to_have_css("background-color", name.evaluate(colour))
    assert {cell.evaluate(line) for cell in row.locator("th, td").all()} == {name.evaluate(line)}


def test_services_are_filtered_by_label_and_grouped_with_favourites_first(shop: str, open_page: Open) -> None:
    page = open_page(shop)
    page.get_by_label("namespace").select_option("prod")
    expect(page.get_by_role("status")).to_contain_text("2 services")
    page.get_by_label("cluster").select_option("us")
    expect(page.locator(".services tbody th a")).to_have_text(["till"])
    page.reload()
    expect(page.get_by_label("cluster")).to_have_value("us")
    page.get_by_label("namespace").select_option("<i>lab")
    expect(page.get_by_text("No service has windows with")).to_be_visible()
    page.go_back()
    expect(page.locator(".services tbody th a")).to_have_text(["till"])
    page.get_by_role("link", name="till", exact=True).click()
    expect(page.get_by_role("button", name="namespace is prod")).to_be_visible()
    expect(page.get_by_role("button", name="cluster is us")).to_be_visible()
    # Favourites are the first of their group.
    page.goto(f"{shop}/services?sort=%2Bservice&query=namespace!%3D%22%22")
    first = page.locator(".services tbody th a.service").first
    expect(first).to_have_text("cart")
    page.get_by_label("Favourite: till", exact=True).click()
    expect(first).to_have_text("till")
    page.reload()
    expect(first).to_have_text("till")
    page.get_by_label("Group by").select_option("namespace")
    groups = page.locator(".group-row")
    expect(groups.filter(has_text="prod")).to_contain_text(re.compile(r"2 services · [\d.]+ cores · 4 pods"))
    groups.filter(has_text="prod").get_by_role("link").click()
    expect(page.locator(".services tbody th a.service")).to_have_text(["till", "cart"])
    page.get_by_label("Favourite: till", exact=True).click()
    expect(page.locator(".services tbody th a.service")).to_have_text(["cart", "till"])
