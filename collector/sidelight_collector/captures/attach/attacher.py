"""Attaches a sidecar to pods that have none, for one capture.

On a node with a node agent, the agent samples the pod instead: the claim tells it so, and no container is
added. A pod whose owner opts out is left alone.

Reports a sidecar that does not come up, with the reason, as the failure of its part of the capture.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

import structlog
from ulid import ULID

from sidelight.client_tls import CaBundle
from sidelight.settings import BadSetting
from sidelight_collector.captures.agents import select_eligible_agents
from sidelight_collector.captures.attach.ephemeral_container import (
    AttachFailure,
    AttachTarget,
    build_container,
    build_container_name,
    build_patch,
    explain_rejection,
    find_startup_failure,
)
from sidelight_collector.captures.attach.one_time_tokens import build_agent_name, issue_token
from sidelight_collector.captures.capture import (
    Capture,
    CaptureRequest,
    Claim,
    EphemeralSidecar,
    compute_max_claims,
)
from sidelight_collector.captures.capture_repository import CaptureNotFound
from sidelight_collector.captures.coordinator import CaptureCoordinator
from sidelight_collector.kubernetes_discovery.coverage_status import find_node_agents
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod, parse_pod
from sidelight_collector.kubernetes_discovery.shared_state import ClusterSnapshot
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.select.matchers import is_full_match
from sidelight_kubernetes.api_paths import build_path
from sidelight_kubernetes.kubernetes_client import ClusterError, NotFoundInCluster
from sidelight_kubernetes.label_names import INJECT
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.selectors import Op

POLL_SECONDS: Final = 2.0
TOKEN_SLACK_SECONDS: Final = 600.0
"""How long a token outlives the expected end of its capture.

The sidecar may still have windows to send.
"""
ALL_NAMESPACES: Final = "*"
AGENTS_SECONDS: Final = 10.0
_log = structlog.get_logger()


class PodApi(Protocol):
    """The part of the API server's client that attaching needs."""

    def get(self, path: str, /, **query: str) -> dict[str, Any]: ...

    def patch(self, path: str, body: Mapping[str, Any], /) -> dict[str, Any]: ...


class CannotAttach(SidelightError):
    """No sidecar can be attached for this capture."""

    reason = Reason.FORBIDDEN


@dataclass(frozen=True, slots=True)
class AttachPolicy:
    """Settings of attaching: image, allowed namespaces, collector URL and timeout.

    Without `namespaces` nothing is attached; without `image` only node agents take captures. A sidecar
    sends to `collector_url`, and trusts the authorities in `ca_file` for it, or those of its system.
    """

    image: str
    namespaces: tuple[str, ...]
    collector_url: str
    timeout_seconds: float
    ca_file: Path | None = None

    def read_ca_certificates(self) -> str:
        """Return the certificates of `ca_file` as PEM; empty without a file.

        Raises BadSetting.
        """
        return "" if self.ca_file is None else CaBundle(self.ca_file).export_certificates()

    def allows_namespace(self, namespace: str) -> bool:
        return ALL_NAMESPACES in self.namespaces or namespace in self.namespaces


@dataclass(frozen=True, slots=True)
class _AttachTask:
    """A sidecar to attach."""

    capture: Capture
    target: AttachTarget
    agent: str
    claim_agent: str
    token: str


