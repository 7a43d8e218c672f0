"""Opening a service and reading where its time goes."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, expect

from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import boxes, click, graph, hover, outline, point
from tests.web.profiles import ENDPOINTS, send, windows

V2 = "?query=version%3D%22v2%22"
WHOLE = [
    "0 total",
    "1 main (app.py)",
    "2 handle (shop/views.py)",
    "3 cached (shop/cache.py)",
    "3 query (shop/db.py)",
    "3 render (jinja2/runtime.py)",
    "4 loop (jinja2/runtime.py)",
]


def given(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.evaluate("location.href")).query)


def test_services_lead_to_a_flame_graph_whose_sums_are_the_collectors(shop: str, open_page: Open) -> None:
    page = open_page(shop)
    expect(page.get_by_role("heading", name="Services")).to_be_visible()
    page.get_by_role("link", name="shop", exact=True).click()
    expect(page.get_by_role("heading", name="shop")).to_be_visible()
    page.get_by_role("button", name="+ filter").click()
    page.get_by_role("button", name="Edit as query").click()
    page.get_by_label("Filter by labels").fill('version="v2"')
    page.get_by_role("button", name="Apply").click()
    expect(page.locator(".quality .basis")).to_contain_text(
        "960 samples · 2 pods · 6 windows · sampled time 9.60 s"
    )
    assert outline(page) == WHOLE
    assert "37.50 % · 3.60 s · 360 samples" in hover(page, "query")
    page.get_by_label("Profile type").select_option("wall")
    expect(page.locator(".quality .basis")).to_contain_text("1,320 samples")
    assert "2 select (selectors.py)" in outline(page)
    page.get_by_role("link", name="Compare", exact=True).first.click()
    expect(page.locator(".verdict")).to_contain_text("0.21 → 0.22 threads/pod")


def test_zoom_is_in_the_address_and_one_whose_frame_is_gone_says_so(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}")
    click(page, "render")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    zoomed = outline(page)
    assert zoomed == [*WHOLE[:3], *WHOLE[5:]]
    page.reload()
    assert outline(page) == zoomed
    page.go_back()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_disabled()
    assert outline(page) == WHOLE
    page.go_forward()
    assert outline(page) == zoomed
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_disabled()
    page.goto(f"{shop}/s/shop?query=version%3D%22v1%22")
    click(page, "legacy")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    focus = given(page)["focus"][0]
    page.goto(f"{shop}/s/shop{V2}&focus={focus}")
    expect(page.locator(".missing")).to_contain_text("legacy (shop/old.py), is not in this profile")
    assert outline(page) == WHOLE
    page.get_by_role("button", name="Clear zoom").click()
    expect(page.locator(".missing")).to_have_count(0)


def test_search_walks_its_matches_and_the_keyboard_says_where_it_is(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}")
    boxes(page)
    page.keyboard.press("/")
    page.keyboard.type("jinja2")
    expect(page.locator(".matched")).to_contain_text("2 frames · 37.5 %")
    page.keyboard.press("Enter")
    page.keyboard.press("n")
    expect(page.locator(".chosen strong")).to_have_text("render (jinja2/runtime.py)")
    page.keyboard.press("n")
    expect(page.locator(".chosen strong")).to_have_text("loop (jinja2/runtime.py)")
    page.keyboard.press("N")
    expect(page.locator(".chosen strong")).to_have_text("render (jinja2/runtime.py)")
    assert [each["name"] for each in boxes(page) if each["hit"]] == [
        "render (jinja2/runtime.py)",
        "loop (jinja2/runtime.py)",
    ]
    page.reload()
    expect(page.locator("#search")).to_have_value("jinja2")
    # The keyboard walks, zooms and inverts.
    page.goto(f"{shop}/s/shop{V2}")
    boxes(page)
    graph(page).locator("canvas").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator(".chosen strong")).to_have_text("query (shop/db.py)")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".panel .unseen[aria-live]")).to_contain_text(
        "cached (shop/cache.py): total 25.00 %, 2.40 s, 240 samples"
    )
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    page.keyboard.press("0")
    page.keyboard.press("i")
    expect(page.locator("details.direction summary")).to_have_text("Bottom-up ▾")
    eventually("the graph is inverted", lambda: outline(page)[1].startswith("1 loop"))
    assert [line for line in outline(page) if line.startswith("1 ")] == [
        "1 loop (jinja2/runtime.py)", "1 query (shop/db.py)", "1 cached (shop/cache.py)",
    ], "the heaviest first"  # fmt: skip
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.get_by_label("Single-key shortcuts on").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("i")
    expect(page.locator("details.direction summary")).to_have_text("Bottom-up ▾")


def test_the_table_has_the_graphs_numbers_and_leads_back_to_it(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}&view=table")
    rows = page.locator(".panel tbody tr")
    expect(rows.first).to_contain_text("loop jinja2/runtime.py")
    assert [re.sub(r"\s+", " ", text).strip() for text in rows.all_inner_texts()][
        1
    ] == "query shop/db.py sandwich ⋯ shop 37.50 % 3.60 s 37.50 % 3.60 s"
    page.get_by_role("button", name="% total").click()
    expect(rows.first).to_contain_text("handle shop/views.py")
    page.get_by_role("button", name="query shop/db.py").click()
    expect(page.locator(".matched")).to_contain_text("1 frame · 37.5 %")


def test_frames_of_the_application_lead_to_their_source_code(limited: str, open_page: Open) -> None:
    file = "https://git.example/acme/shop/blob/v2/src/shop/views.py"
    page = open_page(f"{limited}/s/shop{V2}&view=table")
    rows = page.locator(".panel tbody tr")
    expect(rows.filter(has_text="handle").get_by_role("link", name="Source")).to_have_attribute("href", file)
    # No repository of the service has its libraries.
    expect(rows.filter(has_text="render").get_by_role("link", name="Source")).to_have_count(0)
    page.goto(f"{limited}/s/shop{V2}&view=lines&fn=handle%20(shop%2Fviews.py)")
    lines = page.locator(".lines tbody tr").get_by_role("link", name="Source")
    expect(lines.first).to_have_attribute("href", f"{file}#L41")
    page.goto(f"{limited}/s/shop{V2}")
    page.mouse.click(*point(page, "handle"))
    expect(page.locator(".chosen").get_by_role("link", name="Source")).to_have_attribute("href", file)
    send(limited, windows("till", "v1", ENDPOINTS))
    page.goto(f"{limited}/s/till")
    page.get_by_text("Endpoints ▾", exact=True).click()
    endpoints = page.get_by_role("region", name="Table of endpoints").get_by_role("row")
    source = endpoints.filter(has_text="cart").get_by_role("link", name="Source")
    expect(source).to_have_attribute("href", re.compile("/till/.*/shop.py"))
    page.goto(f"{limited}/s/shop/compare?baseline=version:v1&comparison=version:v2&view=tree")
    page.get_by_role("treegrid").get_by_role("row", name="handle").first.click(button="right")
    with page.context.expect_page() as opened:
        page.get_by_role("menuitem", name="Open source code").click()
    assert opened.value.url in (file, "about:blank", "chrome-error://chromewebdata/")
    opened.value.close()
