"""The pollers of a node agent: which pods have one, and which captures it takes."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sidelight_model.capture_protocol import (
    AgentPoll,
    AgentPollResponse,
    AgentStatus,
    Attachment,
    CaptureJob,
)
from sidelight_model.labels import Labels
from sidelight_sidecar.agent import pod_captures
from sidelight_sidecar.agent.pod_captures import PodCapturePollers
from sidelight_sidecar.captures import capture_poller
from sidelight_sidecar.captures.capture_poller import CapturePoller
from sidelight_sidecar.captures.capture_tasks import MakePoller
from sidelight_sidecar.captures.remote_capture import CaptureContext
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.sampling.process_watcher import SampledProcesses
from sidelight_sidecar.shipping.collector_client import Reply
from sidelight_sidecar.windows.window_builder import TargetLabels
from tests.sidecar.test_agent_pods import Node, pod, process


class Collector:
    """Answers each poll at once with what there is for its agent; keeps the last status of each."""

    def __init__(self) -> None:
        self.statuses: dict[str, AgentStatus] = {}
        self.responses: dict[str, AgentPollResponse] = {}

    async def request(self, method: str, path: str, body: bytes, *rest: Any, **options: Any) -> Reply:
        await asyncio.sleep(0)
        status = AgentPoll.parse(json.loads(body)).status
        self.statuses[status.agent] = status
        response = self.responses.get(status.agent, AgentPollResponse())
        return Reply(200, json.dumps(response.to_json()).encode(), None)


class Sampled:
    """Processes of these pods, sampled until the next scan; counts how often they are looked at."""

    def __init__(self, *pods: str) -> None:
        self.looks = 0
        labels = [Labels({"service": name, "namespace": "shop", "pod": f"{name}-1"}) for name in pods]
        self._samplers = [SimpleNamespace(target_labels=TargetLabels(one, "main", 1)) for one in labels]

    @property
    def process_samplers(self) -> list[Any]:
        self.looks += 1
        return self._samplers


async def test_an_attached_pod_has_a_poller_for_its_capture_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_captures, "_CHECK_SECONDS", 0.01)
    monkeypatch.setattr(capture_poller, "_REPORT_SECONDS", 0.01)
    node, collector, sampled = Node(pod("cart"), pod("plain", None)), Collector(), Sampled("cart", "plain")
    node.attached.receive(
        AgentPollResponse(attachments=(Attachment("c_1", "attached", "shop", "plain-1", 60.0),))
    )
    procs = (process(10, "cart"), process(11, "plain"))
    assert sorted(node.roles(*procs)) == [10, 11]
    made: dict[str, CapturePoller] = {}

    def make_poller(
        agent: str, labels: Labels, processes: SampledProcesses, *, only_capture: str = "", **_: bool
    ) -> CapturePoller:
        status = AgentStatus(agent, labels, ready=True, only_capture=only_capture)
        parts: Any = SimpleNamespace(
            client=collector,
            metrics=SidecarMetrics(),
            clock=asyncio.get_running_loop().time,
            rng=lambda: 0.0,
            max_backoff_seconds=0.01,
        )
        context = cast("CaptureContext", parts)
        made[agent] = CapturePoller(
            context, lambda: status, poll_timeout_seconds=0.0, only_capture=only_capture
        )
        return made[agent]

    watched = cast("SampledProcesses", sampled)
    pollers = PodCapturePollers(watched, make_poller, node.attached, node.targets.is_profiled)
    # Another capture's job is refused; its own was cancelled before the job was sent.
    collector.responses["attached"] = AgentPollResponse((CaptureJob("c_other"),), ("c_1",))
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(pollers.run())
        while len(collector.statuses) < 2 or node.attached.find("shop", "plain-1"):
            await asyncio.sleep(0.01)
        # Its processes are still sampled, before and after the scan learns of it.
        for _ in range(2):
            looks = sampled.looks
            while sampled.looks < looks + 3:
                await asyncio.sleep(0.01)
            node.roles(*procs)
        assert not made["attached"].has_started("c_other")
        pollers.drain()
    only = {status.labels["pod"]: status.only_capture for status in collector.statuses.values()}
    assert only == {"cart-1": "", "plain-1": "c_1"}
    assert len(made) == 2, "no ordinary poller for a pod that did not ask"


def test_an_attachment_without_a_process_ends_with_its_capture() -> None:
    node = Node(pod("plain", None))
    pollers = PodCapturePollers(
        cast("SampledProcesses", Sampled()),
        cast("MakePoller", None),
        node.attached,
        node.targets.is_profiled,
    )
    first, second = (Attachment(f"c_{at}", f"attached-{at}", "shop", "plain-1", 60.0) for at in (1, 2))
    pollers.receive(AgentPollResponse(attachments=(first, second)))
    assert pollers.list_waiting() == ("c_1", "c_2")
    assert node.attached.find("shop", "plain-1") == first
    pollers.receive(AgentPollResponse(stop_captures=("c_1",)))
    assert pollers.list_waiting() == ("c_2",)
    assert node.attached.find("shop", "plain-1") == second
