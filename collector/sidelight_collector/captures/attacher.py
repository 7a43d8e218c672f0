"""Attaches a sidecar to pods that have none, for one capture, and says why one does not come up."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog
from ulid import ULID

from sidelight_collector.captures.agents import able
from sidelight_collector.captures.capture import Attached, Capture, Claim, Wish, most_claims
from sidelight_collector.captures.capture_repository import NoCapture
from sidelight_collector.captures.coordinator import Desk
from sidelight_collector.captures.ephemeral_container import (
    Place,
    Trouble,
    body,
    container,
    container_name,
    refused,
    trouble,
)
from sidelight_collector.captures.one_time_tokens import attached_name, issue
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod, read_pod
from sidelight_collector.kubernetes_discovery.shared_state import Sight
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.select.matchers import fullmatch
from sidelight_kubernetes.kubernetes_client import ClusterError, NotFoundInCluster
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.selectors import Op

LOOK_SECONDS: Final = 2.0
SLACK_SECONDS: Final = 600.0
"""A token is good for so much longer than its capture should take: for what waits to be sent."""
EVERYWHERE: Final = "*"
_log = structlog.get_logger()


class Api(Protocol):
    """What is asked of an API server."""

    def get(self, path: str, /, **query: str) -> dict[str, Any]: ...

    def patch(self, path: str, body: Mapping[str, Any], /) -> dict[str, Any]: ...


class NotAttached(SidelightError):
    """No sidecar can be attached for this capture."""

    reason = Reason.FORBIDDEN


@dataclass(frozen=True, slots=True)
class AttachRules:
    """From the settings: the image (empty: nothing is attached), where, and how the sidecar finds back."""

    image: str
    namespaces: tuple[str, ...]
    collector: str
    wait_seconds: float

    def allows(self, namespace: str) -> bool:
        return EVERYWHERE in self.namespaces or namespace in self.namespaces


@dataclass(frozen=True, slots=True)
class _Task:
    """A sidecar to attach."""

    capture: Capture
    place: Place
    agent: str
    name: str
    token: str


class Attacher:
    """Attaches; `sight` is what discovery knows. Nothing is attached until `run` runs."""

    def __init__(
        self,
        api: Api | None,
        desk: Desk,
        sight: Callable[[], Sight],
        rules: AttachRules,
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._desk = desk
        self._sight = sight
        self._rules = rules
        self._metrics = metrics
        self._clock = clock
        self._tasks: asyncio.Queue[_Task] = asyncio.Queue()

    @property
    def _cluster(self) -> Api:
        if self._api is None:
            raise _off()
        return self._api

    @property
    def on(self) -> bool:
        """Whether sidecars may be attached at all."""
        return bool(self._api and self._rules.image)

    def advice(self, wish: Wish) -> str:
        """What to do where no sidecar took a capture, and there are pods that have none."""
        sight = self._sight()
        found = [pod for pod in sight.known.pods if _is_meant(pod, wish) and _is_bare(pod)]
        if wish.attach or not found:
            return ""
        many = f"{len(found)} pod{'s' if len(found) > 1 else ''} of {wish.service} without a sidecar"
        if self.on and any(self._rules.allows(pod.namespace) for pod in found):
            return f"There {'are' if len(found) > 1 else 'is'} {many}: ask with --attach to attach one."
        return f"There {'are' if len(found) > 1 else 'is'} {many}: GET /api/v1/workloads says what to do."

    async def plan(self, wish: Wish) -> list[Place]:
        """The pods to attach to for a capture, none where enough sidecars ask for work.

        Raises NotAttached where there is neither a sidecar nor a pod to attach one to.
        """
        if not wish.attach:
            return []
        if not self.on:
            raise _off()
        free = len(
            {(a.status.labels.get("pod") or a.status.agent) for a in able(self._desk.all_agents(), wish)}
        )
        need = max(0, most_claims(wish, self._desk.rules) - free)
        if not need:
            return []
        pods = await asyncio.to_thread(self._candidates, wish)
        places = [
            _place(pod, wish)
            for pod in pods
            if self._rules.allows(pod.namespace)
            and pod.containers
            and (not wish.container or wish.container in pod.containers)
        ]
        if not places and not free:
            raise self._nothing(wish, pods)
        return random.sample(places, min(need, len(places)))

    async def begin(self, capture: Capture, places: Sequence[Place]) -> Capture:
        """Write the sidecars into their capture; they are attached from now on."""
        now = self._clock()
        until = now + self._rules.wait_seconds + capture.wish.seconds + SLACK_SECONDS
        claims, tasks = [], []
        for place in places:
            agent = str(ULID())
            token, secret = issue(capture.id, agent)
            attached = Attached(container_name(agent), agent, place.uid, secret, until)
            name = attached_name(attached)
            claims.append(Claim(name, place.labels, now, attached))
            tasks.append(_Task(capture, place, agent, name, token))
        if not claims:
            return capture
        changed = await self._desk.claim(capture.id, claims)
        taken = {claim.agent for claim in changed.claims}
        for task in tasks:
            if task.name in taken:
                self._tasks.put_nowait(task)
        return changed

    async def run(self, stop: asyncio.Event) -> None:
        """Attach until `stop` is set: a root task."""
        async with asyncio.TaskGroup() as group:
            ending = group.create_task(stop.wait(), name="wait for the end")
            taking: asyncio.Task[_Task] | None = None
            working: set[asyncio.Task[None]] = set()
            while not stop.is_set():
                taking = group.create_task(self._tasks.get(), name="wait for a pod to attach to")
                await asyncio.wait({ending, taking}, return_when=asyncio.FIRST_COMPLETED)
                if taking.done():
                    task = group.create_task(self._attach(taking.result()), name="attach a sidecar")
                    working.add(task)
                    task.add_done_callback(working.discard)
            if taking is not None:
                taking.cancel()
            for task in working:
                task.cancel()

    async def _attach(self, task: _Task) -> None:
        """Attach one and look after it until it is heard of; why it fails is its part of the capture."""
        place, wish, name = task.place, task.capture.wish, container_name(task.agent)
        made = container(place, task.agent, self._rules.image, self._rules.collector, task.token, wish)
        try:
            found = await self._patched(place, made)
            if found is None:
                _log.info(
                    "sidecar attached", capture=task.capture.id, pod=place.pod, namespace=place.namespace
                )
                found = await self._watched(task, name)
            self._metrics.ephemeral_attaches.labels(found.outcome if found else "attached").inc()
            if found is not None:
                _log.warning("sidecar not attached", capture=task.capture.id, problem=found.problem)
                await self._desk.fail(task.capture.id, task.name, found.problem, found.hint)
        except NoCapture:
            return
        except SidelightError as error:
            _log.warning("sidecar not looked after", error=error.message, hint=error.hint)

    async def _patched(self, place: Place, made: Mapping[str, Any]) -> Trouble | None:
        try:
            await asyncio.to_thread(self._cluster.patch, f"{place.path}/ephemeralcontainers", body(made))
        except ClusterError as error:
            return refused(error, place)
        return None

    async def _watched(self, task: _Task, name: str) -> Trouble | None:
        """Wait until it is heard of; None then, or when nobody needs it any more."""
        began = self._clock()
        while (since := self._clock() - began) < self._rules.wait_seconds:
            await asyncio.sleep(LOOK_SECONDS)
            if self._desk.heard(task.capture.id, task.name):
                return None
            try:
                pod = await asyncio.to_thread(self._cluster.get, task.place.path)
            except NotFoundInCluster as error:
                return refused(error, task.place)
            except ClusterError:
                continue
            if found := trouble(pod, name, task.place, self._rules.image, since):
                return found
        return None

    def _candidates(self, wish: Wish) -> list[Pod]:
        """Running pods without a sidecar that a capture asks for."""
        sight = self._sight()
        found = [pod for pod in sight.known.pods if _is_meant(pod, wish) and _is_bare(pod)]
        if found or not isinstance(wish.pods, tuple) or self._api is None:
            return found
        # Who may not list pods may still get one that is named.
        spaces = [one for one in self._rules.namespaces if one != EVERYWHERE] or [
            one.value for one in wish.selector.matchers if one.name == "namespace" and one.op is Op.EQUAL
        ]
        for namespace in spaces:
            for name in wish.pods:
                try:
                    raw = self._api.get(f"/api/v1/namespaces/{namespace}/pods/{name}")
                except ClusterError:
                    continue
                pod = read_pod(raw)
                if _is_meant(pod, wish) and _is_bare(pod):
                    found.append(pod)
        return found

    def _nothing(self, wish: Wish, pods: Sequence[Pod]) -> NotAttached:
        """Why there is nothing to attach to."""
        sight = self._sight()
        elsewhere = sorted({pod.namespace for pod in pods if not self._rules.allows(pod.namespace)})
        if elsewhere:
            return NotAttached(
                f"pods of {wish.service} without a sidecar run in {', '.join(elsewhere[:5])}, where none may "
                "be attached",
                hint="Add it to --attach-namespaces (the chart's kubernetes.attachNamespaces).",
            )
        if pods and wish.container:
            known = sorted({name for pod in pods for name in pod.containers})
            return NotAttached(
                f"no pod of {wish.service} has a container {wish.container}",
                reason=Reason.NOT_FOUND,
                hint=f"They have {', '.join(known[:10])}.",
            )
        if not sight.known.pods:
            return NotAttached(
                f"the collector sees no pods ({sight.state}), so it cannot tell which of {wish.service} "
                "lack a sidecar",
                hint="Name the pod and its namespace (--pods NAME --query 'namespace=\"NS\"'), or allow the "
                "collector to list pods: GET /api/v1/workloads says how.",
            )
        return NotAttached(
            f"no running pod of {wish.service} without a sidecar has the labels or names asked for",
            reason=Reason.NOT_FOUND,
            hint="GET /api/v1/workloads lists the pods that are known, and how they stand.",
        )


def _off() -> NotAttached:
    return NotAttached(
        "sidecars are not attached here",
        hint="Start the collector with --kubernetes, --attach-image, --attach-namespaces and "
        "--attach-collector-url; the chart's kubernetes.attach=true does.",
    )


def _is_meant(pod: Pod, wish: Wish) -> bool:
    if pod.service != wish.service or (isinstance(wish.pods, tuple) and pod.name not in wish.pods):
        return False
    return wish.selector.matches(_place(pod, wish).labels, fullmatch)


def _is_bare(pod: Pod) -> bool:
    """Whether it runs, and nothing profiles it."""
    sidecar = pod.sidecar
    gone = sidecar is None or (sidecar.origin == "ephemeral" and sidecar.state == "terminated")
    return gone and pod.phase == "Running" and not pod.over


def _place(pod: Pod, wish: Wish) -> Place:
    target = wish.container or pod.sampled_container or next(iter(pod.containers), "")
    return Place(pod.namespace, pod.name, pod.uid, pod.node, pod.service, pod.version, target)
