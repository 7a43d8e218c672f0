"""The heat map of a capture's offsets: a real program that does two things in turn, and hostile names."""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.processes import Collector, collector, eventually, running, sidelight
from tests.web.conftest import Open
from tests.web.flame import boxes
from tests.web.rules import assert_fits, violations_in_both_themes

TARGET = Path(__file__).parents[1] / "sidecar" / "targets" / "alternates.py"
TURN_MS = 430
HOSTILE = ("<img src=x onerror=alert(1)> (a;b.py:1)", "שלום\u202eevil", "x" * 2000)
QUICK = ("--capture-check-interval-seconds", "0.3")


@dataclass(frozen=True)
class Shown:
    """A collector with a capture whose recordings are kept, and when the program did what."""

    served: Collector
    capture: str
    turns: list[tuple[float, str]]

    @property
    def url(self) -> str:
        return self.served.url

    @property
    def page(self) -> str:
        """Its page, with wall time: on a busy machine the program may have no CPU for as long as a turn."""
        return f"{self.url}/captures/{self.capture}?type=wall"


def ask(url: str, body: bytes | None = None, method: str | None = None, **headers: str) -> Any:
    request = urllib.request.Request(url, data=body, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def started(served: Collector, **wish: object) -> str:
    body = json.dumps(wish).encode()
    made = ask(f"{served.url}/api/v1/captures", body, **{"Content-Type": "application/json"})
    return str(made["id"])


def ended(served: Collector, capture: str) -> bool:
    return served.get(f"/api/v1/captures/{capture}")["state"] in ("ready", "stopped")


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shown]:
    """A capture of five seconds of a program that alternates."""
    folder = tmp_path_factory.mktemp("offsets")
    with (
        collector(folder, str(folder / "store"), *QUICK) as served,
        running(folder / "target.log", sys.executable, str(TARGET), str(TURN_MS), "reader") as target,
    ):
        argv = ["--collector", served.url, "--pid", str(target.pid), "--service", "turns", "--pod", "p-1"]
        argv += ["--spool-dir", str(folder / "spool"), "--listen", "127.0.0.1:0", "--window-seconds", "1"]
        argv += ["--capture-budget-percent", "100", "--on-demand"]
        with running(folder / "sidecar.log", *sidelight("sidecar", *argv)):
            agents = lambda: served.get("/api/v1/agents")["agents"]  # noqa: E731
            eventually("a sidecar is ready", lambda: any(one["ready"] for one in agents()))
            capture = started(served, service="turns", seconds=5, rate=100)
            eventually("the capture ends", lambda: ended(served, capture))
        turns = re.findall(r"(first|second) (\d+)", target.said())
        yield Shown(served, capture, [(int(at) / 1e9, name) for name, at in turns])


def start_of(shown: Shown) -> float:
    found = ask(f"{shown.url}/api/v1/captures/{shown.capture}/subsecond-heatmap")
    return float(found["start"])


def middle(shown: Shown, wanted: str) -> tuple[float, float]:
    """A span in the middle of a turn of a function, in seconds since the start."""
    found = ask(f"{shown.url}/api/v1/captures/{shown.capture}/subsecond-heatmap")
    (one,) = found["recordings"]
    for at, name in shown.turns:
        begin, end = at - found["start"] + 0.06, at - found["start"] + TURN_MS / 1000 - 0.06
        if name == wanted and begin > one["from_us"] / 1e6 and end < one["until_us"] / 1e6:
            return round(begin, 2), round(end, 2)
    raise AssertionError(f"no whole turn of {wanted} was captured")


def drawn(page: Page) -> str:
    expect(page.get_by_role("application", name=re.compile("flame graph", re.IGNORECASE))).to_be_visible()
    return " ".join(str(box) for box in boxes(page))


def heat(page: Page) -> Any:
    return page.get_by_role("application", name=re.compile("Samples by second"))


