"""What the colours of a graph tell, and what they say when they cannot."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.processes import eventually
from tests.web.conftest import Open
from tests.web.flame import box, boxes, click, hover

V2 = "?query=version%3D%22v2%22"


def legend(page: Page, name: str) -> list[str]:
    entries = page.get_by_role("list", name=name).get_by_role("listitem")
    return [" ".join(text.split()) for text in entries.all_inner_texts()]


def channels(fill: str) -> tuple[int, int, int]:
    return int(fill[1:3], 16), int(fill[3:5], 16), int(fill[5:7], 16)


def test_a_frame_has_the_colour_of_its_largest_state_or_says_that_there_are_none(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/s/mixture?type=wall")
    boxes(page)
    page.get_by_role("radiogroup", name="Colour by").get_by_role("radio", name="State").click()
    eventually("a frame that holds the GIL has its colour", lambda: box(page, "spin")["fill"] == "#7e1fa0")
    assert box(page, "wait")["fill"] == "#d5dae3"
    paled = tuple(round(255 - (255 - channel) * 10 / 16) for channel in (0xD5, 0xDA, 0xE3))
    assert channels(box(page, "work")["fill"]) == paled, "half of its time is the largest state"
    assert legend(page, "States") == [
        "holding the GIL 35.0 %", "running without the GIL 15.0 %", "waiting, reason unknown 50.0 %",
    ]  # fmt: skip
    states = "holding the GIL 25.0 % · running without the GIL 25.0 % · waiting, reason unknown 50.0 %"
    assert states in hover(page, "work")
    assert "colour=state" in page.url
    page.go_back()
    eventually("packages again", lambda: box(page, "wait")["fill"] != "#d5dae3")
    # Where there are none it says so and how to see them.
    page.goto(f"{shop}/s/shop{V2}&colour=state")
    boxes(page)
    said = page.get_by_text(
        "Only wall and off-CPU time have several states, such as running or waiting for a lock."
    )
    expect(said).to_be_visible()
    assert legend(page, "Packages by self time")[0].startswith("Application")
    before = box(page, "loop")["fill"]
    click(page, "render")
    expect(page.get_by_role("button", name="Reset zoom")).to_be_enabled()
    assert box(page, "loop")["fill"] == before, "a zoomed box keeps its colour"
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Show wall time").click()
    expect(said).to_have_count(0)
    eventually("states are drawn", lambda: box(page, "select")["fill"] == "#d5dae3")
    page.get_by_role("radiogroup", name="Colour by").get_by_role("radio", name="Package").click()
    eventually(
        "packages come by whose code they are",
        lambda: (
            legend(page, "Packages by self time")
            == ["Application shop 45.5 %", "Third party jinja2 27.3 %", "Standard library selectors 27.3 %"]
        ),
    )


def test_own_time_is_heat_and_a_difference_keeps_the_colours_of_change(shop: str, open_page: Open) -> None:
    page = open_page(f"{shop}/s/shop{V2}&colour=self")
    assert box(page, "handle")["fill"] == "#f4ede0"
    assert box(page, "loop")["fill"] == box(page, "query")["fill"] == "#7d1028"
    assert sum(channels(box(page, "cached")["fill"])) > sum(channels(box(page, "loop")["fill"]))
    assert legend(page, "Self time")[0] == "no self time"
    assert legend(page, "Self time")[-1] == "most: query (shop/db.py) 3.60 s, 37.5 %"

    page.goto(
        f"{shop}/s/shop/compare?baseline=version%3Av1&comparison=version%3Av2&basis=equal_load&colour=self"
    )
    boxes(page)
    expect(page.get_by_role("radiogroup", name="Colour by")).to_have_count(0)
    assert box(page, "query")["fill"] == "#c9ccd3"
    page.get_by_role("radio", name="Side by side").click()
    eventually("each side has its own heat", lambda: box(page, "query", 0)["fill"] == "#7d1028")
