"""Comparing two deployments: what takes more, what takes less, what is new, and how deep stacks are."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route, expect

from tests.running import eventually
from tests.web.conftest import Open
from tests.web.flame import box, boxes, click, hover, outline

SIDES = "a=version%3Av1&b=version%3Av2&load=alike"


def cells(page: Page, function: str) -> list[str]:
    row = page.locator(".panel tbody tr").filter(has_text=function)
    expect(row).to_have_count(1)
    return [re.sub(r"\s+", " ", text).strip() for text in row.locator("td").all_inner_texts()]


def test_a_service_leads_to_its_comparison_with_the_previous_version(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop")
    page.get_by_role("link", name="Compare with previous version").click()
    expect(page.locator(".verdict")).to_have_text(
        "Not enough data to tell whether CPU time changed (0.110 → 0.160 seconds per pod-second): "
        "they ran at different times, and nothing tells yet how far load alone makes such times differ."
    )
    given = parse_qs(urlsplit(page.url).query)
    assert (given["a"], given["b"]) == (["version:v1"], ["version:v2"])
    expect(page.get_by_label("Version of side A")).to_have_value("version:v1")


def test_the_difference_shows_every_call_path_with_its_change(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    assert outline(page) == [
        "0 total",
        "1 main (app.py)",
        "2 handle (shop/views.py)",
        "3 cached (shop/cache.py)",
        "3 legacy (shop/old.py)",
        "3 query (shop/db.py)",
        "3 render (jinja2/runtime.py)",
        "4 loop (jinja2/runtime.py)",
    ]
    drawn = {each["name"].split(" ")[0]: each for each in boxes(page)}
    assert {name: each["hatch"] for name, each in drawn.items() if each["hatch"]} == {
        "cached": "new",
        "legacy": "gone",
        "loop": "new",
    }
    assert drawn["query"]["fill"] == "#c9ccd3"
    said = hover(page, "render")
    assert "20.0 ms/s · 18.18 % · 1.20 s · 120 samples" in said
    assert "60.0 ms/s · 37.50 % · 3.60 s · 360 samples" in said
    assert "▲ takes more time in B (+200.0 %)" in said
    assert "slower" not in page.locator("main").inner_text()


def test_widths_are_the_mean_of_both_sides(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    whole = box(page, "total")["width"]
    parts = {name: box(page, name)["width"] / whole for name in ("query", "legacy", "cached", "render")}
    assert {name: round(part * 270) for name, part in parts.items()} == {
        "query": 120,
        "legacy": 30,
        "cached": 40,
        "render": 80,
    }


def test_shares_are_a_switch_and_the_page_says_which_is_shown(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    expect(page.locator(".norm")).to_contain_text("in milliseconds per second a pod was watched")
    page.get_by_role("button", name="Share of side").click()
    expect(page.locator(".norm")).to_contain_text("shares")
    assert "A total\n54.55 % · 3.60 s" in hover(page, "query")
    page.go_back()
    expect(page.locator(".norm")).to_contain_text("in milliseconds per second a pod was watched")


def test_side_by_side_links_zoom_and_search(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    page.get_by_role("button", name="Side by side").click()
    assert "3 legacy (shop/old.py)" in outline(page, 0)
    assert "3 legacy (shop/old.py)" not in outline(page, 1)
    assert "3 cached (shop/cache.py)" in outline(page, 1)
    page.locator("#search").fill("query")
    eventually("both sides mark the hit", lambda: all(box(page, "query", side)["hit"] for side in (0, 1)))
    click(page, "render", 1)
    expect(page.get_by_role("button", name="Whole graph")).to_be_enabled()
    for side in (0, 1):
        eventually(
            "both sides zoom", lambda side=side: not any("query" in line for line in outline(page, side))
        )


def test_the_table_lists_the_largest_changes(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}&view=table")
    assert cells(page, "legacy")[:3] == ["30.0 ms/s", "0 ms/s", "▼ \N{MINUS SIGN}30.0 ms/s"]
    assert cells(page, "cached")[-3:] == ["new in B", "2 of 2", ".001"]
    assert cells(page, "legacy")[-3:] == ["gone in B", "2 of 2", ".001"]
    assert cells(page, "query")[-3:] == ["within noise", "0 of 2", "1.000"]


def test_differences_of_shares_are_in_points(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}&view=table&norm=share")
    assert cells(page, "legacy")[2] == "▼ \N{MINUS SIGN}27.27 pp"
    expect(page.locator(".norm")).to_contain_text("percentage points")


def test_side_by_side_scrolls_together(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/deep/compare?a=match:&b=match:&view=sides")
    boxes(page)
    tops = "[...document.querySelectorAll('.flame-scroll')].map(each => Math.round(each.scrollTop))"

    def scrolled() -> bool:
        page.locator(".flame-scroll").first.hover()
        page.mouse.wheel(0, 700)
        one, other = page.evaluate(tops)
        return bool(one == other > 0)

    eventually("both are scrolled", scrolled)


def test_the_sides_can_be_swapped_and_chosen_by_any_label(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    boxes(page)
    page.keyboard.press("x")
    expect(page.locator(".verdict")).to_contain_text("B takes 31.3 % less CPU time than A")
    page.get_by_label("Version of side A").select_option("match:")
    page.get_by_label("Matchers of side A").fill('node="n1"')
    page.get_by_role("region", name="Side A").get_by_role("button", name="Set", exact=True).click()
    expect(page.locator(".verdict")).to_contain_text("Not enough data to tell whether CPU time changed")


def test_new_sides_never_stand_over_the_numbers_of_the_old(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    side, verdict = page.get_by_role("region", name="Side A").locator(".basis"), page.locator(".verdict")
    expect(side).to_contain_text("660 samples")
    held: list[Route] = []
    page.route("**/api/v1/compare?**", lambda route: held.append(route))
    page.keyboard.press("x")
    expect(page.get_by_label("Version of side A")).to_have_value("version:v2")
    expect(verdict).to_have_text("Loading the comparison…")
    expect(side).not_to_contain_text("samples")
    # Routes are told of while the page is spoken to.
    eventually("the question is asked", lambda: page.evaluate("1") and held)
    held[0].continue_()
    expect(side).to_contain_text("960 samples")
    expect(verdict).to_contain_text("B takes 31.3 % less CPU time than A")


def test_one_version_alone_offers_other_things_to_compare(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/lone/compare")
    expect(page.get_by_role("heading", name="Nothing to compare yet")).to_be_visible()
    page.get_by_role("link", name="Compare with the same time yesterday").click()
    expect(page.locator(".verdict")).to_contain_text("A has no windows here, so there is nothing to compare.")
    assert {each["hatch"] for each in boxes(page)} == {""}
    page.go_back()
    expect(page.get_by_role("heading", name="Nothing to compare yet")).to_be_visible()


def test_a_service_without_versions_is_told_how_to_get_them(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/unversioned")
    expect(page.locator(".notices").first).to_contain_text("--version")


def test_depth_puts_two_distributions_side_by_side(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?{SIDES}")
    page.get_by_role("link", name="Stack depth of A and B").click()
    expect(page.get_by_role("img", name=re.compile("Histogram of stack depth"))).to_be_visible()
    expect(page.get_by_role("img", name=re.compile("Cumulative distribution"))).to_be_visible()
    rows = page.locator(".depths tbody tr").filter(has_not_text="interval")
    expect(rows).to_have_count(2)
    assert re.split(r"\s+", rows.nth(0).inner_text()) == [
        "A",
        "v1",
        "3.00",
        "3",
        "3",
        "3",
        "3",
        "0.0",
        "%",
        "660",
    ]
    assert re.split(r"\s+", rows.nth(1).inner_text()) == [
        "B",
        "v2",
        "3.38",
        "3",
        "4",
        "4",
        "4",
        "0.0",
        "%",
        "960",
    ]
    expect(page.locator(".verdict")).to_have_text(
        "Largest gap: 100.0 % of A's samples and 62.5 % of B's are at most 3 frames deep (37.5 points apart)."
    )


def test_depth_of_one_profile_has_its_numbers_as_text(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/depth?query=version%3D%22v2%22")
    expect(page.locator(".depths tbody tr")).to_have_count(1)
    page.get_by_text("All depths as a table").click()
    expect(page.get_by_role("region", name="Samples by depth")).to_contain_text("360")
    page.get_by_role("link", name="Compare with previous version").click()
    expect(page.locator(".depths tbody tr").filter(has_not_text="interval")).to_have_count(2)
    # The intervals come when they are worked out.
    shifts = page.locator(".depths tbody tr").filter(has_text="95 % interval")
    expect(shifts.get_by_role("cell").first).to_contain_text("▲ +0.4")
