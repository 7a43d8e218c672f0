"""What the pages say of deploys: the change in the list of services, and a service's own list."""

from __future__ import annotations

import json
import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import Page, Route, expect

from tests.web.conftest import Open
from tests.web.flame import boxes
from tests.web.found import effect
from tests.web.rules import violations_in_both_themes

HOSTILE = "<b onclick=alert(1)>\u202e" + "v" * 300


def deploy(state: str = "pass", direction: str = "unchanged", **changes: Any) -> dict[str, Any]:
    rate = effect(0.1, 0.1081, 0.0022, direction)
    times = "from=2026-11-20T10%3A00%3A00Z&until=2026-11-20T10%3A20%3A00Z"
    return {
        "id": "20261120-aaaaaaaaaaaaaaaa",
        "namespace": "",
        "service": "shop",
        "version": "v2",
        "previous": "v1",
        "first_seen": "2026-11-20T10:00:00Z",
        "state": state,
        "conclusion": None if state == "watching" else state,
        "summary": "B takes 8.1 % more CPU time than A.",
        "analyses": [{"index": 1, "state": state, "rate": rate}],
        "finished": None,
        "links": {"view": f"/s/shop/compare?{times}&baseline=version%3Av1&comparison=version%3Av2"},
        **changes,
    }


def deployed(page: Page, *deploys: dict[str, Any]) -> None:
    def answer(route: Route) -> None:
        route.fulfill(content_type="application/json", body=json.dumps({"deploys": deploys}))

    page.route(re.compile("/api/v1/deploys"), answer)


def row(page: Page) -> Any:
    return (
        page.get_by_role("row")
        .filter(has=page.get_by_role("link", name="shop", exact=True))
        .locator(".drift")
    )


def shown(page: Page) -> str:
    return re.sub(r"\s+", " ", row(page).inner_text())


def test_list_says_what_was_found_of_the_step_to_the_current_version_alone(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/settings")
    deployed(page, deploy(version="v3", previous="v2"), deploy(service="lone"))
    page.goto(f"{shop}/services")
    expect(row(page)).to_contain_text("+45.5 % unverified")
    assert "▲" not in shown(page)
    row(page).click()
    given = parse_qs(urlsplit(page.evaluate("location.href")).query)
    assert (given["baseline"], given["comparison"]) == (["version:v1"], ["version:v2"])
    # Its own deploy leads to the comparison at its times.
    page.unroute(re.compile("/api/v1/deploys"))
    deployed(page, deploy("regressed", "increased"))
    page.goto(f"{shop}/services?theme=dark")
    expect(row(page)).to_have_attribute("title", "B takes 8.1 % more CPU time than A.")
    assert shown(page) == "▲ +8.1 % +5.9 to +10.3 against v1: compare"
    row(page).click()
    given = parse_qs(urlsplit(page.evaluate("location.href")).query)
    assert given == {
        "baseline": ["version:v1"],
        "comparison": ["version:v2"],
        "theme": ["dark"],
        "from": ["2026-11-20T10:00:00Z"],
        "until": ["2026-11-20T10:20:00Z"],
    }


def test_a_service_lists_its_deploys_in_words_that_fit_and_are_accessible(
    shop: str, open_page: Open, axe: str
) -> None:
    page = open_page(f"{shop}/settings")
    deployed(
        page,
        deploy(
            "watching", analyses=[], summary="The first analysis is still to come.", links={"view": "/s/shop"}
        ),
        deploy("regressed", "increased", id="b", version="v1", previous="v0"),
        deploy(
            "finished",
            id="c",
            version="v0",
            previous="w",
            conclusion="regressed",
            finished={"reason": "rolled_back"},
        ),
    )
    page.goto(f"{shop}/s/shop")
    listed = page.locator(".deploys")
    newest = re.sub(r"\s+", " ", listed.locator("summary").inner_text())
    assert re.fullmatch(r"v2 · .+ ago · Analysing ▾", newest)
    listed.locator("summary").click()
    rows = listed.locator("li")
    expect(rows.first).to_contain_text("Analysing · The first analysis is still to come.")
    expect(rows.nth(1)).to_contain_text("▲ regressed · B takes 8.1 % more CPU time than A.")
    expect(rows.nth(2)).to_contain_text("rolled back, was ▲ regressed")
    listed.get_by_role("link", name="v2").click()
    given = parse_qs(urlsplit(page.evaluate("location.href")).query)
    assert (given["baseline"], given["comparison"]) == (["version:v1"], ["version:v2"])
    # Hostile versions are text.
    page = open_page(f"{shop}/settings", viewport={"width": 320, "height": 700})
    deployed(page)
    page.goto(f"{shop}/s/shop")
    expect(page.locator(".flame-graph")).to_be_visible()
    expect(page.locator(".deploys")).to_have_count(0)
    page.unroute(re.compile("/api/v1/deploys"))
    deployed(page, deploy("regressed", "increased", version=HOSTILE, namespace=HOSTILE, summary=HOSTILE))
    page.goto(f"{shop}/s/shop")
    page.locator(".deploys summary").click()
    expect(page.locator(".deploys li")).to_be_visible()
    assert page.locator("main b[onclick]").count() == 0
    assert page.locator("main").evaluate("at => at.scrollWidth") <= 320
    assert violations_in_both_themes(page, axe) == {}


def test_deploys_are_not_asked_for_where_they_are_off(shop: str, limited: str, open_page: Open) -> None:
    asked = "() => performance.getEntriesByType('resource').map(({ name }) => name)"
    for url, times in ((limited, 0), (shop, 1)):
        # A 404 would be an error in the browser's console, which fails the test.
        page = open_page(url)
        expect(page.get_by_role("link", name="shop", exact=True)).to_be_visible()
        page.goto(f"{url}/s/shop")
        assert boxes(page)
        page.wait_for_load_state("networkidle")
        assert sum("/api/v1/deploys" in name for name in page.evaluate(asked)) == times
