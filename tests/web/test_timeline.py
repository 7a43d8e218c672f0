"""The timeline: what was seen when, ranges chosen on it, and sides of a comparison made of them."""

from __future__ import annotations

import re
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import FloatRect, Locator, Page, expect

from sidelight_model.window import TaskReadings
from tests.processes import eventually
from tests.web.conftest import Open, Serve
from tests.web.flame import boxes, outline
from tests.web.profiles import AFTER, BEFORE, send, windows

GOLDEN = Path(__file__).parents[1] / "golden" / "formats"


def given(page: Page) -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.evaluate("location.href")).query)


def basis(page: Page) -> Locator:
    return page.locator(".quality .basis")


def chart(page: Page) -> FloatRect:
    """Where the chart is, once nothing moves it any more."""
    boxes(page)
    area = page.get_by_role("slider").bounding_box()
    assert area
    return area


def drag(page: Page, start: float, end: float) -> None:
    """Brush from one part of the chart's width to another."""
    area = chart(page)
    at = area["y"] + area["height"] / 3
    page.mouse.move(area["x"] + area["width"] * start, at)
    page.mouse.down()
    page.mouse.move(area["x"] + area["width"] * end, at + 5, steps=4)
    page.mouse.up()


def test_the_time_of_a_trigger_is_marked_and_said(shop: str, open_page: Open) -> None:
    steady = windows("boosted", "v1", AFTER, minutes_ago=20)
    send(shop, steady, windows("boosted", "v1", AFTER, pods=1, minutes_ago=9, trigger="cpu+rss"))
    page = open_page(f"{shop}/s/boosted")
    page.get_by_role("button", name="Unfold the timeline").click()
    expect(page.locator(".boost-mark")).to_have_count(1)
    mark = page.locator(".boost-mark").bounding_box()
    assert mark
    page.mouse.move(mark["x"] + mark["width"] / 2, mark["y"] - 20)
    said = "trigger cpu+rss: 1 pod sampled at a higher rate"
    expect(page.locator(".timeline .caption")).to_contain_text(said)


def test_a_brushed_range_is_zoomed_to_or_made_a_side_with_its_filters(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop")
    drag(page, 0.7, 0.998)
    chosen = page.get_by_role("group", name="Selected range")
    expect(chosen).to_contain_text("960 samples")
    assert "from" not in given(page)
    chosen.get_by_role("button", name="Zoom to range").click()
    expect(basis(page)).to_contain_text("960 samples")
    expect(chosen).to_have_count(0)
    page.get_by_role("button", name="back to last hour").click()
    expect(basis(page)).to_contain_text("1,620 samples")
    expect(page.get_by_role("button", name="back to last hour")).to_have_count(0)
    # Times are sides too, and a filter by version comes along.
    page.goto(f"{shop}/s/shop?query=version%3D%22v1%22%2C%20pod!%3D%22x%22")
    drag(page, 0.35, 0.6)
    page.get_by_role("button", name="as side A").click()
    page.get_by_role("link", name="compare with everything shown").click()
    expect(page.locator(".verdict")).to_contain_text("CPU")
    there = given(page)
    assert there["baseline"] == there["comparison"] == ['match:version="v1"']
    assert there["query"] == ['pod!="x"']
    assert there["baseline_from"][0] < there["baseline_until"][0]
    assert "comparison_from" not in there


def unfolded(page: Page) -> Locator:
    """The timeline with its axes, flags and numbers."""
    page.get_by_role("button", name="Unfold the timeline").click()
    timeline = page.get_by_role("region", name="Timeline", exact=True)
    expect(timeline.get_by_text("Timeline as a table")).to_be_visible()
    return timeline


def test_the_keyboard_walks_chooses_zooms_and_lets_go(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop")
    boxes(page)
    # Time in which nothing was seen is a gap and not zero.
    timeline = unfolded(page)
    expect(timeline.locator(".gap-band")).to_have_count(3)
    expect(timeline.locator("svg")).to_contain_text("no data")
    expect(page.get_by_role("slider")).to_have_attribute("aria-label", re.compile("3 gaps"))
    table = timeline.get_by_text("Timeline as a table")
    table.click()
    expect(timeline).to_contain_text("No data:")
    table.click()
    slider = page.get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("no data"))
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("selected 20.* to 20"))
    expect(page.get_by_role("group", name="Selected range")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("group", name="Selected range")).to_have_count(0)
    page.keyboard.press("End")
    for _ in range(5):
        page.keyboard.press("Shift+PageUp")
    page.keyboard.press("Enter")
    expect(basis(page)).to_contain_text("960 samples")
    assert given(page)["from"][0].endswith("Z")


