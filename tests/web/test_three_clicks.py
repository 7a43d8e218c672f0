"""Three questions about 300 services, in at most three clicks from Home."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Locator, expect

from tests.processes import Collector
from tests.web.conftest import Open, Serve
from tests.web.profiles import FAST, SLOW, send, windows
from tests.web.test_captures import poll
from tests.web.test_first_comparison import run
from tests.web.test_workloads import seen

SERVICES = 300
MAX_CLICKS = 3
HOT = "pay-z"


def fleet(serve: Serve, folder: Path) -> Collector:
    """Serve 300 services: `rolling` and a canary got slower in v2, and one pod of `pay` is hot."""
    served = serve("--kubernetes", seen(folder), "--allow-anonymous-writes")
    others = (
        windows(f"svc-{at:03d}", "v1", FAST, pods=1, count=1, minutes_ago=2) for at in range(SERVICES - 3)
    )
    rollout = (run("rolling", "v1", -60, -20), run("rolling", "v2", -40, 0, doubled=7))
    canary = (run("canary", "v1", -60, 0), run("canary", "v2", -40, 0, pods=1, doubled=7))
    hot = windows("pay", "v1", SLOW + SLOW.replace("work", "spin"), pods=1, minutes_ago=2, pod=HOT)
    send(served.url, *others, *rollout, *canary, windows("pay", "v1", SLOW, minutes_ago=2), hot)
    for pod in ("pay-v1-0", "pay-v1-1", HOT):
        poll(served, "pay", [], agent=f"agent-{pod}", labels={"service": "pay", "pod": pod})
    return served


def test_three_questions_take_at_most_three_clicks_on_a_fleet_of_300_services(
    serve: Serve, open_page: Open, tmp_path: Path
) -> None:
    served = fleet(serve, tmp_path)
    clicks: list[str] = []

    def click(target: Locator) -> None:
        target.click()
        clicks.append(str(target))

    page = open_page(served.url)
    expect(page.get_by_role("status")).to_contain_text(f"{SERVICES} services")

    # What got slower in version 2, of a rollout and of a canary?
    for service in ("rolling", "canary"):
        page.goto(served.url)
        clicks.clear()
        attention = page.get_by_role("region", name="What needs attention")
        click(attention.get_by_role("link", name=f"{service} v2"))
        expect(page.locator(".culprits tbody tr").first).to_contain_text("step_7")
        assert len(clicks) <= MAX_CLICKS

    # Capture the hot pod now.
    page.goto(served.url)
    clicks.clear()
    click(page.get_by_role("button", name="Capture pay", exact=True))
    hottest = page.get_by_role("list", name="Choose pods").get_by_role("button").first
    expect(hottest).to_contain_text(HOT)
    expect(hottest).to_contain_text("cores")
    click(hottest)
    with page.expect_request(lambda request: request.method == "POST") as asked:
        click(page.get_by_role("dialog").get_by_role("button", name="Start"))
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert asked.value.post_data_json["pods"] == [HOT]
    assert [one["service"] for one in served.get("/api/v1/captures")["captures"]] == ["pay"]
    assert len(clicks) <= MAX_CLICKS

    # What share of production is profiled?
    page.goto(served.url)
    clicks.clear()
    click(page.get_by_role("link", name="Coverage", exact=True))
    expect(page.get_by_role("region", name="Coverage", exact=True)).to_contain_text("pods profiled (")
    assert len(clicks) <= MAX_CLICKS
