"""Captures that start at a service, rows of the heatmap, a pod, a deploy or in the palette."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.web.conftest import Open, Serve
from tests.web.flame import boxes
from tests.web.profiles import AFTER, BEFORE, send, windows
from tests.web.rules import violations_in_both_themes
from tests.web.test_deploys_pages import deploy, deployed
from tests.web.test_heatmap import Drawn
from tests.web.test_workloads import seen


def from_service(page: Page) -> None:
    boxes(page)
    page.get_by_role("button", name="Capture", exact=True).click()


def from_heatmap_row(page: Page) -> None:
    page.get_by_role("link", name="Pods", exact=True).click()
    page.get_by_role("radio", name="By name").click()
    drawn = Drawn(page)
    drawn.canvas.click(position={"x": 10, "y": drawn.at(3, 0)[1]})
    page.get_by_role("button", name="Capture these pods").click()


def from_pod(page: Page) -> None:
    page.get_by_text("2/3 pods: no sidecar").click()
    page.get_by_role("button", name="Capture shop-1").click()


def from_deploy(page: Page) -> None:
    page.locator(".deploys summary").click()
    page.get_by_role("button", name="Capture v2").click()


def from_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Find")).to_be_focused()
    page.keyboard.type("capture shop")
    expect(page.get_by_role("option", name="Capture shop")).to_be_visible()
    page.keyboard.press("Enter")


def test_a_capture_is_started_from_each_place_of_what_it_shows(
    serve: Serve, open_page: Open, axe: str, tmp_path: Path, subtests: pytest.Subtests
) -> None:
    running = serve("--kubernetes", seen(tmp_path), "--allow-anonymous-writes")
    send(running.url, windows("shop", "v1", BEFORE, minutes_ago=9), windows("shop", "v2", AFTER))
    for place, wish in (
        (from_service, {"pods": 1}),
        (from_heatmap_row, {"pods": ["shop-v2-1"]}),
        (from_pod, {"pods": ["shop-1"]}),
        (from_deploy, {"pods": 1, "query": 'version="v2"'}),
        (from_palette, {"pods": 1}),
    ):
        with subtests.test(place.__name__):
            page = open_page("about:blank", own_context=True)
            deployed(page, deploy())
            page.goto(f"{running.url}/s/shop")
            place(page)
            dialog = page.get_by_role("dialog", name="Capture")
            expect(dialog.get_by_label("Seconds")).to_have_value("60")
            expect(dialog.get_by_label("Rate (Hz)")).to_have_value("100")
            assert violations_in_both_themes(page, axe) == {}
            with page.expect_request(lambda request: request.method == "POST") as sent:
                dialog.get_by_role("button", name="Start").click()
            expected: dict[str, Any] = {"service": "shop", "query": "", "seconds": 60, "rate": 100, **wish}
            assert expected.items() <= sent.value.post_data_json.items()
            # It follows to other pages, until it is closed.
            progress = page.get_by_role("region", name="Captures in progress")
            expect(progress).to_contain_text("Capture of shop")
            page.locator(".brand").click()
            expect(page.get_by_role("heading", name="Services", level=1)).to_be_attached()
            expect(progress).to_contain_text("queued")
            assert violations_in_both_themes(page, axe) == {}
            progress.get_by_role("button", name="Cancel").click()
            expect(progress).to_contain_text("stopped")
