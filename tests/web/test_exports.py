"""Taking a view away: files of every format, a page that needs no collector, short links, and commands."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from playwright.sync_api import Download, Page, expect

from tests.web.conftest import Open
from tests.web.flame import box, boxes, click, outline
from tests.web.profiles import AFTER, BEFORE, HOSTILE, HOSTILE_SERVICE, send, windows
from tests.web.rules import assert_fits, clipboard_after, violations_in_both_themes

COMPARE = "/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2&basis=equal_load"
HOSTILE_LABEL = 'a\'b "c" $(touch MARKER) `id` \\ !! é\u202e;&|<>'


def saved(page: Page, name: str, tmp_path: Path) -> Path:
    """The file that a choice of the Export menu gives."""
    page.get_by_text("Export ▾", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("link", name=name).first.click()
    return kept(download.value, tmp_path)


def kept(download: Download, tmp_path: Path) -> Path:
    path = tmp_path / download.suggested_filename
    download.save_as(path)
    return path


def copied(page: Page, name: str) -> str:
    """What a choice of the menu beside Share puts into the clipboard."""
    page.get_by_label("More ways to share").click()
    return clipboard_after(page, page.get_by_role("button", name=name).click)


def ran(command: str) -> str:
    """What bash makes of a command that was copied."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=120, env={**os.environ, "PATH": path}
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


def test_files_of_a_profile_have_what_is_in_view_and_the_menu_leaves_the_zoom(
    shop: str, open_page: Open, tmp_path: Path
) -> None:
    page = open_page(f"{shop}/s/shop?query=version%3D%22v2%22")
    boxes(page)
    folded = saved(page, "Folded text", tmp_path)
    assert folded.name == "shop-cpu.folded"
    header, *lines = folded.read_text().splitlines()
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == 960
    told = json.loads(header.removeprefix("# "))["sides"][0]
    assert (told["samples"], told["pods"]) == (960, 2)
    assert told["query"] == '{service="shop", version="v2"}'
    speedscope = json.loads(saved(page, "Speedscope file", tmp_path).read_text())
    assert sum(speedscope["profiles"][0]["weights"]) == 9_600_000_000
    rows = list(csv.reader(io.StringIO(saved(page, "CSV table", tmp_path).read_text(), newline="")))
    assert ["loop", "jinja2/runtime.py", "360", "360", "3.6", "3.6"] in rows
    assert "loop (jinja2/runtime.py)" in saved(page, "SVG flame graph", tmp_path).read_text()
    pprof = saved(page, "pprof profile", tmp_path)
    assert b"jinja2/runtime.py" in gzip.decompress(pprof.read_bytes())
    # The menu closes with Escape.
    page.goto(f"{shop}/s/shop")
    click(page, "handle")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    summary = page.get_by_text("Export ▾", exact=True)
    summary.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="HTML page")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.get_by_role("link", name="HTML page")).to_be_hidden()
    expect(summary).to_be_focused()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()


def test_both_sides_of_a_comparison_are_files_and_its_menus_fit_a_phone(
    shop: str, open_page: Open, axe: str, tmp_path: Path
) -> None:
    page = open_page(shop + COMPARE)
    boxes(page)
    table = list(csv.reader(io.StringIO(saved(page, "CSV table", tmp_path).read_text(), newline="")))
    assert table[0] == [
        '{service="shop", version="v1"}'.join(["# ", ' against {service="shop", version="v2"} cpu'])
    ]
    assert any(row[0] == "cached" and row[2:4] == ["0", "0"] for row in table)
    page.get_by_text("Export ▾", exact=True).click()
    alone = page.get_by_role("group", name="B alone")
    with page.expect_download() as download:
        alone.get_by_role("link", name="Folded text").click()
    lines = kept(download.value, tmp_path).read_text().splitlines()[1:]
    assert sum(int(line.rsplit(" ", 1)[1]) for line in lines) == 960
    page.goto(f"{shop}{COMPARE}")
    boxes(page)
    page.set_viewport_size({"width": 360, "height": 640})
    for opened in (page.get_by_text("Export ▾", exact=True), page.get_by_label("More ways to share")):
        opened.click()
        choices = page.locator(".drop[open] .choices")
        area = choices.bounding_box()
        assert area
        assert area["x"] >= 0
        assert area["x"] + area["width"] <= 360
        assert violations_in_both_themes(page, axe) == {}
        assert all(
            each["height"] >= 24
            for each in choices.locator("a, button").evaluate_all(
                "all => all.map(e => e.getBoundingClientRect())"
            )
        )
        page.keyboard.press("Escape")
    text = copied(page, "Copy as Markdown")
    assert text.startswith("**`shop`: ")
    assert re.search(r"\[Comparison in Sidelight\]\(http://[^)]+/l/\w+\)", text)


