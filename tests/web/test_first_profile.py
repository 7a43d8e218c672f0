"""A collector that has seen nothing yet, and the moment it has."""

from __future__ import annotations

import json
import time
import urllib.request

from playwright.sync_api import expect

from tests.web.conftest import Open, Serve
from tests.web.flame import boxes
from tests.web.profiles import BEFORE, send, windows
from tests.web.rules import assert_fits, clipboard_after, small_controls, violations_in_both_themes


def asks(url: str, problem: str) -> None:
    """What a sidecar of this pod asks the collector, before it has sent anything."""
    labels = {"service": "early", "pod": "early-1", "node": "node-3"}
    poll = {
        "v": 1,
        "agent": "a1",
        "labels": labels,
        "ready": not problem,
        "problem": problem,
        "timeout_seconds": 0,
    }
    request = urllib.request.Request(
        f"{url}/api/v1/agents/poll", json.dumps(poll).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200


def test_empty_page_says_what_is_up_and_turns_into_services_by_itself(
    serve: Serve, open_page: Open, axe: str
) -> None:
    running = serve()
    page = open_page(running.url)
    expect(page.locator(".checks")).to_contain_text("no sidecar seen yet")
    assert violations_in_both_themes(page, axe) == {}
    assert small_controls(page) == []
    assert_fits(page)
    page.close()
    page = open_page("about:blank", own_context=True)
    page.clock.install()
    page.goto(running.url)
    expect(page.get_by_role("heading", name="No profiles yet")).to_be_visible()
    checks = page.locator(".checks")
    expect(checks).to_contain_text("the collector's API answers (version")
    expect(checks).to_contain_text("store is reachable (directory)")
    expect(checks).to_contain_text("windows acknowledged: 0; last: never")
    expect(checks).to_contain_text("no sidecar seen yet")
    expect(page.locator(".command").first).to_contain_text(f"sidelight sidecar --collector {running.url}")
    for name, words in (("kubectl", "kubectl debug POD"), ("Helm", 'include "sidelight.sidecar"')):
        page.get_by_role("radio", name=name).click()
        expect(page.locator(".command").first).to_contain_text(words)
        command = clipboard_after(page, page.get_by_role("button", name="Copy", exact=True).first.click)
        assert words in command
        assert running.url in command
    # The page asks every three seconds; its clock goes there at once.
    asks(running.url, "ptrace denied (yama=2)")
    page.clock.fast_forward(3000)
    expect(checks).to_contain_text("early in early-1 on node-3, which cannot sample: ptrace denied (yama=2)")
    asks(running.url, "")
    page.clock.fast_forward(3000)
    expect(checks).to_contain_text("early in early-1 on node-3; the first profile comes when its window ends")
    send(running.url, windows("early", "v1", BEFORE))
    page.clock.fast_forward(3000)
    page.get_by_role("link", name="early", exact=True).click()
    assert boxes(page)


def test_empty_ranges_offer_ways_out_and_ranges_in_the_past_call_nothing_stale(
    shop: str, open_page: Open
) -> None:
    page = open_page(f"{shop}/services?from=2020-01-01T00:00:00Z&until=2020-01-02T00:00:00Z")
    expect(page.get_by_role("heading", name="No profiles in this range")).to_be_visible()
    page.get_by_role("button", name="Show the last 30 days").click()
    expect(page.get_by_role("link", name="shop", exact=True)).to_be_visible()
    page.goto(f"{shop}/s/nobody")
    expect(page.get_by_role("heading", name="No CPU samples in this range")).to_be_visible()
    page.get_by_role("button", name="Show wall time").click()
    expect(page.get_by_role("heading", name="No wall samples in this range")).to_be_visible()
    # What was alive at the end of a range is not stale.
    now = time.time()
    page.goto(f"{shop}/services?from={now - 7200:.0f}&until={now - 1560:.0f}")
    row = page.get_by_role("row").filter(has=page.get_by_role("link", name="shop", exact=True))
    expect(row).to_contain_text("min ago")
    expect(row.locator(".badge")).to_have_count(0)
    page.goto(f"{shop}/services?from={now - 7200:.0f}&until={now - 600:.0f}")
    expect(row.locator(".badge")).to_have_text("stale")
