"""The pages about a fleet of 300 services and 7,000 pods stay cheap: reads of the store, sizes of answers."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from sidelight_collector.kubernetes_discovery.k8s_objects import ResourceKind
from sidelight_model.window import Window
from tests.collector.api_client import serving
from tests.collector.clusters import pod
from tests.collector.counting_store import Counting
from tests.collector.stored_windows import stored, window
from tests.collector.test_discovery_api import PATH, Everything, collector, seen

SERVICES, PODS, SEGMENT_WINDOWS = 300, 7_000, 1_000
NAMES = [f"svc-{at:03}" for at in range(SERVICES)]
QUESTIONS: dict[str, dict[str, str]] = {
    "overview": {"type": "cpu", "label": "team"},
    "heatmap": {"query": f'{{service=~"{"|".join(NAMES[:40])}"}}', "rows": "service", "step": "300"},
    "sidecars": {},
    "functions": {"search": "json.dumps", "by": "total", "limit": "100"},
    "labels/service/values": {},
}
"""What the pages ask for."""
MOST_BYTES = 12_000
"""Of an answer, compressed."""


def segment(first: int) -> Iterator[Window]:
    """Windows of so many pods, of all services in turn."""
    for at in range(first, first + SEGMENT_WINDOWS):
        own = at % SERVICES
        yield window(
            f"main (a.py:1);dumps (json/__init__.py:230) {5 + own % 9} | main (a.py:1);f{own} (x.py:1) {own}",
            service=NAMES[own],
            pod=f"pod-{at}",
            namespace=f"ns-{own % 20}",
            team=f"team-{own % 12}",
        )


async def test_pages_about_the_fleet_read_each_segment_once_and_send_little() -> None:
    store = Counting(stored(*(segment(first) for first in range(0, PODS, SEGMENT_WINDOWS))))
    async with serving(store) as client:
        for path, given in QUESTIONS.items():
            async with client.get(f"/api/v1/{path}", params=given | {"from": "-2h"}) as response:
                content = await response.read()
                assert response.status == 200, content
                assert len(zlib.compress(content)) <= MOST_BYTES, path
        answer = await (await client.get("/api/v1/overview", params={"from": "-2h"})).json()
        assert (len(answer["service"]), sum(answer["pods"])) == (SERVICES, PODS)
        # Windows once, and samples with their stacks once, for all pages together.
        assert sum(store.gets.values()) <= 2 * PODS // SEGMENT_WINDOWS + 1


async def test_coverage_lists_every_workload_of_a_large_cluster() -> None:
    api = Everything()
    for at in range(PODS):
        profiled = "running" if at % 4 else ""
        api.put(ResourceKind.PODS, pod(f"pod-{at}", owner=NAMES[at % SERVICES], sidecar=profiled))
    async with collector(api) as (client, _):
        await seen(client, limit="1")
        async with client.get(PATH, params={"limit": "5000", "pods": "3"}) as response:
            content = await response.read()
            answer = await response.json()
    assert len(zlib.compress(content)) <= MOST_BYTES
    assert (answer["total"], len(answer["workloads"])) == (SERVICES, SERVICES)
    assert sum(each["pod_counts"]["total"] for each in answer["workloads"]) == PODS
    # The pod to attach a sidecar to is among the few that each workload names.
    assert all(
        each["pods"][0]["status"] == "no_sidecar"
        for each in answer["workloads"]
        if each["pod_counts"]["no_sidecar"]
    )
