"""A comparison on paper."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.web.conftest import Open
from tests.web.flame import boxes

COMPARISON = "/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2"


def test_a_printed_comparison_is_a_report_of_two_pages(shop: str, open_page: Open) -> None:
    page = open_page(shop + COMPARISON)
    boxes(page)
    expect(page.locator(".culprits tbody tr").first).to_be_visible()
    page.emulate_media(media="print")
    for shown in (".verdict", ".culprits", ".flame canvas"):
        expect(page.locator(shown).first).to_be_visible()
    expect(page.get_by_role("banner")).to_be_hidden()
    expect(page.get_by_role("toolbar", name="Graph tools")).to_be_hidden()
    pages = re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))
    assert len(pages) == 2
