"""One search over the functions of all services, and what they cost."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.web.conftest import Open, Serve
from tests.web.flame import boxes
from tests.web.profiles import FAST, SLOW, send, windows


def test_a_function_of_all_services_has_cores_share_cost_and_leads_to_each(
    serve: Serve, open_page: Open
) -> None:
    served = serve("--core-hour-price", "0.04")
    send(served.url, windows("pay", "v1", SLOW), windows("cart", "v1", FAST))
    page = open_page(served.url)
    page.get_by_role("link", name="Functions", exact=True).click()
    page.get_by_label("Search functions of all services").fill("json.decoder.parse")
    # 90 and 40 of 150 and 79 samples.
    expect(page.locator(".headline")).to_have_text(
        re.compile(r"json\.decoder\.parse: 0\.\d+ cores in 2 services, 56\.8 % .*[\d.]+ per month")
    )
    row = page.get_by_role("region", name="Table of functions").get_by_role("row").nth(1)
    expect(row).to_contain_text("parse json/decoder.py")
    row.locator("summary").click()
    row.get_by_role("link", name="cart").click()
    expect(page.locator(".matched")).to_contain_text("50.6 %")
    assert any(box["hit"] for box in boxes(page))
