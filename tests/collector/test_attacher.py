"""What an attached sidecar gets from the collector; tests/cluster attaches them to real pods."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from sidelight_collector.auth.write_identity import WriterIdentity
from sidelight_collector.captures.agents import AgentRegistry
from sidelight_collector.captures.attach.attacher import (
    AGENTS_SECONDS,
    TOKEN_SLACK_SECONDS,
    Attacher,
    AttachPolicy,
    CannotAttach,
)
from sidelight_collector.captures.attach.ephemeral_container import AttachTarget
from sidelight_collector.captures.capture import Capture, CapturePolicy, CaptureRequest, Claim
from sidelight_collector.captures.capture_repository import CaptureRepository
from sidelight_collector.captures.coordinator import CaptureCoordinator
from sidelight_collector.kubernetes_discovery.cluster_cache import ClusterInventory
from sidelight_collector.kubernetes_discovery.k8s_objects import parse_pod
from sidelight_collector.kubernetes_discovery.shared_state import ClusterSnapshot
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.objects import StoreError
from sidelight_model.capture_protocol import (
    AgentPoll,
    AgentPollResponse,
    AgentStatus,
    CaptureReport,
    CaptureState,
)
from sidelight_model.labels import Labels
from sidelight_model.selectors import Selector
from sidelight_sidecar.captures.agent_status import NodeAgentNotice
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.settings import parse_sidecar_settings
from tests.cluster.pki import Authority
from tests.collector.clusters import pod
from tests.collector.test_captures import made
from tests.collector.test_captures_coordinator import no_windows

TARGET = AttachTarget("shop", "shop-1", "u-1", "node-1", "shop", "2", "app")


class FakeApi:
    """Takes every patch."""

    def __init__(self) -> None:
        self.containers: list[Mapping[str, Any]] = []

    def get(self, path: str, /, **query: str) -> dict[str, Any]:
        return {}

    def patch(self, path: str, body: Mapping[str, Any], /) -> dict[str, Any]:
        self.containers += body["spec"]["ephemeralContainers"]
        return {}


class FakeCoordinator:
    """Claims every sidecar, and keeps why one failed."""

    def __init__(self, capture: Capture) -> None:
        self.capture = capture
        self.problems: list[str] = []

    async def add_claims(self, capture_id: str, claims: Sequence[Claim]) -> Capture:
        return replace(self.capture, claims=tuple(claims))

    def has_reported_or_ended(self, capture_id: str, agent: str) -> bool:
        return True

    async def fail_part(self, capture_id: str, agent: str, problem: str, hint: str) -> None:
        self.problems.append(problem)


async def attach(ca_file: Path | None) -> tuple[FakeApi, FakeCoordinator]:
    """Attach one sidecar; what the API server and the capture were told."""
    api, coordinator = FakeApi(), FakeCoordinator(made())
    policy = AttachPolicy("image", ("shop",), "https://collector:8080", 60.0, ca_file)
    known = cast("CaptureCoordinator", coordinator)
    attacher = Attacher(api, known, cast("Callable[[], Any]", None), policy, Metrics())
    stop = asyncio.Event()
    running = asyncio.create_task(attacher.run(stop))
    await attacher.start_attaching(coordinator.capture, [TARGET])
    async with asyncio.timeout(60):
        while not (api.containers or coordinator.problems):
            await asyncio.sleep(0.01)
        stop.set()
        await running
    return api, coordinator


async def test_an_attached_sidecar_trusts_the_authorities_of_the_collector(tmp_path: Path) -> None:
    authority = Authority(tmp_path).certificate
    api, _ = await attach(authority)
    [container] = api.containers
    variables = {one["name"]: one["value"] for one in container["env"]}
    settings = parse_sidecar_settings(container["args"][1:], variables)
    assert settings.ca_certificates == authority.read_text()
    assert len(settings.open_ca_bundle().get_context().get_ca_certs()) == 1


async def test_without_a_file_it_trusts_those_of_its_system() -> None:
    api, _ = await attach(None)
    assert [one["name"] for one in api.containers[0]["env"]] == ["SIDELIGHT_ONE_SHOT_TOKEN"]


async def test_a_file_that_is_gone_is_the_failure_of_the_capture(tmp_path: Path) -> None:
    api, coordinator = await attach(tmp_path / "none")
    assert api.containers == []
    assert coordinator.problems[0].startswith("cannot read the CA certificates in ")


AGENT = pod("agent-n1", namespace="agents", labels={"app.kubernetes.io/name": "sidelight"})
AGENT["metadata"]["ownerReferences"][0]["kind"] = "DaemonSet"
AGENT["spec"]["containers"][0]["name"] = "agent"


class Cluster:
    """A collector that attaches to these pods, on nodes with or without an agent."""

    def __init__(
        self, *pods: dict[str, Any], image: str = "image", namespaces: tuple[str, ...] = ("shop",)
    ) -> None:
        self.repository = CaptureRepository(MemoryStore())
        metrics = Metrics()
        self.coordinator = CaptureCoordinator(
            self.repository,
            CapturePolicy(),
            metrics,
            no_windows,
            agents=AgentRegistry(100),
            poll_timeout_seconds=60,
            check_interval_seconds=60,
        )
        snapshot = ClusterSnapshot("watching", 0.0, ClusterInventory(tuple(map(parse_pod, pods))))
        policy = AttachPolicy(image, namespaces, "http://c", 60.0)
        self.attacher = Attacher(FakeApi(), self.coordinator, lambda: snapshot, policy, metrics)

    async def capture(self, **wishes: Any) -> Capture:
        wish = CaptureRequest("shop", "", Selector(), "all", 60.0, 100, "auto", True, True, **wishes)
        targets = await self.attacher.select_targets(wish)
        capture = await self.coordinator.start(wish)
        return await self.attacher.start_attaching(capture, targets)

    async def ask(
        self, name: str, seconds: float = 0.0, attached: tuple[str, ...] = (), **status: Any
    ) -> AgentPollResponse:
        """What the node agent with this pod gets: as itself, or for a pod."""
        for_node = not status
        labels = Labels({"service": "shop", **status} if status else {"node": "n1"})
        poll = AgentPoll(AgentStatus(name, labels, ready=True), seconds, (), for_node, attached)
        return await self.coordinator.handle_poll(poll)


def qualify(agent: str, pod_uid: str = "u-agents-agent-n1") -> str:
    return WriterIdentity("", "", pod_uid).qualify_agent_name(agent)


async def test_a_pod_on_a_node_with_an_agent_is_sampled_by_the_agent() -> None:
    elsewhere = pod("b")
    elsewhere["spec"]["nodeName"] = "n2"
    cluster = Cluster(AGENT, pod("a"), elsewhere)
    waiting = asyncio.create_task(cluster.ask(qualify("node"), 60.0))
    await asyncio.sleep(0)
    capture = await cluster.capture()
    by_pod = {claim.labels["pod"]: claim.ephemeral_sidecar for claim in capture.claims}
    assert by_pod["b"] is not None
    assert not by_pod["b"].is_node_agent
    [attachment] = (await asyncio.wait_for(waiting, 60)).attachments
    assert (attachment.capture, attachment.namespace, attachment.pod) == (capture.id, "shop", "a")
    # The difference of two times of today is exact to a microsecond.
    assert 60 < attachment.seconds < 60 + 60 + TOKEN_SLACK_SECONDS + 0.001
    for stranger in (qualify("node", "u-other"), "node"):
        assert not await cluster.ask(stranger), "another pod's token learns nothing"
    name = qualify(attachment.agent)
    [job] = (await cluster.ask(name, namespace="shop", pod="a")).capture_jobs
    assert job.capture == capture.id
    report = CaptureReport(capture.id, CaptureState.SAMPLING)
    await cluster.coordinator.handle_poll(
        AgentPoll(AgentStatus(name, Labels({"service": "shop"})), 0.0, (report,))
    )
    assert not await cluster.ask(qualify("node")), "it has begun"


async def test_whoever_opts_out_is_left_alone_and_only_agents_attach_without_an_image() -> None:
    refused = pod("a", labels={"sidelight.dev/inject": "false"})
    for pods, image, namespaces, says in (
        ((AGENT, refused), "image", ("shop",), "have the label sidelight.dev/inject=false"),
        ((pod("a"),), "", ("shop",), "no node agent runs on the nodes of the pods of shop"),
        ((AGENT, pod("a")), "", ("cart",), "run in shop, where none may be attached"),
        ((AGENT, pod("a")), "", (), "sidecars are not attached here"),
    ):
        with pytest.raises(CannotAttach, match=says):
            await Cluster(*pods, image=image, namespaces=namespaces).capture()
    capture = await Cluster(AGENT, pod("a"), refused, image="").capture()
    assert [claim.labels["pod"] for claim in capture.claims] == ["a"]


async def test_a_pod_for_which_somebody_polls_is_not_attached_to() -> None:
    cluster = Cluster(AGENT, pod("a"), pod("b"))
    await cluster.ask("polls", namespace="shop", pod="a")
    capture = await cluster.capture()
    assert {claim.labels["pod"]: bool(claim.ephemeral_sidecar) for claim in capture.claims} == {
        "a": False,
        "b": True,
    }


async def finish_by_agent(cluster: Cluster, capture: Capture) -> str:
    """Take the capture of pod a through its node agent to its end; the name of its poller."""
    [attachment] = (await cluster.ask(qualify("node"))).attachments
    assert (attachment.capture, attachment.pod) == (capture.id, "a")
    name = qualify(attachment.agent)
    labels = Labels({"service": "shop", "namespace": "shop", "pod": "a"})
    status = AgentStatus(name, labels, ready=True, only_capture=capture.id)
    [job] = (await cluster.coordinator.handle_poll(AgentPoll(status))).capture_jobs
    assert job.capture == capture.id
    for state in (CaptureState.SAMPLING, CaptureState.DONE):
        await cluster.coordinator.handle_poll(AgentPoll(status, 0.0, (CaptureReport(capture.id, state),)))
    return name


async def test_captures_that_attach_to_one_pod_in_turn_get_an_attachment_each() -> None:
    cluster = Cluster(AGENT, pod("a"))
    first = await cluster.capture()
    name = await finish_by_agent(cluster, first)
    second = await cluster.capture()
    assert [claim.labels["pod"] for claim in second.claims] == ["a"]
    assert second.claims[0].agent != name
    assert await finish_by_agent(cluster, second) != name


@pytest.mark.parametrize("end", ["stop", "delete"])
async def test_a_node_agent_learns_that_a_capture_ended_before_its_pod_was_sampled(end: str) -> None:
    cluster = Cluster(AGENT, pod("a"))
    capture = await cluster.capture()
    assert (await cluster.ask(qualify("node"))).attachments
    waiting = asyncio.create_task(cluster.ask(qualify("node"), 60.0, (capture.id,)))
    # The poll waits before the event loop takes up what was scheduled later.
    await asyncio.sleep(0)
    assert not waiting.done()
    await getattr(cluster.coordinator, end)(capture.id)
    response = await asyncio.wait_for(waiting, 60)
    assert (response.stop_captures, response.attachments) == ((capture.id,), ())
    again = await cluster.capture()
    response = await cluster.ask(qualify("node"), 0.0, (capture.id, again.id))
    assert response.stop_captures == (capture.id,)
    assert [one.capture for one in response.attachments] == [again.id]


async def test_a_capture_without_attach_gets_no_pod_that_another_attached() -> None:
    cluster = Cluster(AGENT, pod("a"))
    name = await finish_by_agent(cluster, await cluster.capture())
    wish = CaptureRequest("shop", "", Selector(), "all", 60.0, 100, "auto", True)
    capture = await cluster.coordinator.start(wish)
    labels = Labels({"service": "shop", "namespace": "shop", "pod": "a"})
    status = AgentStatus(name, labels, ready=True, only_capture="c_of_before")
    assert not await cluster.coordinator.handle_poll(AgentPoll(status))
    assert (await asyncio.to_thread(cluster.repository.get, capture.id)).claims == ()


async def test_a_missing_image_is_not_called_a_missing_container() -> None:
    with pytest.raises(CannotAttach, match="no node agent runs on the nodes of the pods of shop"):
        await Cluster(pod("a"), image="").capture(container="app")
    with pytest.raises(CannotAttach, match="no pod of shop has a container other"):
        await Cluster(AGENT, pod("a"), image="").capture(container="other")


async def test_a_collector_says_which_agent_leaves_a_pod_to_its_sidecar() -> None:
    attacher = Cluster(AGENT, pod("a", sidecar="running")).attacher
    assert attacher.find_node_agent("n1") == "agents/agent-n1"
    assert attacher.find_node_agent("n2") == ""


async def test_the_last_known_agents_count_while_the_store_is_away() -> None:
    now = [0.0]
    snapshots = iter([ClusterSnapshot("watching", 0.0, ClusterInventory((parse_pod(AGENT),)))])

    def get_snapshot() -> ClusterSnapshot:
        try:
            return next(snapshots)
        except StopIteration:
            raise StoreError("no disk") from None

    metrics, coordinator = Metrics(), Cluster().coordinator
    policy = AttachPolicy("", (), "", 60.0)
    attacher = Attacher(None, coordinator, get_snapshot, policy, metrics, lambda: now[0])
    for now[0] in (AGENTS_SECONDS, 2 * AGENTS_SECONDS, 2.5 * AGENTS_SECONDS):
        assert attacher.find_node_agent("n1") == "agents/agent-n1"
    assert metrics.registry.get_sample_value("sidelight_capture_errors_total") == 1


@pytest.mark.parametrize(
    ("pods", "image", "namespaces", "says"),
    [
        ((AGENT, pod("a")), "", ("shop",), "ask with --attach"),
        ((pod("a"),), "image", ("shop",), "ask with --attach"),
        ((pod("a"),), "", ("shop",), "--attach cannot sample them: no node agent runs on the nodes"),
        ((AGENT, pod("a")), "", ("cart",), "--attach cannot sample them: pods of shop without a sidecar run"),
        ((AGENT, pod("a")), "image", (), "GET /api/v1/workloads says what to do"),
    ],
)
async def test_attaching_is_offered_where_it_can_work(
    pods: tuple[dict[str, Any], ...], image: str, namespaces: tuple[str, ...], says: str
) -> None:
    wish = CaptureRequest("shop", "", Selector(), "all", 60.0, 100, "auto", True)
    hint = Cluster(*pods, image=image, namespaces=namespaces).attacher.suggest_attach(wish)
    assert hint.startswith("There is 1 pod of shop without a sidecar")
    assert says in hint


def test_a_sidecar_says_that_an_agent_leaves_the_pod_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = SidecarMetrics()
    notice = NodeAgentNotice(metrics)

    def read(agent: str) -> float | None:
        for _ in range(2):
            notice.update(AgentPollResponse(node_agent=agent))
        return metrics.registry.get_sample_value("sidelight_sidecar_displaces_agent")

    assert read("agents/agent-n1") == 1
    assert read("") == 0
    said = capsys.readouterr().out
    assert said.count("this sidecar samples the pod, and the node agent leaves it alone") == 1
    assert "agents/agent-n1" in said
