"""Looking at a tree in other ways: transforms, merging, both ends of a function, its lines, its table."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import Locator, Page, expect

from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import box, boxes, click, graph, hover, outline, turn
from tests.web.profiles import HOSTILE, send, windows

V2 = "?query=version%3D%22v2%22"
SIDES = "?baseline=version%3Av1&comparison=version%3Av2&basis=equal_load"
LOOP = "loop (jinja2/runtime.py)"
NONE = "\N{EN DASH}"
HANDLE = "handle (shop/views.py)"


def given(page: Page, name: str) -> str:
    return parse_qs(urlsplit(page.evaluate("location.href")).query).get(name, [""])[0]


def crumbs(page: Page) -> Locator:
    return page.get_by_role("navigation", name="Transforms").locator("li button")


def shown(page: Page, expected: list[str], which: int = 0) -> None:
    eventually(f"{expected} is drawn", lambda: outline(page, which) == expected)


def row(page: Page, name: str) -> Locator:
    found = page.locator(".panel tbody tr").filter(has_text=name)
    expect(found).to_have_count(1)
    return found


def transformed(url: str, *transforms: str) -> str:
    return f"{url}{'&' if '?' in url else '?'}t={quote('*'.join(transforms))}"


def test_transforms_say_what_they_leave_out_and_are_made_and_removed_in_order(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/shop{V2}&view=table")
    row(page, "loop").get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Hide stacks containing it").click()
    left = page.locator(".lensbar .left")
    expect(left).to_have_text(
        "Hidden: 37.5 % of the samples (360 of 960). Shares are of the rest.", use_inner_text=True
    )
    expect(crumbs(page)).to_have_text(re.compile(f"without {re.escape(LOOP)}"))
    assert given(page, "t") == f"drop:{LOOP}"
    page.get_by_role("radio", name="Graph").click()
    whole = ["0 total", "1 main (app.py)", f"2 {HANDLE}", "3 cached (shop/cache.py)", "3 query (shop/db.py)"]
    shown(page, whole)
    assert "60.00 % · 3.60 s · 360 samples" in hover(page, "query")
    page.reload()
    shown(page, whole)
    expect(left).to_contain_text("37.5 %")
    page.go_back()
    page.go_back()
    expect(crumbs(page)).to_have_count(0)
    expect(row(page, "loop")).to_be_visible()
    # They are made in order, and a click removes one.
    url = transformed(f"{shop}/s/shop{V2}", f"fold:{HANDLE}", "fold-package:jinja2", "focus:main (app.py)")
    page.goto(url)
    shown(page, ["0 total", "1 main (app.py)", "2 cached (shop/cache.py)", "2 query (shop/db.py)"])
    expect(page.locator(".lensbar .left")).to_have_text("")
    crumbs(page).nth(0).click()
    shown(
        page,
        ["0 total", "1 main (app.py)", f"2 {HANDLE}", "3 cached (shop/cache.py)", "3 query (shop/db.py)"],
    )
    assert given(page, "t") == "fold-package:jinja2*focus:main (app.py)"
    page.go_back()
    expect(crumbs(page)).to_have_count(3)
    # The keyboard removes them as well, and stays in their row.
    crumbs(page).nth(2).focus()
    page.keyboard.press("Enter")
    expect(crumbs(page)).to_have_count(2)
    every = page.get_by_role("button", name="all", exact=True)
    expect(every).to_be_focused()
    page.keyboard.press("Tab")
    expect(crumbs(page).first).to_be_focused()
    every.press("Enter")
    expect(crumbs(page)).to_have_count(0)
    assert given(page, "t") == ""


def test_transforms_that_do_nothing_or_leave_nothing_and_those_of_two_sides_say_so(
    shop: str, open_page: Open
) -> None:
    page = open_page(transformed(f"{shop}/s/shop{V2}", "drop:gone (old.py)", "explode:main", "path:00.x"))
    assert len(outline(page)) == 7
    expect(crumbs(page)).to_have_count(3)
    expect(crumbs(page).first).to_contain_text("no effect")
    notices = page.locator(".lensbar .notices li")
    expect(notices.nth(0)).to_have_text(
        "without gone (old.py) matches nothing in this profile, so it has no effect."
    )
    expect(notices.nth(1)).to_have_text("explode:main is an unknown transform, so it has no effect.")
    crumbs(page).nth(1).click()
    expect(notices).to_have_count(2)
    page.goto(transformed(f"{shop}/s/shop{V2}", "drop:main (app.py)"))
    expect(page.get_by_role("heading", name="These transforms hide every sample")).to_be_visible()
    page.get_by_role("button", name="Remove all transforms").last.click()
    assert len(outline(page)) == 7
    # A comparison says it of each side.
    page.goto(transformed(f"{shop}/s/shop/compare{SIDES}", "drop:query (shop/db.py)"))
    expect(page.locator(".lensbar .left")).to_contain_text(
        "A 54.5 % of the samples (360 of 660), B 37.5 % of the samples (360 of 960)"
    )
    assert not any("query" in line for line in outline(page))
    page.get_by_role("radio", name="Side by side").click()
    eventually("both sides are drawn", lambda: page.locator(".flame canvas[data-drawn]").count() == 2)
    assert "0 legacy (shop/old.py)" in outline(page, 0)


def test_frames_are_merged_by_what_is_chosen(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}")
    boxes(page)
    page.get_by_label("More options").click()
    by = page.get_by_role("radiogroup", name="Frames by")
    by.get_by_role("radio", name="Package").click()
    shown(page, ["0 total", "1 app", "2 shop", "3 jinja2"])
    colours = {each["name"]: each["fill"] for each in boxes(page)}
    assert len(set(colours.values())) == 4
    by.get_by_role("radio", name="File").click()
    shown(
        page,
        ["0 total", "1 app.py", "2 shop/views.py", "3 jinja2/runtime.py", "3 shop/cache.py", "3 shop/db.py"],
    )
    by.get_by_role("radio", name="Line").click()
    eventually("lines are told apart", lambda: "2 handle (shop/views.py:41)" in outline(page))
    assert [line for line in outline(page) if line.startswith("2 handle")] == ["2 handle (shop/views.py:41)"]
    page.go_back()
    eventually("files are back", lambda: "2 shop/views.py" in outline(page))
    # Transforms stay in force when frames are merged.
    page.goto(transformed(f"{shop}/s/shop{V2}&by=package&view=table", f"drop:{LOOP}"))
    rows = page.locator(".panel tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("shop")
    expect(page.locator(".lensbar .left")).to_contain_text("37.5 %")
    row(page, "app").get_by_role("button", name="More").click()
    page.get_by_role("menuitem", name="Merge into callers").click()
    expect(rows).to_have_count(1)
    assert given(page, "t") == f"drop:{LOOP}*fold-package:app"


def test_a_sandwich_shows_callers_and_callees_and_leads_to_another_function(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/shop{V2}")
    click(page, "render")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name="render (jinja2/runtime.py)")).to_be_visible()
    callers = ["0 render (jinja2/runtime.py)", f"1 {HANDLE}", "2 main (app.py)"]
    callees = ["0 render (jinja2/runtime.py)", f"1 {LOOP}"]
    shown(page, callers, 0)
    shown(page, callees, 1)
    expect(page.locator(".sandwich .basis")).to_contain_text(
        "total 37.50 % of all (3.60 s, 360 samples), self 0 s"
    )
    click(page, "handle", 0)
    eventually("the zoom is in the address", lambda: given(page, "focus").startswith("^"))
    expect(page.locator(".chosen strong")).to_have_text(HANDLE)
    page.reload()
    expect(page.locator(".chosen strong")).to_have_text(HANDLE)
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_disabled()
    page.locator("#search").fill("main")
    expect(page.locator(".sandwich .matched")).to_have_text("1 frame")
    page.locator("#search").press("Escape")
    graph(page, 0).locator("canvas").focus()
    # Callers are above.
    page.keyboard.press("ArrowUp")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name=HANDLE)).to_be_visible()
    page.go_back()
    expect(page.get_by_role("heading", name="render (jinja2/runtime.py)")).to_be_visible()
    # A recursive function counts its stacks once.
    page.goto(f"{shop}/s/deep?view=sandwich&fn={quote('odd (rec.py)')}")
    expect(page.locator(".sandwich .basis")).to_contain_text("total 100.00 % of all (3.00 s, 300 samples)")
    assert outline(page, 0) == ["0 odd (rec.py)", "1 even (rec.py)"]
    expect(page.locator(".half.callees canvas[role=application]")).to_have_attribute(
        "aria-label", re.compile("3498 call paths")
    )
    page.goto(f"{shop}/s/shop/compare{SIDES}&view=sandwich&fn={quote(HANDLE)}")
    assert box(page, "render", 1)["name"] == "render (jinja2/runtime.py)"
    hatched = {each["name"].split(" ")[0]: each["hatch"] for each in boxes(page, 1) if each["hatch"]}
    assert hatched == {"cached": "new", "legacy": "removed", "loop": "new"}
    expect(page.locator(".sandwich .basis")).to_contain_text("A: total 100.00 % of all (6.60 s, 660 samples)")
    # A function that is not there leads to one that is.
    page.goto(f"{shop}/s/shop{V2}&view=sandwich&fn={quote('legacy (shop/old.py)')}")
    expect(page.locator(".missing")).to_have_text("legacy (shop/old.py) is not in this profile.")
    boxes_gone = page.locator(".flame canvas")
    expect(boxes_gone).to_have_count(0)
    page.keyboard.press("/")
    page.keyboard.type("que")
    page.keyboard.press("ArrowDown")
    expect(row(page, "query").get_by_role("button", name="query")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="query (shop/db.py)")).to_be_visible()
    expect(page.locator(".half.callees")).to_contain_text("no callees: all time is self time")
    page.get_by_role("button", name="Other function").click()
    expect(page.locator(".panel tbody tr")).to_have_count(6)


def test_lines_of_a_function_are_those_of_the_samples_of_each_side(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop")
    click(page, "handle")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    page.keyboard.press("l")
    rows = page.locator(".lines tbody tr")
    expect(rows).to_have_count(3)
    assert [re.sub(r"\s+", " ", text) for text in rows.all_inner_texts()] == [
        f"shop/views.py:40 {NONE} {NONE} 29.63 % 4.80 s Copy",
        f"shop/views.py:41 {NONE} {NONE} 59.26 % 9.60 s Copy",
        f"shop/views.py:44 {NONE} {NONE} 11.11 % 1.80 s Copy",
    ]
    expect(page.locator(".lines .basis")).to_contain_text("No source code is stored")
    page.keyboard.press("s")
    expect(page.locator(".half")).to_have_count(2)
    page.go_back()
    expect(rows).to_have_count(3)
    page.goto(f"{shop}/s/shop/compare{SIDES}&view=lines&fn={quote(HANDLE)}")
    expect(page.locator(".lines tbody tr")).to_have_count(3)
    expect(row(page, "views.py:41")).to_contain_text("new in B")
    expect(row(page, "views.py:44")).to_contain_text("removed in B")
    # On a phone a line is a card that says all of it.
    page.set_viewport_size({"width": 390, "height": 844})
    table = page.get_by_role("region", name="Table of lines")
    expect(table.get_by_role("rowheader")).to_have_count(3)
    assert table.evaluate("at => at.scrollWidth <= at.clientWidth")
    page.goto(f"{shop}/s/shop?view=lines&fn=nobody")
    expect(page.locator(".missing")).to_contain_text("nobody has no samples here")
    page.goto(f"{shop}/s/shop?view=lines&by=package&fn=shop")
    expect(page.get_by_role("heading", name="Lines are of one function")).to_be_visible()
    page.get_by_role("button", name="Open the table").click()
    row(page, "handle").get_by_role("button", name="handle").focus()
    page.keyboard.press("l")
    expect(page.locator(".lines tbody tr")).to_have_count(3)


def test_rows_act_by_keyboard_and_sort_by_any_column(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}&view=table")
    rows = page.locator(".panel tbody tr")
    expect(rows).to_have_count(6)
    columns = (("Function", "cached shop/cache.py"), ("Function", "render jinja2/runtime.py"))
    for column, first in (*columns, ("Package", "main app.py"), ("% total", HANDLE), ("% self", "loop")):
        page.get_by_role("columnheader", name=column).get_by_role("button").click()
        expect(rows.first).to_contain_text(first.replace(" (", " ").replace(")", ""))
    rows.first.locator("button.name").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(rows.nth(2).locator("button.name")).to_be_focused()
    page.keyboard.press("End")
    expect(rows.last.locator("button.name")).to_be_focused()
    page.keyboard.press("Home")
    page.keyboard.press("s")
    expect(page.get_by_role("heading", name=LOOP)).to_be_visible()
    page.go_back()
    more = row(page, "query").get_by_role("button", name="More")
    more.click()
    expect(page.get_by_role("menuitem").first).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_role("menuitem").last).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("menu")).to_have_count(0)
    expect(more).to_be_focused()
    link = row(page, "query").get_by_role("link", name="sandwich")
    assert "view=sandwich" in (link.get_attribute("href") or "")


def test_a_long_table_has_only_the_rows_in_view_and_every_row_can_be_reached(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/crowd?view=table")
    table = page.locator(".functions table")
    expect(table).to_have_attribute("aria-rowcount", "5002")
    rows = page.locator(".functions tr[data-row]")
    expect(rows.first).to_contain_text("f5000")
    assert rows.count() < 80
    rows.first.locator("button.name").focus()
    page.keyboard.press("End")
    last = page.locator('tr[data-row="5000"] button.name')
    expect(last).to_be_focused()
    expect(last).to_contain_text("main")
    assert rows.count() < 80
    page.keyboard.press("Home")
    expect(page.locator('tr[data-row="0"] button.name')).to_be_focused()
    page.set_viewport_size({"width": 390, "height": 700})
    heights = "rows => [...new Set(rows.map((row) => row.offsetHeight))]"
    assert rows.evaluate_all(heights) == [37], "rows in view are found by their height"
    page.locator("#search").fill("f0007")
    expect(rows).to_have_count(1)
    page.locator("#search").fill("nothing has this name")
    expect(page.locator(".functions")).to_contain_text("No functions match the search.")


def test_directions_orders_and_my_code_only_are_in_the_address(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}&order=weight")
    loop, render, query, cached = (
        LOOP,
        "render (jinja2/runtime.py)",
        "query (shop/db.py)",
        "cached (shop/cache.py)",
    )
    first = [f"1 {each}" for each in ("main (app.py)",)] + [f"2 {HANDLE}"]
    shown(page, ["0 total", *first, f"3 {query}", f"3 {render}", f"4 {loop}", f"3 {cached}"])
    turn(page, "Flame")
    assert given(page, "roots") == "bottom"
    rows = {each["name"]: each["row"] for each in boxes(page)}
    assert rows[loop] < rows[render] < rows[HANDLE] < rows["total"], "callers are below"
    assert "of caller 37.50 %" in hover(page, "render").replace("\n", " ")
    graph(page).locator("canvas").focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".chosen strong")).to_have_text("main (app.py)")
    page.get_by_role("button", name="My code only").click()
    eventually("the library is one frame", lambda: "3 jinja2 (jinja2)" in outline(page))
    assert not any("loop" in line for line in outline(page))
    page.reload()
    eventually("it stays so", lambda: "3 jinja2 (jinja2)" in outline(page))
    turn(page, "Top-down")
    assert given(page, "roots") == ""
    # A search says what is wrong with it.
    page.locator("#search").fill("/[a/")
    expect(page.get_by_role("alert")).to_have_text("invalid regular expression: missing ]")


def test_table_and_graph_point_at_the_same_function(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}&view=both", viewport={"width": 1440, "height": 900})
    rows = page.locator(".functions tbody tr")
    expect(rows).to_have_count(6)

    def frames() -> list[str]:
        return [each.split(" ")[1] for each in outline(page) if each.startswith("3")]

    assert frames() == ["query", "render", "cached"], "the table's order, the largest first"
    hover(page, "query")
    expect(rows.filter(has_text="query")).to_have_class("pointed")
    click(page, "render")
    expect(rows).to_have_count(2)
    page.keyboard.press("Escape")
    expect(rows).to_have_count(6)
    rows.filter(has_text="loop").get_by_role("button", name="loop").click()
    expect(page.locator(".chosen strong")).to_have_text(LOOP)
    assert given(page, "fn") == LOOP
    expect(rows.filter(has_text="loop")).to_have_attribute("aria-current", "true")
    page.locator("#search").fill("query")
    expect(rows).to_have_count(1)
    assert box(page, "query")["hit"]
    page.locator("#search").press("Escape")
    page.get_by_role("columnheader", name="Function").get_by_role("button").click()
    assert given(page, "sort") == "+name"
    # Both have one order, whichever of them it is chosen in: names have no other direction here.
    assert frames() == ["cached", "query", "render"]
    page.get_by_role("columnheader", name="Function").get_by_role("button").click()
    expect(page.get_by_role("columnheader", name="Function")).to_have_attribute("aria-sort", "ascending")
    assert given(page, "sort") == "+name"
    page.locator("details.direction summary").click()
    page.get_by_role("radio", name="Heaviest first").click()
    expect(page.get_by_role("columnheader", name="% total")).to_have_attribute("aria-sort", "descending")


def test_call_tree_is_read_and_walked_by_keyboard(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}&view=tree")
    tree = page.get_by_role("treegrid", name="Call tree")
    rows = tree.locator("tbody tr")
    handle = rows.filter(has_text="handle")
    expect(handle).to_have_attribute("aria-level", "2")
    expect(handle).to_have_attribute("aria-expanded", "true")
    expect(rows).to_have_count(5)
    page.keyboard.press("Tab")
    while not tree.evaluate("tree => tree.contains(document.activeElement?.closest('tbody tr'))"):
        page.keyboard.press("Tab")
    page.keyboard.press("End")
    page.keyboard.press("Home")
    expect(rows.first).to_be_focused()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    render = rows.filter(has_text="render")
    expect(render).to_be_focused()
    assert (
        re.sub(r"\s+", " ", render.inner_text()).strip()
        == f"▸render jinja2/runtime.py 37.50 % 3.60 s {NONE} {NONE}"
    )
    page.keyboard.press("ArrowRight")
    expect(rows).to_have_count(6)
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(handle).to_be_focused()
    page.keyboard.press("Space")
    expect(rows).to_have_count(2)
    page.locator("#search").fill("loop")
    page.get_by_role("button", name="Next match").click()
    expect(rows.filter(has_text="loop")).to_have_class("hit")
    rows.filter(has_text="loop").press("Enter")
    assert given(page, "focus").endswith(LOOP)
    page.reload()
    expect(rows.filter(has_text="loop")).to_have_attribute("aria-selected", "true")
    rows.filter(has_text="loop").press("Shift+F10")
    page.get_by_role("menuitem", name="Show in the graph").click()
    expect(page.locator(".chosen strong")).to_have_text(LOOP)


def test_groups_are_compared_with_the_mean_filtered_and_made_sides(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop?view=breakdown")
    cards = page.locator(".group-card")
    expect(cards).to_have_count(2)
    v2 = page.get_by_role("listitem", name="v2")
    expect(v2).to_contain_text("59.3 % of all · 160 m/pod (+18.5 % vs the mean)")
    expect(v2).to_contain_text(re.compile(r"cached.* points"))
    expect(v2.get_by_role("img")).to_be_visible()
    expect(page.locator(".stacked path")).to_have_count(2)
    for by, names in (
        ("node", ["n1", "n2"]),
        ("endpoint", ["(no endpoint)"]),
        ("package", ["shop", "jinja2"]),
        ("state", 5),
    ):
        page.get_by_label("Break down by").select_option(by)
        expect(cards).to_have_count(names if isinstance(names, int) else len(names))
        assert given(page, "group") == by
    for service, by, some in (
        ("zones", "zone", len(HOSTILE)),
        ("cart", "namespace", 1),
        ("pool", "thread", 2),
        ("shop", "pod", 4),
    ):
        page.goto(f"{shop}/s/{service}?view=breakdown&group={by}")
        expect(cards).to_have_count(some)
        expect(cards.first.get_by_role("button", name="Filter")).to_be_visible()
        expect(cards.first.get_by_title("Make this side A of a comparison")).to_be_visible()
    page.goto(f"{shop}/s/shop?view=breakdown")
    page.get_by_role("listitem", name="v1").get_by_title("Make this side A of a comparison").click()
    v2.get_by_title("Make this side B of a comparison").click()
    expect(page.get_by_label("Version of side B")).to_have_value("version:v2")
    page.go_back()
    v2.get_by_role("button", name="Filter").click()
    assert given(page, "query") == 'version="v2"'
    expect(page.locator(".flame canvas")).to_be_visible()


def test_a_click_on_a_package_or_a_state_filters_the_page(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop?view=breakdown&group=package")
    timeline = page.locator(".stacked")
    expect(timeline).to_contain_text("Time by package, stacked")
    # The time of both packages, and of nothing else.
    expect(timeline.locator("path[d^=M]")).to_have_count(2)
    expect(timeline.locator("path")).to_have_count(2)
    page.get_by_role("listitem", name="jinja2").get_by_role("button", name="Keep stacks").click()
    assert given(page, "t") == "with-package:jinja2"
    tail = ["2 handle (shop/views.py)", "3 render (jinja2/runtime.py)", f"4 {LOOP}"]
    shown(page, ["0 total", "1 main (app.py)", *tail])
    page.go_back()
    page.goto(f"{page.url}&app=1")
    no_timeline = page.get_by_text("Filtered and transformed profiles have no timeline.")
    expect(no_timeline).to_be_visible()
    expect(timeline).to_have_count(0)
    page.goto(f"{shop}/s/shop?view=breakdown&group=package&min_depth=2&max_depth=3")
    expect(no_timeline).to_be_visible()
    expect(timeline).to_have_count(0)
    page.get_by_label("Break down by").select_option("version")
    expect(timeline).to_be_visible()
    expect(page.get_by_text("The timeline and the shares are of all stacks.")).to_be_visible()
    page.goto(f"{shop}/s/shop?view=breakdown")
    expect(timeline).to_be_visible()
    expect(page.get_by_text("The timeline and the shares are of all stacks.")).to_have_count(0)
    stacks = "".join(
        f"main (app.py:1);{state} (a.py:2){f';[{state}]' if state != 'running' else ''} {count}\n"
        for state, count in (("gil", 40), ("running", 30), ("cpu_wait", 20), ("gil_wait", 10), ("poll", 50))
    )
    send(shop, windows("by-state", "1", stacks))
    for name, type_, transform, function in (
        ("Holding the GIL", "gil", "", "gil"),
        ("Running without the GIL", "wall", "state:running", "running"),
        ("Waiting for a CPU", "wall", "state:cpu_wait", "cpu_wait"),
        ("Waiting for the GIL", "gil_wait", "", "gil_wait"),
        ("Waiting off-CPU", "off_cpu", "", "poll"),
    ):
        page.goto(f"{shop}/s/by-state?type=wall&view=breakdown&group=state")
        expect(timeline.locator("path[d^=M]")).to_have_count(5)
        page.get_by_role("listitem", name=name).get_by_role("button", name="Filter").click()
        shown(page, ["0 total", "1 main (app.py)", f"2 {function} (a.py)"])
        assert (given(page, "type"), given(page, "t")) == (type_, transform)
    page.goto(f"{shop}/s/by-state?t=state%3Acpu_wait&type=wall")
    expect(page.locator(".lensbar .left")).to_contain_text("Hidden: 86.7 %")
    crumbs(page).filter(has_text="only waiting for a CPU").click()
    shown(
        page,
        [
            "0 total",
            "1 main (app.py)",
            *(f"2 {state} (a.py)" for state in ("cpu_wait", "gil", "gil_wait", "poll", "running")),
        ],
    )
