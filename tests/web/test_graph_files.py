"""Pictures of what is in view: SVG and PNG files that say by themselves what they show."""

from __future__ import annotations

import re
import struct
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import boxes, click, outline
from tests.web.profiles import HOSTILE, HOSTILE_SERVICE

V2 = "?query=version%3D%22v2%22"
SVG = "{http://www.w3.org/2000/svg}"


def saved(page: Page, kind: str) -> Path:
    with page.expect_download() as download:
        page.get_by_role("button", name=kind, exact=True).click()
    assert download.value.suggested_filename.endswith(f".{kind.lower()}")
    return Path(download.value.path())


def texts(svg: ElementTree.Element) -> list[str]:
    return [text.text or "" for text in svg.findall(f"{SVG}text")]


def test_files_say_what_they_show_and_have_the_theme_of_the_page(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}&q=loop")
    click(page, "render")
    eventually("it is zoomed into", lambda: len(boxes(page)) == 5)
    svg = ElementTree.parse(saved(page, "SVG")).getroot()
    said = texts(svg)
    assert said[0] == "shop: CPU time"
    assert said[1] == "In view: render (jinja2/runtime.py), 3.60 s (37.5 % of the whole)"
    assert 'Filter: version="v2"' in said
    assert "Search: loop, 1 frame, 100.0 %" in said
    time = r"20\d\d-\d\d-\d\dT[\d:.]+Z"
    side = rf'{{service="shop", version="v2"}} · {time} to {time} · 960 samples'
    assert any(re.fullmatch(side, line) for line in said)
    assert "jinja2 100.0 %" in said
    drawn = [group.findtext(f"{SVG}title", "").split("\n")[0] for group in svg.findall(f"{SVG}g")]
    assert drawn == [line.split(" ", 1)[1] for line in outline(page)]
    title = svg.findall(f"{SVG}g")[-1].findtext(f"{SVG}title", "")
    assert title.split("\n")[1:] == [
        "total 37.50 % · 3.60 s · 360 samples",
        "self 3.60 s · 360 samples",
        "of caller 100.00 %",
        "package jinja2 (third party)",
        "depth 4",
    ]
    # They have the theme of the page.
    page.goto(f"{shop}/s/shop{V2}")
    boxes(page)
    file = saved(page, "SVG")
    assert 'height="100%" fill="#ffffff"' in file.read_text()
    svg = ElementTree.parse(file).getroot()
    png = saved(page, "PNG").read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert (width, height) == (2 * int(svg.get("width", "0")), 2 * int(svg.get("height", "0")))
    assert len(png) > 10_000
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert 'height="100%" fill="#171a20"' in saved(page, "SVG").read_text()
    page.get_by_label("on white").check()
    assert 'height="100%" fill="#ffffff"' in saved(page, "SVG").read_text()
    for key, name in (("p", "shop.png"), ("P", "shop.svg")):
        with page.expect_download() as download:
            page.keyboard.press(key)
        assert download.value.suggested_filename == name


def test_files_of_a_comparison_name_sides_and_colours(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2")
    boxes(page)
    said = texts(ElementTree.parse(saved(page, "SVG")).getroot())
    drawn = "shop: CPU time, A v1 to B v2: width: mean share of A and B; colour: change of share"
    assert " ".join(said[:2]).startswith(drawn)
    assert any(line.startswith('A: {service="shop", version="v1"}') for line in said)
    assert any(line.startswith('B: {service="shop", version="v2"}') for line in said)
    assert {"new in B", "removed in B", "within noise"} <= set(said)
    page.get_by_role("radio", name="Side by side").click()
    boxes(page, 1)
    names: list[str] = []
    page.on("download", lambda download: names.append(download.suggested_filename))
    page.get_by_role("button", name="SVG", exact=True).click()
    eventually("two files", lambda: sorted(names) == ["shop-a.svg", "shop-b.svg"])


def test_hostile_names_are_text_in_a_file_and_a_tall_graph_is_cut(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/{quote(HOSTILE_SERVICE, safe='')}")
    boxes(page)
    path = saved(page, "SVG")
    svg = ElementTree.parse(path).getroot()
    titles = {group.findtext(f"{SVG}title", "").split("\n")[0] for group in svg.findall(f"{SVG}g")}
    assert {name.replace("%3B", ";") for name in HOSTILE} <= titles
    assert {element.tag for element in svg.iter()} <= {
        SVG + tag for tag in ("svg", "title", "desc", "defs", "pattern", "rect", "g", "text")
    }
    shown = open_page(f"file://{path.rename(path.with_suffix('.svg'))}")
    assert shown.evaluate("document.documentElement.tagName") == "svg"
    # A graph too tall for a picture is cut and says so.
    page.goto(f"{shop}/s/deep")
    boxes(page)
    page.locator(".flame-scroll").evaluate("at => { at.scrollTop = 2000 }")
    svg = ElementTree.parse(saved(page, "SVG")).getroot()
    assert "Rows 101 to 500 of 3501." in texts(svg)
    assert len(svg.findall(f"{SVG}g")) == 400
    assert len(saved(page, "PNG").read_bytes()) > 10_000