class Attacher:
    """Attaches sidecars to pods that discovery (`get_snapshot`) has found.

    `start_attaching` only queues them; `run` attaches them.
    """

    def __init__(
        self,
        api: PodApi | None,
        coordinator: CaptureCoordinator,
        get_snapshot: Callable[[], ClusterSnapshot],
        policy: AttachPolicy,
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._coordinator = coordinator
        self._get_snapshot = get_snapshot
        self._policy = policy
        self._metrics = metrics
        self._clock = clock
        self._tasks: asyncio.Queue[_AttachTask] = asyncio.Queue()
        self._lock = threading.Lock()
        self._agents: Mapping[str, Pod] = {}
        self._agents_read_at = 0.0

    @property
    def _client(self) -> PodApi:
        if self._api is None:
            raise _make_disabled_error()
        return self._api

    @property
    def is_enabled(self) -> bool:
        """Return whether pods may be attached to at all."""
        return bool(self._api and self._policy.namespaces)

    def suggest_attach(self, capture_request: CaptureRequest) -> str:
        """Return a hint if a capture found no sidecar but matches unprofiled pods.

        Empty if there are none, or the request attaches already.
        """
        inventory = self._get_snapshot().inventory
        unprofiled = [
            pod
            for pod in inventory.pods
            if _matches_request(pod, capture_request) and _is_unprofiled(pod) and pod.inject_label != "false"
        ]
        if capture_request.attach or not unprofiled:
            return ""
        verb, noun = ("are", "pods") if len(unprofiled) > 1 else ("is", "pod")
        problem = f"There {verb} {len(unprofiled)} {noun} of {capture_request.service} without a sidecar"
        if not self.is_enabled:
            return f"{problem}: GET /api/v1/workloads says what to do."
        if self._build_targets(unprofiled, capture_request, find_node_agents(inventory)):
            return f"{problem}: ask with --attach to sample them for this capture."
        error = self._make_no_candidates_error(capture_request, unprofiled)
        return f"{problem}, and --attach cannot sample them: {error.message}. {error.hint}"

    def find_node_agent(self, node: str) -> str:
        """Return namespace and name of the node agent on a node; empty without one.

        Blocks while the cluster's state is read, at most every `AGENTS_SECONDS`. The last known agents stay
        if it cannot be read.
        """
        with self._lock:
            now = self._clock()
            if now >= self._agents_read_at + AGENTS_SECONDS:
                self._agents_read_at = now
                try:
                    self._agents = find_node_agents(self._get_snapshot().inventory)
                except SidelightError as error:
                    self._metrics.capture_errors.inc()
                    _log.warning("node agents not looked up", error=error.message, hint=error.hint)
            agent = self._agents.get(node)
            return f"{agent.namespace}/{agent.name}" if agent else ""

    async def select_targets(self, capture_request: CaptureRequest) -> list[AttachTarget]:
        """Select the pods to attach to; none if enough sidecars poll.

        Raises CannotAttach if attaching is disabled, or there is neither a sidecar nor a pod to attach one
        to.
        """
        if not capture_request.attach:
            return []
        if not self.is_enabled:
            raise _make_disabled_error()
        polling = self._coordinator.list_agents()
        free = len(
            {
                (a.status.labels.get("pod") or a.status.agent)
                for a in select_eligible_agents(polling, capture_request)
            }
        )
        missing = max(0, compute_max_claims(capture_request, self._coordinator.policy) - free)
        if not missing:
            return []
        places = {
            (a.status.labels.get("namespace", ""), a.status.labels.get("pod", ""))
            for a in polling
            if a.active_capture or not a.dedicated_capture
        }
        pods = await asyncio.to_thread(self._find_candidates, capture_request, places)
        agents = find_node_agents((await asyncio.to_thread(self._get_snapshot)).inventory)
        targets = self._build_targets(pods, capture_request, agents)
        if not targets and not free:
            raise self._make_no_candidates_error(capture_request, pods)
        return random.sample(targets, min(missing, len(targets)))

    def _build_targets(
        self, pods: Iterable[Pod], capture_request: CaptureRequest, agents: Mapping[str, Pod]
    ) -> list[AttachTarget]:
        """Build the targets of those pods that an agent or a sidecar may sample."""
        return [
            target
            for pod in pods
            if self._policy.allows_namespace(pod.namespace)
            and pod.inject_label != "false"
            and pod.containers
            and (not capture_request.container or capture_request.container in pod.containers)
            for target in [_build_target(pod, capture_request, agents.get(pod.node))]
            if target.node_agent or self._policy.image
        ]

    async def start_attaching(self, capture: Capture, targets: Sequence[AttachTarget]) -> Capture:
        """Add the sidecars to their capture, and queue them to be attached."""
        now = self._clock()
        valid_until = now + self._policy.timeout_seconds + capture.request.seconds + TOKEN_SLACK_SECONDS
        claims, tasks = [], []
        for target in targets:
            agent = str(ULID())
            token, secret = issue_token(capture.id, agent)
            if target.node_agent:
                sidecar = EphemeralSidecar("", agent, target.node_agent, "", valid_until)
            else:
                sidecar = EphemeralSidecar(
                    build_container_name(agent), agent, target.uid, secret, valid_until
                )
            name = build_agent_name(sidecar)
            claims.append(Claim(name, target.labels, now, sidecar))
            if not target.node_agent:
                tasks.append(_AttachTask(capture, target, agent, name, token))
        if not claims:
            return capture
        changed = await self._coordinator.add_claims(capture.id, claims)
        claimed = {claim.agent for claim in changed.claims}
        for task in tasks:
            if task.claim_agent in claimed:
                self._tasks.put_nowait(task)
        return changed

    async def run(self, stop: asyncio.Event) -> None:
        """Attach queued sidecars until `stop` is set. A root task."""
        async with asyncio.TaskGroup() as group:
            ending = group.create_task(stop.wait(), name="wait for the end")
            next_task: asyncio.Task[_AttachTask] | None = None
            attaching: set[asyncio.Task[None]] = set()
            while not stop.is_set():
                next_task = group.create_task(self._tasks.get(), name="wait for a pod to attach to")
                await asyncio.wait({ending, next_task}, return_when=asyncio.FIRST_COMPLETED)
                if next_task.done():
                    task = group.create_task(self._attach(next_task.result()), name="attach a sidecar")
                    attaching.add(task)
                    task.add_done_callback(attaching.discard)
            if next_task is not None:
                next_task.cancel()
            for task in attaching:
                task.cancel()

    async def _attach(self, task: _AttachTask) -> None:
        """Attach a sidecar and watch it until its first report.

        A failure becomes the report of its part of the capture.
        """
        target, name = task.target, build_container_name(task.agent)
        try:
            failure = await self._patch_pod(task)
            if failure is None:
                _log.info(
                    "sidecar attached", capture=task.capture.id, pod=target.pod, namespace=target.namespace
                )
                failure = await self._wait_for_report(task, name)
            self._metrics.ephemeral_attaches.labels(failure.outcome if failure else "attached").inc()
            if failure is not None:
                _log.warning("sidecar not attached", capture=task.capture.id, problem=failure.problem)
                await self._coordinator.fail_part(
                    task.capture.id, task.claim_agent, failure.problem, failure.hint
                )
        except CaptureNotFound:
            return
        except SidelightError as error:
            _log.warning("sidecar not looked after", error=error.message, hint=error.hint)

    async def _patch_pod(self, task: _AttachTask) -> AttachFailure | None:
        target = task.target
        try:
            certificates = await asyncio.to_thread(self._policy.read_ca_certificates)
        except BadSetting as error:
            return AttachFailure("failed", error.message, "Check --attach-ca-file of the collector.")
        variables = {"SIDELIGHT_ONE_SHOT_TOKEN": task.token, "SIDELIGHT_CA_CERTIFICATES": certificates}
        container_spec = build_container(
            target,
            task.agent,
            self._policy.image,
            self._policy.collector_url,
            variables,
            task.capture.request,
        )
        try:
            await asyncio.to_thread(
                self._client.patch, f"{target.api_path}/ephemeralcontainers", build_patch(container_spec)
            )
        except ClusterError as error:
            return explain_rejection(error, target)
        return None

    async def _wait_for_report(self, task: _AttachTask, name: str) -> AttachFailure | None:
        """Wait for the sidecar's first report, or for the end of its capture.

        Returns why the sidecar failed to start, or None. After the timeout it returns None too: the state
        of the capture's part then says that the sidecar never reported.
        """
        started_at = self._clock()
        while (elapsed_seconds := self._clock() - started_at) < self._policy.timeout_seconds:
            await asyncio.sleep(POLL_SECONDS)
            if self._coordinator.has_reported_or_ended(task.capture.id, task.claim_agent):
                return None
            try:
                pod = await asyncio.to_thread(self._client.get, task.target.api_path)
            except NotFoundInCluster as error:
                return explain_rejection(error, task.target)
            except ClusterError:
                continue
            if failure := find_startup_failure(pod, name, task.target, self._policy.image, elapsed_seconds):
                return failure
        return None

    def _find_candidates(
        self, capture_request: CaptureRequest, polling: AbstractSet[tuple[str, str]]
    ) -> list[Pod]:
        """Find running pods that a capture request selects and that nothing samples.

        `polling` are the namespaces and names of pods for which a sidecar or an agent polls. One that was
        attached for an earlier capture does not count once that has ended.
        """
        snapshot = self._get_snapshot()
        candidates = [
            pod
            for pod in snapshot.inventory.pods
            if _matches_request(pod, capture_request)
            and _is_unprofiled(pod)
            and (pod.namespace, pod.name) not in polling
        ]
        if candidates or not isinstance(capture_request.pods, tuple) or self._api is None:
            return candidates
        # A role without permission to list pods may still allow to get a pod by name.
        namespaces = [name for name in self._policy.namespaces if name != ALL_NAMESPACES] or [
            matcher.value
            for matcher in capture_request.selector.matchers
            if matcher.name == "namespace" and matcher.op is Op.EQUAL
        ]
        for namespace in namespaces:
            for name in capture_request.pods:
                try:
                    raw = self._api.get(build_path("pods", namespace=namespace, name=name))
                except ClusterError:
                    continue
                pod = parse_pod(raw)
                if _matches_request(pod, capture_request) and _is_unprofiled(pod):
                    candidates.append(pod)
        return candidates

    def _make_no_candidates_error(self, capture_request: CaptureRequest, pods: Sequence[Pod]) -> CannotAttach:
        """Build the error that says why there is no pod to attach to."""
        snapshot = self._get_snapshot()
        if pods and all(pod.inject_label == "false" for pod in pods):
            return CannotAttach(
                f"the pods of {capture_request.service} without a sidecar have the label {INJECT}=false",
                hint="The label excludes them from captures: ask their owner to remove it.",
            )
        other_namespaces = sorted(
            {pod.namespace for pod in pods if not self._policy.allows_namespace(pod.namespace)}
        )
        if other_namespaces:
            return CannotAttach(
                f"pods of {capture_request.service} without a sidecar run in "
                f"{', '.join(other_namespaces[:5])}, where none may "
                "be attached",
                hint="Add it to --attach-namespaces (the chart's kubernetes.attachNamespaces).",
            )
        if (
            pods
            and capture_request.container
            and not any(capture_request.container in pod.containers for pod in pods)
        ):
            containers = sorted({name for pod in pods for name in pod.containers})
            return CannotAttach(
                f"no pod of {capture_request.service} has a container {capture_request.container}",
                reason=Reason.NOT_FOUND,
                hint=f"They have {', '.join(containers[:10])}.",
            )
        if pods and not self._policy.image:
            return CannotAttach(
                f"no node agent runs on the nodes of the pods of {capture_request.service}",
                hint="Install one there, or allow sidecars: --attach-image (the chart's kubernetes.attach).",
            )
        if not snapshot.inventory.pods:
            return CannotAttach(
                f"the collector sees no pods ({snapshot.state}), so it cannot tell which of "
                f"{capture_request.service} "
                "lack a sidecar",
                hint="Name the pod and its namespace (--pods NAME --query 'namespace=\"NS\"'), or allow the "
                "collector to list pods: GET /api/v1/workloads says how.",
            )
        return CannotAttach(
            f"no running pod of {capture_request.service} without a sidecar has the requested "
            "labels or names",
            reason=Reason.NOT_FOUND,
            hint="GET /api/v1/workloads lists the pods that are known, and how they stand.",
        )


def _make_disabled_error() -> CannotAttach:
    return CannotAttach(
        "sidecars are not attached here",
        hint="Start the collector with --kubernetes and --attach-namespaces. Where no node agent runs, it "
        "also needs --attach-image and --attach-collector-url (the chart's kubernetes.attach).",
    )


def _matches_request(pod: Pod, capture_request: CaptureRequest) -> bool:
    if pod.service != capture_request.service or (
        isinstance(capture_request.pods, tuple) and pod.name not in capture_request.pods
    ):
        return False
    return capture_request.selector.matches(_build_target(pod, capture_request).labels, is_full_match)


def _is_unprofiled(pod: Pod) -> bool:
    """Return whether the pod runs and has no sidecar that profiles it."""
    sidecar = pod.sidecar
    has_no_sidecar = sidecar is None or (sidecar.origin == "ephemeral" and sidecar.state == "terminated")
    return has_no_sidecar and pod.phase == "Running" and not pod.has_ended


def _build_target(pod: Pod, capture_request: CaptureRequest, agent: Pod | None = None) -> AttachTarget:
    container = capture_request.container or pod.sampled_container
    if agent is None:
        container = container or next(iter(pod.containers), "")
    return AttachTarget(
        pod.namespace,
        pod.name,
        pod.uid,
        pod.node,
        pod.service,
        pod.version,
        container,
        agent.uid if agent else "",
    )
