"""What a person keeps and sets for all pages: saved views, pinned comparisons, UTC and auto-refresh."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from tests.web.conftest import Open
from tests.web.flame import boxes


def choose(page: Page, item: str) -> None:
    page.get_by_label("More", exact=True).click()
    page.get_by_role("button", name=item).click()


def keep(page: Page, item: str, name: str) -> None:
    choose(page, item)
    expect(page.get_by_role("combobox", name="Find")).to_be_focused()
    page.keyboard.type(name)
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_saved_views_follow_the_time_and_pinned_comparisons_keep_it(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop?type=wall&from=-30m", own_context=True)
    boxes(page)
    keep(page, "Save this view", "Threads")
    page.goto(f"{shop}/s/shop/compare")
    boxes(page)
    keep(page, "Pin this comparison", "Release 2")
    page.goto(shop)
    saved = page.get_by_role("region", name="What needs attention")
    saved.get_by_role("link", name="Threads").click()
    expect(page).to_have_url(re.compile(r"/s/shop\?.*from=-30m"))
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Find")).to_be_focused()
    page.keyboard.type("Release 2")
    page.keyboard.press("Enter")
    expect(page.get_by_role("region", name="Verdict")).to_be_visible()
    given = parse_qs(urlsplit(page.evaluate("location.href")).query)
    assert (given["baseline"], given["comparison"]) == (["version:v1"], ["version:v2"])
    times = [given[f"{side}_{end}"][0] for side in ("baseline", "comparison") for end in ("from", "until")]
    assert all(re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]+Z", time) for time in times), times
    page.goto(shop)
    page.get_by_role("button", name="Remove the saved view Release 2").click()
    expect(saved.get_by_role("link", name="Release 2")).to_have_count(0)


def test_times_are_in_utc_if_wanted_and_pages_refresh_by_themselves(shop: str, open_page: Open) -> None:
    page = open_page("about:blank", timezone_id="Asia/Tokyo")
    page.clock.install()
    page.goto(f"{shop}/s/shop")
    boxes(page)
    slider = page.get_by_role("slider")
    slider.press("End")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"UTC\+09:00"))
    choose(page, "Show times in UTC")
    slider.press("End")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"UTC(?!\+)"))
    page.get_by_label("Time range: last hour").click()
    page.get_by_label("Auto-refresh").select_option("10")
    with page.expect_request(re.compile("/api/v1/flamegraph")):
        page.clock.fast_forward(10_000)
