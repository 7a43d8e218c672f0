"""Filters by any label: chips, a picker, and the whole text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from playwright.sync_api import Locator, Page, expect

from sidelight_model.labels import Labels
from sidelight_model.window import Window
from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import boxes
from tests.web.profiles import ENDPOINTS, make_window_id, send, windows


def query(page: Page) -> str:
    return parse_qs(urlsplit(page.evaluate("location.href")).query).get("query", [""])[0]


def basis(page: Page) -> Locator:
    return page.locator(".quality .basis")


def begin(page: Page, label: str) -> Locator:
    """Open the picker at a label; returns the field of its value."""
    page.get_by_role("button", name="+ filter").click()
    page.get_by_label("Label", exact=True).select_option(label)
    return page.get_by_role("combobox", name="Value of the label")


def offered(page: Page, name: str = "") -> Locator:
    """The values on offer, or the one of this name."""
    return page.get_by_role("listbox").get_by_role("option", name=name)


def test_filters_are_chosen_edited_and_removed_with_the_keyboard_alone(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop")
    field = begin(page, "version")
    expect(offered(page)).to_have_count(2)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(offered(page, name="v2")).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    expect(basis(page)).to_contain_text("960 samples")
    assert query(page) == 'version="v2"'
    page.get_by_role("button", name="version is v2").press("Enter")
    expect(field).to_be_focused()
    page.get_by_label("Operator").select_option("!=")
    field.press("Enter")
    expect(basis(page)).to_contain_text("660 samples")
    assert query(page) == 'version!="v2"'
    page.get_by_role("button", name="Remove the filter").press("Enter")
    expect(basis(page)).to_contain_text("1,620 samples")
    page.go_back()
    expect(basis(page)).to_contain_text("660 samples")
    # Escape leaves it as it was.
    page.goto(f"{shop}/s/shop?query=version%3D%22v2%22")
    page.get_by_role("button", name="version is v2").click()
    page.get_by_role("combobox", name="Value of the label").fill("v1")
    page.keyboard.press("Escape")
    expect(page.get_by_role("form", name="Edit the filter")).to_have_count(0)
    assert query(page) == 'version="v2"'
    # Picked values become alternatives of a pattern.
    page.goto(f"{shop}/s/shop")
    field = begin(page, "pod")
    page.get_by_label("Operator").select_option("=~")
    offered(page, name="shop-v1-0").click()
    expect(field).to_have_value("shop-v1-0")
    field.press("End")
    field.type("|")
    offered(page, name="shop-v2-1").click()
    field.press("Enter")
    expect(basis(page)).to_contain_text("2 pods")
    expect(basis(page)).to_contain_text("810 samples")
    assert query(page) == 'pod=~"shop-v1-0|shop-v2-1"'
    # A label can be asked to be absent.
    page.goto(f"{shop}/s/shop")
    begin(page, "node").press("Enter")
    expect(page.get_by_role("heading", name="No CPU samples in this range")).to_be_visible()
    assert query(page) == 'node=""'
    expect(page.locator(".chip")).to_contain_text("(empty)")


def test_text_that_cannot_be_read_is_marked_where_the_collector_says(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop", expected="400")
    page.get_by_role("button", name="+ filter").click()
    page.get_by_role("button", name="Edit as query").click()
    page.get_by_label("Filter by labels").fill('version="v2", pod=x')
    page.keyboard.press("Enter")
    trouble = page.get_by_role("alert")
    expect(trouble).to_contain_text("a value in quotes was expected")
    expect(trouble.locator("mark")).to_have_text("x")
    field = page.get_by_label("Filter by labels")
    expect(field).to_have_attribute("aria-invalid", "true")
    trouble.get_by_role("button", name="Edit the filter there").click()
    expect(field).to_be_focused()
    assert field.evaluate("field => field.value.slice(field.selectionStart)") == "x"
    page.keyboard.type('~".*-1"')
    expect(field).to_have_value('version="v2", pod=~".*-1"')
    page.keyboard.press("Enter")
    expect(basis(page)).to_contain_text("480 samples")
    expect(page.locator(".chip")).to_have_count(2)
    unread = quote('pod=~"(a"')
    page.goto(f"{shop}/s/shop?query={unread}")
    expect(page.get_by_role("alert")).to_contain_text("the regular expression cannot be read")
    page.get_by_role("button", name="Remove the filter").click()
    assert boxes(page)


def test_endpoints_of_a_service_are_listed_filtered_and_group_the_graph(shop: str, open_page: Open) -> None:
    send(shop, windows("endpoints", "1", ENDPOINTS))
    page = open_page(f"{shop}/s/endpoints")
    assert boxes(page)
    page.get_by_text("Endpoints ▾", exact=True).click()
    table = page.get_by_role("region", name="Table of endpoints")
    expect(table.get_by_role("row").nth(1)).to_have_text(re.compile(r"cart \(shop.py\).*60\.00 %.*flask"))
    expect(table.get_by_role("row").filter(has_text="no endpoint")).to_contain_text("20.00 %")
    page.get_by_role("button", name="Group the graph by endpoint").click()
    expect(page).to_have_url(re.compile("endpoints=1"))
    names = ["pay (shop.py)", "cart (shop.py)"]
    eventually(
        "endpoints are frames of the first row", lambda: all(name in str(boxes(page)) for name in names)
    )
    table.get_by_role("link", name="pay (shop.py)").click()
    expect(page.get_by_role("button", name="endpoint is pay (shop.py)")).to_be_visible()
    expect(basis(page)).to_contain_text("60 samples")
    # Two endpoints are compared.
    page.goto(f"{shop}/s/endpoints?view=breakdown&group=endpoint")
    for side, name in (("A", "pay (shop.py)"), ("B", "cart (shop.py)")):
        card = page.get_by_role("listitem", name=name)
        card.get_by_title(f"Make this side {side} of a comparison").click()
    expect(page.get_by_role("region", name="Verdict")).to_be_visible()
    address = urlsplit(page.evaluate("location.href"))
    assert parse_qs(address.query)["comparison"] == ['match:endpoint="cart (shop.py)"']


def pods(count: int) -> Iterator[list[Window]]:
    """Windows of so many pods of one service, a thousand at a time."""
    (one,) = windows(f"pods-{count}", "1", "main (a.py) 1\n", pods=1, count=1)
    for start in range(0, count, 1000):
        named = (f"web-{at:05}" for at in range(start, start + 1000))
        yield [
            replace(
                one, id=make_window_id(one.start_ns), labels=Labels({"service": f"pods-{count}", "pod": pod})
            )
            for pod in named
        ]


@pytest.mark.parametrize("count", [1000, pytest.param(30_000, marks=pytest.mark.long, id="thirty thousand")])
def test_many_values_are_searched_while_typing(shop: str, open_page: Open, count: int) -> None:
    for batch in pods(count):
        send(shop, batch)
    page = open_page(f"{shop}/s/pods-{count}")
    field = begin(page, "pod")
    expect(offered(page)).to_have_count(50)
    expect(page.locator(".offered")).to_contain_text(f"and {count - 50:,} more: type to narrow them down")
    field.press_sequentially(f"web-{count // 10 - 1:04}")
    expect(offered(page)).to_have_count(10)
    offered(page, name=f"web-{count - 1:05}").click()
    expect(basis(page)).to_contain_text("1 pod ")