def test_where_exports_are_limited_and_no_links_are_kept_it_is_said(limited: str, open_page: Open) -> None:
    page = open_page(f"{limited}/s/shop", expected="413")
    boxes(page)
    page.get_by_text("Export ▾", exact=True).click()
    page.get_by_role("link", name="Folded text").click()
    said = page.locator(".preparing")
    expect(said).to_contain_text("more than 3 frames together")
    expect(said).to_contain_text("--max-export-frames")
    # Where no links are kept the long address is shared.
    page = open_page(f"{limited}/s/shop?from=-30m", expected="403")
    boxes(page)
    shared = clipboard_after(page, page.get_by_role("button", name="Share", exact=True).click)
    assert shared.startswith(f"{limited}/s/shop?from=20")


def test_what_was_copied_is_said_for_two_and_a_half_seconds_each_time(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop", own_context=True)
    page.clock.install()
    page.reload()
    boxes(page)
    page.clock.pause_at(time.time() + 600)
    said = page.locator(".toast")
    for name, message in (
        ("Copy CLI command", "Command copied"),
        ("Copy as curl", "curl command copied"),
    ) * 2:
        copied(page, name)
        expect(said).to_have_text(message)
        page.clock.run_for(2400)
    expect(said).to_have_text(message)
    copied(page, name)
    page.clock.run_for(2400)
    expect(said).to_have_text(message)
    page.clock.run_for(200)
    expect(said).to_be_empty()


def offline(page: Page, open_page: Open, tmp_path: Path, **options: object) -> Page:
    """The HTML file of a page, opened from the disk in a browser that has no network."""
    file = saved(page, "HTML page", tmp_path)
    other = open_page("about:blank", **{"offline": True, **options})
    asked: list[str] = []
    other.on("request", lambda request: asked.append(request.url))
    other.goto(file.as_uri())
    other.locator(".flame canvas[data-drawn]").first.wait_for()
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    return other


def test_the_page_from_a_disk_is_the_same_flame_graph_and_reaches_nothing(
    shop: str, open_page: Open, tmp_path: Path
) -> None:
    online = open_page(f"{shop}/s/shop?query=version%3D%22v2%22")
    there = outline(online)
    page = offline(online, open_page, tmp_path)
    assert outline(page) == there
    expect(page.get_by_role("heading", level=1)).to_have_text('{service="shop", version="v2"} cpu')
    expect(page.locator(".basis")).to_contain_text("960 samples · 2 pods · 6 windows")
    click(page, "render")
    assert outline(page) == [
        "0 total",
        "1 main (app.py)",
        "2 handle (shop/views.py)",
        "3 render (jinja2/runtime.py)",
        "4 loop (jinja2/runtime.py)",
    ]
    page.reload()
    assert len(outline(page)) == 5
    page.go_back()
    expect(page.get_by_role("button", name="Reset zoom")).to_be_disabled()
    assert outline(page) == there
    page.keyboard.press("/")
    page.keyboard.type("jinja2")
    expect(page.locator(".matched")).to_contain_text("2 frames · 37.5 %")
    page.keyboard.press("Enter")
    page.keyboard.press("i")
    assert "1 loop (jinja2/runtime.py)" in outline(page)
    page.get_by_role("radio", name="Table").click()
    expect(page.get_by_role("row").filter(has_text="loop")).to_contain_text("3.60 s")
    expect(page.get_by_role("radio", name="Lines")).to_have_count(0)
    # By keyboard, from the start again.
    page.goto(page.url.split("#")[0].split("?")[0])
    boxes(page)
    page.locator(".flame canvas").focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator("p.unseen[role=status]")).to_contain_text("main (app.py)")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    page.keyboard.press("0")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_disabled()
    # Opened at the collector it reaches nothing of it.
    page = open_page(f"{shop}/api/v1/export?format=html&type=cpu&query=service%3D%22shop%22")
    boxes(page)
    click(page, "handle")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    assert page.evaluate("self.origin") == "null"


def test_a_comparison_from_a_disk_has_its_verdict_both_sides_and_is_accessible(
    shop: str, open_page: Open, axe: str, tmp_path: Path
) -> None:
    online = open_page(shop + COMPARE)
    boxes(online)
    verdict = online.locator(".verdict").inner_text()
    page = offline(online, open_page, tmp_path)
    expect(page.locator(".verdict")).to_have_text(verdict)
    assert page.locator(".culprits tbody").inner_text() == online.locator(".culprits tbody").inner_text()
    assert page.locator(".checks dd").count() == online.locator(".checks dd").count() > 0
    assert {each["name"]: each["fill"] for each in boxes(page)} == {
        each["name"]: each["fill"] for each in boxes(online)
    }
    page.locator(".culprits").get_by_role("link", name="loop").click()
    expect(page.locator(".chosen strong")).to_have_text("handle (shop/views.py)")
    page.go_back()
    assert box(page, "cached")["hatch"] == "new"
    assert box(page, "legacy")["hatch"] == "removed"
    page.get_by_role("radio", name="Side by side").click()
    assert box(page, "loop", 1)["width"] > 0
    expect(page.locator(".graph h2").first).to_contain_text('version="v1"')
    page.get_by_role("radio", name="% of total").click()
    page.get_by_role("radio", name="Table").click()
    expect(page.locator(".panel").get_by_role("row").filter(has_text="cached")).to_contain_text("new in B")
    # It is accessible in either theme.
    page = offline(online, open_page, tmp_path, color_scheme="dark", bypass_csp=True)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert violations_in_both_themes(page, axe) == {}
    for theme in ("Light", "Dark"):
        page.get_by_role("button", name=theme, exact=True).click()
        expect(page.locator("html")).to_have_attribute("data-theme", theme.lower())
    assert_fits(page, 360, 640)


