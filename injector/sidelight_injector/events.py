"""Record a Kubernetes Event when a pod gets no sidecar.

The Event is about the pod's owner if it has one, so that it appears there. Rate and memory are bounded.
"""

from __future__ import annotations

import asyncio
import datetime
from collections import OrderedDict
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any, Final

import structlog

from sidelight_injector.admission.skip_reasons import Skip
from sidelight_injector.metrics import Metrics
from sidelight_kubernetes.api_paths import build_path
from sidelight_kubernetes.kubernetes_client import KubernetesClient
from sidelight_model.errors import SidelightError

MAX_QUEUED_EVENTS: Final = 100
MAX_DEDUPLICATED_EVENTS: Final = 1024
EVENT_REASON: Final = "SidelightNotInjected"
COMPONENT: Final = "sidelight-injector"
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_injector")


class EventRecorder:
    """A queue of Events that are written one at a time.

    Events that do not fit into the queue are counted and dropped.
    """

    def __init__(
        self,
        cluster: KubernetesClient,
        executor: Executor,
        metrics: Metrics,
        clock: Callable[[], float],
        *,
        per_minute: int,
        repeat_seconds: float,
    ) -> None:
        self._cluster = cluster
        self._executor = executor
        self._metrics = metrics
        self._clock = clock
        self._interval_seconds = 60 / per_minute
        self._repeat_seconds = repeat_seconds
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MAX_QUEUED_EVENTS)
        self._repeat_after: OrderedDict[tuple[str, ...], float] = OrderedDict()

    def record(self, namespace: str, pod: Mapping[str, Any], skip: Skip) -> None:
        """Queue an Event, unless an equal one was queued in the last `repeat_seconds`."""
        about = build_involved_object(namespace, pod)
        key = (namespace, about["kind"], about.get("uid") or about["name"], skip.reason)
        now = self._clock()
        if now < self._repeat_after.get(key, now):
            self._count_outcome("repeated")
            return
        if self._queue.full():
            self._count_outcome("dropped")
            return
        self._repeat_after[key] = now + self._repeat_seconds
        self._repeat_after.move_to_end(key)
        if len(self._repeat_after) > MAX_DEDUPLICATED_EVENTS:
            self._repeat_after.popitem(last=False)
        self._queue.put_nowait(build_event(namespace, about, skip, datetime.datetime.now(datetime.UTC)))

    async def run(self) -> None:
        """Write queued Events forever."""
        while True:
            event = await self._queue.get()
            loop = asyncio.get_running_loop()
            try:
                path = build_path("events", namespace=event["metadata"]["namespace"])
                await loop.run_in_executor(self._executor, self._cluster.create, path, event)
                self._count_outcome("written")
            except SidelightError as error:
                self._count_outcome("failed")
                _log.warning("an event was not written", problem=error.message, hint=error.hint)
            await asyncio.sleep(self._interval_seconds)

    def _count_outcome(self, outcome: str) -> None:
        self._metrics.events.labels(outcome).inc()


def build_involved_object(namespace: str, pod: Mapping[str, Any]) -> dict[str, str]:
    """Return the object of the Event: the pod's owner, or else the pod.

    Most pods have no name yet during admission.
    """
    metadata = pod.get("metadata") or {}
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            parts = {name: str(owner[name]) for name in ("apiVersion", "kind", "name", "uid")}
            return {**parts, "namespace": namespace}
    name = metadata.get("name") or metadata.get("generateName") or "pod"
    return {"apiVersion": "v1", "kind": "Pod", "name": str(name), "namespace": namespace}


def build_event(
    namespace: str, involved_object: Mapping[str, str], skip: Skip, now: datetime.datetime
) -> dict[str, Any]:
    """Build the Event as JSON."""
    time = now.strftime("%Y-%m-%dT%H:%M:%SZ")
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"generateName": "sidelight-", "namespace": namespace},
        "involvedObject": dict(involved_object),
        "type": "Warning",
        "reason": EVENT_REASON,
        "message": f"Sidelight did not inject its sidecar. {skip.message}",
        "source": {"component": COMPONENT},
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
    }