def test_version_that_ran_before_the_range_has_no_flag_of_a_deploy(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop")
    asked = page.request.get(f"{shop}/api/v1/timeline", params={"query": '{service="shop"}', "from": "-1h"})
    first = asked.json()["versions"][0]["first_seen"]
    seconds = datetime.fromisoformat(first).timestamp() if isinstance(first, str) else first
    page.goto(f"{shop}/s/shop?from={seconds + 10:.0f}&until=now")
    unfolded(page)
    expect(page.locator(".flag")).to_have_count(2)
    expect(page.locator(".flag").first).to_have_text(re.compile("◂ *v1$"))
    expect(page.locator(".flag").last).to_have_text(re.compile(r"v2\d\d:\d\d"))


def test_a_flag_begins_a_comparison_and_a_second_side_ends_the_choice(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop")
    unfolded(page)
    page.locator(".flag").filter(has_text="v1").click()
    page.get_by_role("group", name="Selected versions").get_by_role("button", name="as side A").click()
    expect(page.locator(".tray")).to_contain_text("v1")
    expect(page.locator(".tray")).to_contain_text("Select side B the same way")
    page.get_by_role("button", name="Clear side A").click()
    expect(page.locator(".tray")).to_have_count(0)
    assert "baseline" not in given(page)
    page.go_back()
    expect(page.locator(".tray")).to_contain_text("v1")
    page.locator(".flag").filter(has_text="v2").click()
    page.get_by_role("group", name="Selected versions").get_by_role("button", name="as side B").click()
    expect(page.locator(".verdict")).to_contain_text("110 → 160 m/pod")
    assert (given(page)["baseline"], given(page)["comparison"]) == (["version:v1"], ["version:v2"])
    # The next version is compared whatever was compared before.
    page.goto(f"{shop}/s/shop?baseline=match%3A&baseline_from=-2h&baseline_until=-1h")
    boxes(page)
    page.get_by_role("link", name="Compare with previous version").click()
    expect(page.locator(".verdict")).to_contain_text("110 → 160 m/pod")
    assert "baseline_from" not in given(page)


def touch(page: Page, moves: list[tuple[float, float]]) -> None:
    """One finger: down at the first place, along the others, up."""
    fingers = page.context.new_cdp_session(page)
    for at, (x, y) in enumerate(moves):
        kind = "touchMove" if at else "touchStart"
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_brushes_sideways_and_scrolls_up_and_down(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop", has_touch=True)
    page.set_viewport_size({"width": 390, "height": 800})
    area = chart(page)
    y = area["y"] + area["height"] / 2
    left, right = area["x"] + area["width"] * 0.35, area["x"] + area["width"] * 0.7
    touch(page, [(left + (right - left) * part / 8, y) for part in range(9)])
    expect(page.get_by_role("group", name="Selected range")).to_contain_text("660 samples")
    assert page.evaluate("scrollY") == 0
    page.get_by_role("button", name="Clear").click()
    touch(page, [(left, y - 10 * part) for part in range(12)])
    eventually("the page has scrolled", lambda: page.evaluate("scrollY") > 20)
    expect(page.get_by_role("group", name="Selected range")).to_have_count(0)


def crossing(page: Page) -> list[Any]:
    """Pairs of flags that lie over each other."""
    found: list[Any] = page.evaluate(
        """() => {
            const flags = [...document.querySelectorAll('.flag')]
                .map(at => [at.textContent, at.getBoundingClientRect()]);
            const over = (p, q) => p.left < q.right - .5 && q.left < p.right - .5
                && p.top < q.bottom - .5 && q.top < p.bottom - .5;
            return flags.flatMap(([a, p], i) =>
                flags.slice(i + 1).filter(([, q]) => over(p, q)).map(([b]) => [a, b]));
        }"""
    )
    return found


def test_many_deployments_stay_legible_and_none_is_lost(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/busy")
    unfolded(page)
    for width in (1280, 360):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_function(
            """width => innerWidth === width && Math.abs(document.querySelector('.chart').clientWidth
                - document.querySelector('.chart svg').clientWidth) < 1""",
            arg=width,
        )
        assert crossing(page) == []
        labels = page.locator(".flag").all_inner_texts()
        shared = [re.search(r"\+(\d+)$", label) for label in labels]
        assert len(labels) + sum(int(more[1]) for more in shared if more) == 30
        assert page.evaluate("document.documentElement.scrollWidth") == width
    page.locator(".flag").filter(has_text="+").first.click()
    more = re.search(r"\+(\d+)$", page.locator(".flag[aria-pressed=true]").inner_text())
    assert more
    expect(page.get_by_role("group", name="Selected versions").locator("p")).to_have_count(int(more[1]) + 1)


def test_what_is_kept_by_the_day_is_called_coarse(tmp_path: Path, serve: Serve, open_page: Open) -> None:
    shutil.copytree(GOLDEN / "store-1-levels", tmp_path / "store")
    running = serve("--role", "serve")
    answer = running.get("/api/v1/services?from=1790000000&until=1796000000")
    coarse = next(each for each in answer["basis"]["resolutions"] if each["resolution"] == "day")
    service = answer["services"][0]["service"]
    around = f"from={coarse['from'] - 86400:.0f}&until={coarse['until'] + 86400:.0f}"
    page = open_page(f"{running.url}/s/{service}?type=wall&{around}")
    expect(unfolded(page)).to_contain_text("stored per day until")
    expect(page.locator(".quality .notices").first).to_contain_text("are stored as daily sums")


def test_tasks_are_drawn_with_the_lag_of_their_event_loop(serve: Serve, open_page: Open) -> None:
    running = serve()
    stacks = "handle (a.py:1);acquire (a.py:5);[task_waiting] 900\nhandle (a.py:2);[task_ready] 100\n"
    for minutes_ago, longest_ready_ns in ((20, 40_000_000), (10, 250_000_000)):
        read = TaskReadings(readings=50, tasks=5000, ready=500, longest_ready_ns=longest_ready_ns, loops=1)
        send(running.url, windows("pool", "v1", BEFORE + stacks, pods=1, minutes_ago=minutes_ago, tasks=read))
    page = open_page(f"{running.url}/s/pool?type=tasks")
    eventually("the await path is drawn", lambda: any("acquire" in line for line in outline(page)))
    timeline = unfolded(page)
    expect(timeline).to_contain_text("asyncio tasks, per pod")
    expect(timeline).to_contain_text("event-loop lag, up to 250 ms")
    levels = re.findall(r"M\S+ (\S+)H", timeline.locator(".lag").get_attribute("d") or "")
    assert {float(level) for level in levels} == {0, 94.1}
    # Threads have no lag.
    page.get_by_label("Profile type").select_option("wall")
    expect(timeline.locator(".lag")).to_have_count(0)