def test_hostile_names_in_a_page_from_a_disk_are_shown_and_never_run(
    shop: str, open_page: Open, tmp_path: Path
) -> None:
    online = open_page(f"{shop}/s/{quote(HOSTILE_SERVICE, safe='')}")
    boxes(online)
    page = offline(online, open_page, tmp_path)
    drawn = {each["name"] for each in boxes(page)}
    assert drawn == {"total", "main (app.py)", *(name.replace("%3B", ";") for name in HOSTILE)}
    expect(page.get_by_role("heading", level=1)).to_contain_text("<b onclick=alert(3)>")
    assert page.locator("main img, main b").count() == 0
    assert page.locator("script").count() == 2
    # A file that was cut off says so.
    file = saved(online, "HTML page", tmp_path)
    text = file.read_text()
    file.write_text(re.sub(r'(id="profile">.{200})[^<]+', r"\1", text))
    page = open_page(file.as_uri())
    expect(page.get_by_role("alert")).to_contain_text("This file cannot be shown")


def test_a_link_to_a_comparison_pins_the_times_of_its_sides_too(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}{COMPARE}&baseline_from=-2h&comparison_until=now")
    boxes(page)
    other = open_page(clipboard_after(page, page.get_by_role("button", name="Share", exact=True).click))
    given = parse_qs(urlsplit(other.url).query)
    assert not any(
        time[0].startswith(("-", "now")) for name, time in given.items() if name[-4:] in ("from", "ntil")
    )
    assert {"baseline_from", "comparison_until", "from", "until"} <= set(given)
    # The full URL is offered beside the short link.
    page.goto(f"{shop}/s/shop?from=-30m")
    boxes(page)
    shared = urlsplit(copied(page, "Copy full URL"))
    assert shared.path == "/s/shop"
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:]+Z", parse_qs(shared.query)["from"][0])


def total(answer: dict[str, Any]) -> list[int]:
    return [side["samples"] for side in answer["sides"]]


def test_commands_of_depths_tables_and_grids_give_them(shop: str, open_page: Open, tmp_path: Path) -> None:
    # What is taken away is of the depths in view.
    page = open_page(f"{shop}/s/shop?query=version%3D%22v2%22&min_depth=4")
    expect(page.locator(".quality .basis")).to_contain_text("360 samples")
    assert total(json.loads(ran(copied(page, "Copy as curl")))) == [360]
    folded = ran(copied(page, "Copy CLI command"))
    assert folded.splitlines() == saved(page, "Folded text", tmp_path).read_text().splitlines()[1:]
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == 360
    page.goto(f"{shop}/s/shop/depth?baseline=version%3Av1&comparison=version%3Av2")
    expect(page.locator("figure").first).to_be_visible()
    by_curl = json.loads(ran(copied(page, "Copy as curl")))
    assert len(by_curl["sides"]) == 2
    assert json.loads(ran(copied(page, "Copy CLI command"))) == by_curl
    for view, question in (("/services", "overview"), ("/s/shop/heatmap?rows=hours&from=-2d", "heatmap")):
        page.goto(shop + view)
        expect(page.locator(".basis").first).to_be_visible()
        command = copied(page, "Copy as curl")
        assert not re.search(r"(from|until)=(-|now)", command)
        by_curl = json.loads(ran(command))
        assert by_curl["basis"]["windows"] > 0
        command = copied(page, "Copy CLI command")
        assert command.startswith(f"sidelight query {question} ")
        assert set(json.loads(ran(command))) == set(by_curl)


def test_commands_give_the_view_and_survive_hostile_labels(
    shop: str, open_page: Open, tmp_path: Path
) -> None:
    marker = tmp_path / "was-run"
    label = HOSTILE_LABEL.replace("MARKER", str(marker))
    send(shop, windows("shell", label, BEFORE), windows("shell", "v2", AFTER))
    escaped = label.replace("\\", "\\\\").replace('"', '\\"')
    query = quote(f'version="{escaped}"', safe="")
    page = open_page(f"{shop}/s/shell?query={query}")
    boxes(page)
    assert total(json.loads(ran(copied(page, "Copy as curl")))) == [660]
    folded = ran(copied(page, "Copy CLI command"))
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == 660
    side = quote(f"version:{label}", safe="")
    page.goto(f"{shop}/s/shell/compare?baseline={side}&comparison=version%3Av2")
    boxes(page)
    page.locator("summary").filter(has_text="Why").click()
    verdict = page.locator(".finding .choices p").first.inner_text().split(" (")[0]
    command = copied(page, "Copy CLI command")
    assert command.isprintable() or set(filter(lambda letter: not letter.isprintable(), command)) == {"\n"}
    assert ran(command).splitlines()[0].startswith(verdict)
    assert total(json.loads(ran(copied(page, "Copy as curl")))) == [660, 960]
    assert not marker.exists()
