"""The graph as it was drawn before: its draw lists, and five pictures pixel by pixel.

A change that is meant is written down with

    WRITE_DRAWN=1 python -m pytest tests/web/test_graph_pictures.py

and reviewed in the diff of `drawn/`. Pictures are of the graph alone, in the font that `make tools` installs
(DejaVu Sans Mono), so they are the same on every machine but for the edges of letters.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import boxes, graph

DRAWN = Path(__file__).parent / "drawn"
WRITE = "WRITE_DRAWN" in os.environ

MOST_DIFFERENT = 0.005
"""The part of the pixels that may differ: letters have other edges with another renderer of fonts."""
AS_GOOD_AS_EQUAL = 24
"""A colour channel may be this far off, of 255, before its pixel counts as different."""

LISTS = {
    "package": "/s/states?type=wall",
    "state": "/s/states?type=wall&colour=state",
    "self": "/s/prices?colour=self",
    "search": "/s/prices?q=rule3",
    "inverted": "/s/states?type=wall&invert=1",
    "collapsed": "/s/loops?collapse=1",
    "difference": "/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2&basis=equal_load",
}
PICTURES = {
    "package-light": "/s/prices?theme=light",
    "search-dark": "/s/prices?theme=dark&q=rule3",
    "state-light": "/s/states?type=wall&colour=state&theme=light",
    "self-dark": "/s/prices?colour=self&theme=dark",
    "difference-light": "/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2&basis=equal_load"
    "&theme=light",
}


def test_graphs_are_drawn_as_in_the_golden_lists(shop: str, open_page: Open) -> None:
    page = open_page("about:blank")
    for name, path in LISTS.items():
        page.goto(shop + path)
        drawn = [{key: value for key, value in each.items() if key != "row"} for each in boxes(page)]
        golden = DRAWN / f"{name}.json"
        if WRITE:
            lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in drawn)
            golden.write_text(f"[\n{lines}\n]\n")
        assert drawn == json.loads(golden.read_text()), name


def painted(page: Page) -> bytes:
    """The graph's pixels, once it has been painted and nothing is pointed at."""
    boxes(page)
    page.mouse.move(0, 0)
    page.evaluate("document.fonts.ready")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    url: str = graph(page).locator("canvas").evaluate("canvas => canvas.toDataURL('image/png')")
    return base64.b64decode(url.split(",", 1)[1])


COMPARED = """async ([one, other, near]) => {
  const read = async url => {
    const image = new Image();
    image.src = `data:image/png;base64,${url}`;
    await image.decode();
    const canvas = new OffscreenCanvas(image.width, image.height);
    const context = canvas.getContext('2d', {willReadFrequently: true});
    context.drawImage(image, 0, 0);
    const {width, height} = image;
    return {size: [width, height], data: context.getImageData(0, 0, width, height).data};
  };
  const [a, b] = [await read(one), await read(other)];
  let different = 0;
  for (let i = 0; i < a.data.length; i += 4) {
    if ([0, 1, 2].some(channel => Math.abs(a.data[i + channel] - b.data[i + channel]) > near)) different++;
  }
  return {sizes: [a.size, b.size], different: different / (a.data.length / 4)};
}"""


def compared(chromium: Browser, one: bytes, other: bytes) -> dict[str, Any]:
    page = chromium.new_page()
    pictures = [base64.b64encode(picture).decode() for picture in (one, other)]
    found: dict[str, Any] = page.evaluate(COMPARED, [*pictures, AS_GOOD_AS_EQUAL])
    page.close()
    return found


def test_graphs_look_as_they_did(
    shop: str, open_page: Open, chromium: Browser, subtests: pytest.Subtests
) -> None:
    for name, address in PICTURES.items():
        with subtests.test(name):
            page = open_page(shop + address)
            if "state" in name:
                eventually(
                    "states are drawn", lambda page=page: "#7e1fa0" in {box["fill"] for box in boxes(page)}
                )
            picture = painted(page)
            path = DRAWN / f"{name}.png"
            if WRITE:
                path.write_bytes(picture)
            found = compared(chromium, picture, path.read_bytes())
            assert found["sizes"][0] == found["sizes"][1]
            assert found["different"] <= MOST_DIFFERENT
            page.close()


def test_comparing_pictures_sees_small_changes(shop: str, open_page: Open, chromium: Browser) -> None:
    """One frame selected, one hue, one theme: each is more than what may differ."""
    page = open_page(shop + PICTURES["package-light"])
    before = painted(page)
    assert compared(chromium, before, painted(page))["different"] == 0
    page.get_by_label("Search frames").fill("rule3")
    eventually(
        "it is marked", lambda: compared(chromium, before, painted(page))["different"] > MOST_DIFFERENT
    )
    page.get_by_label("Search frames").fill("")
    page.locator(".flame canvas").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("+")
    assert compared(chromium, before, painted(page))["different"] > MOST_DIFFERENT
    dark = open_page(shop + PICTURES["package-light"].replace("light", "dark"))
    assert compared(chromium, before, painted(dark))["different"] > MOST_DIFFERENT