def test_a_span_in_the_address_shows_what_ran_then_and_empty_spans_say_so(
    shown: Shown, open_page: Open
) -> None:
    page = open_page("about:blank")
    for wanted, other in (("first", "second"), ("second", "first")):
        begin, end = middle(shown, wanted)
        page.goto(f"{shown.page}&span={begin}-{end}")
        expect(page.get_by_role("heading", name=f"{begin:g} to {end:g} s")).to_be_visible()
        names = drawn(page)
        assert f"{wanted} (alternates.py" in names
        assert f"{other} (alternates.py" not in names
    # A span is dragged, and Back undoes it.
    page.goto(shown.page)
    canvas = heat(page)
    expect(canvas).to_be_visible()
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    y = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + 60, y)
    page.mouse.down()
    page.mouse.move(box["x"] + 100, y - 20)
    page.mouse.move(box["x"] + 120, y - 40)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"span=\d+\.?\d*-\d+\.?\d*"))
    assert "alternates.py" in drawn(page)
    page.reload()
    assert "alternates.py" in drawn(page)
    page.go_back()
    expect(page).not_to_have_url(re.compile("span="))
    expect(page.get_by_role("application", name=re.compile("flame graph", re.IGNORECASE))).to_have_count(0)
    # The list of captures leads there.
    page.goto(f"{shown.url}/captures?service=turns")
    page.locator(f'main a[href*="{shown.capture}"]').first.click()
    expect(heat(page)).to_be_visible()
    page.goto(f"{shown.page}&span=500-501")
    expect(page.get_by_text("No wall samples in this span")).to_be_visible()
    page.goto(f"{shown.page}&span=7-3")
    expect(page.get_by_text("The span in this URL is invalid")).to_be_visible()
    page.get_by_role("button", name="Clear span").click()
    expect(page).not_to_have_url(re.compile("span="))
    page.goto(f"{shown.page}&span=1-3&view=lines&fn=first%20(alternates.py)")
    expect(page).to_have_url(re.compile("by=line"))
    assert re.search(r"first \(alternates\.py:\d+\)", drawn(page))


def test_a_span_is_picked_with_the_keyboard_in_numbers_and_from_the_table(
    shown: Shown, open_page: Open
) -> None:
    page = open_page(shown.page)
    heat(page).focus()
    said = page.get_by_text(re.compile(r"^second \d+, \d+ to \d+ ms: \d+ samples? of"))
    expect(said).to_be_visible()
    page.keyboard.press("Home")
    expect(page.get_by_text("second 0, 0 to 20 ms:")).to_be_visible()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_text("second 2, 20 to 40 ms:")).to_be_visible()
    page.keyboard.press("Shift+ArrowRight")
    expect(page.get_by_text("2.02 to 3.04 s")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"span=2\.02-3\.04"))
    assert "alternates.py" in drawn(page)
    heat(page).focus()
    page.keyboard.press("Escape")
    expect(page).not_to_have_url(re.compile("span="))
    # In numbers and from the table.
    page.goto(shown.page)
    begin, end = middle(shown, "second")
    page.get_by_label("From second").fill(f"{begin}")
    page.get_by_label("Until second").fill("nonsense")
    expect(page.get_by_role("button", name="Pick", exact=True).first).to_be_disabled()
    page.get_by_label("Until second").fill(f"{end}")
    page.keyboard.press("Enter")
    assert "second (alternates.py" in drawn(page)
    page.get_by_text("The busiest cells as a table").click()
    rows = page.get_by_role("region", name="The busiest cells as a table").get_by_role("row")
    assert rows.count() > 10
    rows.nth(1).get_by_role("button").click()
    expect(page).not_to_have_url(re.compile(re.escape(f"span={begin}-{end}")))
    page.get_by_role("button", name="Clear").click()
    expect(page).not_to_have_url(re.compile("span="))


def test_a_span_is_compared_with_the_rest_of_the_capture(shown: Shown, open_page: Open) -> None:
    begin, end = middle(shown, "first")
    page = open_page(f"{shown.page}&span={begin}-{end}")
    assert "second (alternates.py" not in drawn(page)
    page.get_by_role("button", name="Compare with the rest").click()
    expect(page).to_have_url(re.compile(r"span=[\d.]+-[\d.]+(,|%2C)rest"))
    expect(page.get_by_text("▲ twice or more in B")).to_be_visible()
    names = drawn(page)
    assert "second (alternates.py" in names
    assert "first (alternates.py" in names
    page.get_by_role("radio", name="Side by side").click()
    expect(page.get_by_role("heading", name="B this span")).to_be_visible()
    page.get_by_role("radio", name="Table").click()
    gone = page.get_by_role("row").filter(has_text=re.compile(r"second\s+alternates\.py"))
    expect(gone).to_contain_text("removed in B")
    page.get_by_role("button", name="Compare with the rest").click()
    kept = page.get_by_role("row").filter(has_text=re.compile(r"first\s+alternates\.py"))
    expect(kept).to_be_visible()


def test_heat_map_of_offsets_is_accessible_fits_a_phone_and_takes_a_finger(
    shown: Shown, open_page: Open, axe: str
) -> None:
    page = open_page(f"{shown.page}&span=1-2")
    assert drawn(page)
    page.get_by_text("The busiest cells as a table").click()
    assert violations_in_both_themes(page, axe) == {}
    expect(heat(page)).to_be_visible()
    assert_fits(page)
    # A finger drags a span.
    page = open_page(shown.page, has_touch=True, is_mobile=True)
    canvas = heat(page)
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    assert box is not None
    touch = page.context.new_cdp_session(page)
    y = box["y"] + 100
    for kind, x in (("touchStart", 60), ("touchMove", 90), ("touchMove", 130), ("touchEnd", 0)):
        points = [] if kind == "touchEnd" else [{"x": box["x"] + x, "y": y}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    expect(page).to_have_url(re.compile("span="))
