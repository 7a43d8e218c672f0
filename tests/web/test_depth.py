"""How deep stacks are: a band of depths is a flame graph, and what made stacks deeper has a name."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Locator, Page, Route, expect

from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import click, outline

SIDES = "baseline=version%3A1&comparison=version%3A2&basis=equal_load"

INDENT = """summary => {
    const start = at => {
        const { borderLeftWidth, paddingLeft } = getComputedStyle(at);
        return at.getBoundingClientRect().left + parseFloat(borderLeftWidth) + parseFloat(paddingLeft);
    };
    return start(summary) - start(summary.parentElement);
}"""


def charts(page: Page) -> tuple[Locator, Locator]:
    both = (
        page.get_by_role("group", name=re.compile("^Histogram")),
        page.get_by_role("group", name=re.compile("^Cumulative")),
    )
    for chart in both:
        expect(chart).to_be_visible()
    if "comparison=" in page.url:
        # they come later, and move the charts down
        expect(page.locator(".checks")).to_be_visible()
    return both


def band(page: Page) -> list[str | None]:
    given = parse_qs(urlsplit(page.evaluate("location.href")).query)
    return [given.get(name, [None])[0] for name in ("min_depth", "max_depth")]


def drag(page: Page, chart: Locator, from_part: float, to_part: float) -> None:
    """Drag across a chart, from one part of its axis to another."""
    chart.scroll_into_view_if_needed()
    place = chart.bounding_box()
    assert place is not None
    left, width = place["x"] + place["width"] * 56 / 640, place["width"] * (640 - 66) / 640
    y = place["y"] + place["height"] / 2
    page.mouse.move(left + width * from_part, y)
    page.mouse.down()
    page.mouse.move(left + width * (from_part + to_part) / 2, y)
    page.mouse.move(left + width * to_part, y)
    page.mouse.up()


def chosen(page: Page) -> Locator:
    return page.get_by_role("region", name="Selected depths")


def test_dragging_across_the_histogram_shows_the_flame_graph_of_only_those_samples(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/api/depth?{SIDES}")
    histogram, _ = charts(page)
    expect(chosen(page)).to_contain_text("Drag across a chart")
    drag(page, histogram, 0.61, 0.99)
    eventually("the band is in the address", lambda: band(page) == ["6", "9"])
    expect(chosen(page)).to_contain_text("A 1: 0 samples, 0.0 %")
    expect(chosen(page)).to_contain_text(re.compile("B 2: 300 samples, 33.3 % 6.9 frames deep"))
    assert [line.split(" ")[1] for line in outline(page)] == [
        *("total", "main", "get", "to", "rep", "to", "rep", "to", "rep", "dump"),
    ]
    page.get_by_role("button", name="All depths").click()
    expect(page.locator(".flame")).to_have_count(0)
    page.go_back()
    assert "3 to (rest/serializers.py)" in outline(page)
    page.reload()
    assert "3 to (rest/serializers.py)" in outline(page)
    page.get_by_role("link", name="Compare these samples").click()
    expect(page.locator(".verdict")).to_contain_text("CPU")
    expect(page.get_by_text(re.compile("Only samples whose stacks are 6.9 frames deep"))).to_be_visible()
    assert not any("query" in row for row in outline(page))
    page.get_by_role("button", name="All depths").click()
    eventually("all samples are back", lambda: any("query (db/sql.py)" in row for row in outline(page)))


def test_a_finger_brushes_and_the_keyboard_moves_the_band_and_types_it(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/one/depth", has_touch=True)
    histogram, _ = charts(page)
    histogram.scroll_into_view_if_needed()
    place = histogram.bounding_box()
    assert place is not None
    touch = page.context.new_cdp_session(page)
    y = place["y"] + place["height"] / 2
    start, end = (place["x"] + place["width"] * (56 + 574 * part) / 640 for part in (0.35, 0.65))

    def point(x: float) -> list[dict[str, float]]:
        return [{"x": x, "y": y}]

    touch.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": point(start)})
    for step in range(1, 6):
        x = start + (end - start) * step / 5
        touch.send("Input.dispatchTouchEvent", {"type": "touchMove", "touchPoints": point(x)})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    eventually("the band is in the address", lambda: band(page) == ["3", "6"])
    page = open_page(f"{shop}/s/one/depth")
    histogram, _ = charts(page)
    histogram.focus()
    for key, expected in (
        ("ArrowRight", ["1", "1"]),
        ("ArrowRight", ["2", "2"]),
        ("Shift+ArrowRight", ["2", "3"]),
        ("ArrowRight", ["3", "4"]),
        ("Shift+ArrowLeft", ["3", "3"]),
    ):
        page.keyboard.press(key)
        eventually(f"{key} moves the band", lambda expected=expected: band(page) == expected)
    expect(histogram).to_have_attribute("aria-label", re.compile("Selected: 3 frames deep"))
    page.keyboard.press("Escape")
    eventually("Escape clears it", lambda: band(page) == [None, None])
    page.get_by_label("Depth from").fill("9")
    page.get_by_role("spinbutton", name="until").fill("4")
    page.get_by_role("button", name="Show these samples").click()
    eventually("either order is understood", lambda: band(page) == ["4", "9"])
    expect(chosen(page)).to_contain_text(re.compile("540 samples, 60.0 % 4.9 frames deep"))


def test_the_distribution_of_samples_with_a_function_and_under_a_focus(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/api/depth?{SIDES}")
    page.get_by_role("radio", name="With a function").click()
    field = page.get_by_role("combobox", name="Function")
    options = page.locator("#functions option")
    expect(options.first).to_be_attached()
    assert "dump (json/enc.py)" in [option.get_attribute("value") for option in options.all()]
    field.fill("dump (json/enc.py)")
    page.get_by_role("button", name="Show", exact=True).click()
    rows = page.locator(".depths tbody tr").filter(has_not_text="interval")
    expect(rows.nth(0)).to_contain_text("240")
    expect(rows.nth(1)).to_contain_text("540")
    charts(page)[0].focus()
    page.get_by_label("Depth from").fill("5")
    page.get_by_role("spinbutton", name="until").fill("5")
    page.get_by_role("button", name="Show these samples").click()
    eventually("the graph has these only", lambda: "3 query (db/sql.py)" not in outline(page))
    field.fill("nowhere")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("heading", name="No samples with nowhere on the stack")).to_be_visible()
    page.locator(".zero").get_by_role("button", name="All samples").click()
    expect(rows.nth(1)).to_contain_text("900")
    # A focus comes along from the profile.
    page.goto(f"{shop}/s/one")
    click(page, "query")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    page.get_by_role("link", name="Depth").click()
    expect(page.get_by_role("heading", name="Stack depth of one")).to_be_visible()
    assert "focus" in parse_qs(urlsplit(page.evaluate("location.href")).query)
    page.get_by_role("radio", name="Under focus").click()
    expect(page.locator(".depths tbody tr")).to_contain_text("360")
    expect(page.get_by_text("Below query (db/sql.py)")).to_be_visible()
    page.reload()
    expect(page.locator(".depths tbody tr")).to_contain_text("360")
    page.get_by_role("radiogroup", name="Samples").get_by_role("radio", name="All samples").click()
    expect(page.locator(".depths tbody tr")).to_contain_text("900")
    page.goto(f"{shop}/s/one/depth?scope=focus&focus=0123456789abcdef.gone%20(x.py)")
    expect(page.get_by_role("heading", name="No samples below gone (x.py)")).to_be_visible()
    page.goto(f"{shop}/s/one/depth?scope=focus")
    expect(page.get_by_text("No frame is focused")).to_be_visible()
    expect(page.locator(".depths tbody tr")).to_contain_text("900")


def cells(region: Locator, of: str) -> list[str]:
    row = region.locator("tbody tr").filter(has=region.page.get_by_role("rowheader", name=of))
    expect(row).to_have_count(1)
    return [re.sub(r"\s+", " ", text).strip() for text in row.locator("td").all_inner_texts()]


def path(stacks: Locator) -> str:
    """The only stack of a list, in plain letters."""
    text = stacks.locator(".path").inner_text()
    return text.replace("\N{SINGLE RIGHT-POINTING ANGLE QUOTATION MARK}", ">").replace(
        "\N{MULTIPLICATION SIGN}", "x"
    )


def test_packages_recursion_and_new_stacks_say_what_made_stacks_deeper(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/api/depth?{SIDES}")
    expect(page.get_by_text("Truncation differs (A 0.0 %, B 50.0 %)")).to_be_visible()
    expect(page.locator(".depths tbody tr").nth(1)).to_contain_text("9+")
    packages = page.get_by_role("region", name="Frames per package", exact=True)
    assert cells(packages, "rest") == ["0.80", "2.53", "▲ +1.73"]
    assert cells(packages, "json") == ["0.40", "0.60", "▲ +0.20"]
    assert cells(packages, "app") == ["1.00", "1.00", "≈ 0"]
    expect(packages).to_contain_text("json standard library")
    recursion = page.get_by_role("region", name="Recursion", exact=True)
    assert cells(recursion, "rep") == ["\N{EN DASH}", "\N{EN DASH}", "0", "33.33 %", "3.00", "3"]
    stacks = page.get_by_role("region", name="Deepest new stacks")
    expect(stacks.locator("li")).to_have_count(1)
    expect(stacks.locator("li")).to_contain_text("9 frames 300 samples")
    assert path(stacks) == "main > get > (to > rep) x3 > dump"
    stacks.get_by_role("link", name="open").click()
    assert outline(page) == ["0 dump (json/enc.py)"]
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    expect(page.locator(".chosen strong")).to_have_text("dump (json/enc.py)")
    # A stack of 3,500 frames is written in a line.
    page.goto(f"{shop}/s/deep/depth")
    stacks = page.get_by_role("region", name="Deepest stacks")
    expect(stacks.locator("li")).to_have_count(1)
    assert path(stacks) == "(even > odd) x1,750"
    stacks.get_by_role("link", name="open").click()
    expect(page.locator(".chosen strong")).to_have_text("odd (rec.py)")


def test_depth_of_one_profile_leads_to_two_distributions_and_lists_are_asked_again(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/shop/depth?query=version%3D%22v2%22")
    expect(page.locator(".depths tbody tr")).to_have_count(1)
    page.get_by_text("All depths as a table").click()
    expect(page.get_by_role("region", name="Samples by depth")).to_contain_text("360")
    page.get_by_role("link", name="Compare with previous version").click()
    charts(page)
    expect(page.get_by_text("Truncation differs")).to_have_count(0)
    rows = page.locator(".depths tbody tr").filter(has_not_text="interval")
    expect(rows).to_have_count(2)
    assert [re.split(r"\s+", row) for row in rows.all_inner_texts()] == [
        ["A", "v1", "3.00", "3", "3", "3", "3", "\N{EN DASH}", "660"],
        ["B", "v2", "3.38", "3", "4", "4", "4", "\N{EN DASH}", "960"],
    ]
    expect(page.locator(".verdict")).to_have_text(
        "Largest gap: 100.0 % of A's samples and 62.5 % of B's are at most 3 frames deep (37.5 points apart)."
    )
    # The intervals come when they are worked out.
    shifts = page.locator(".depths tbody tr").filter(has_text="95 % interval")
    expect(shifts.get_by_role("cell").first).to_contain_text("▲ +0.4")
    # The lists say when they cannot be had.
    page = open_page("about:blank", expected="500")
    refused: list[Route] = []

    def refuse(route: Route) -> None:
        refused.append(route)
        body = '{"error": "internal", "message": "it did not work", "hint": "Look at the log."}'
        route.fulfill(status=500, content_type="application/json", body=body)

    page.route("**/api/v1/stack-composition?**", refuse)
    page.goto(f"{shop}/s/one/depth")
    charts(page)
    expect(page.locator(".trouble")).to_contain_text("It did not work")
    page.unroute("**/api/v1/stack-composition?**")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("region", name="Recursion", exact=True)).to_be_visible()


def test_folded_parts_begin_where_the_text_beside_them_begins(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/depth?baseline=version%3Av1&comparison=version%3Av2")
    folded = page.locator("details.numbers > summary")
    expect(folded).to_have_count(2)
    assert [abs(each.evaluate(INDENT)) <= 1 for each in folded.all()] == [True, True]
