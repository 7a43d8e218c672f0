"""The rest of the collector's access to the cluster, and the task that watches it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import structlog

from sidelight.waiting import wait_for_event
from sidelight_collector.kubernetes_discovery.cluster_cache import ClusterInventory
from sidelight_collector.kubernetes_discovery.coverage_status import (
    CoverageState,
    LastSeenByPod,
    count_by_namespace,
    group_by_workload,
)
from sidelight_collector.kubernetes_discovery.informers import STARTING, ClusterInformers
from sidelight_collector.kubernetes_discovery.rollouts import Rollout, RolloutsByKey, derive_rollouts
from sidelight_collector.kubernetes_discovery.shared_state import ClusterSnapshot, SharedClusterState
from sidelight_collector.metrics import Metrics
from sidelight_kubernetes.reflector import ListWatchApi
from sidelight_model.errors import SidelightError

OFF: Final = "off"
STALE: Final = "stale"
TICK_SECONDS: Final = 1.0
MAX_WRITE_INTERVAL_SECONDS: Final = 60.0
READ_SECONDS: Final = 3.0
COUNT_SECONDS: Final = 30.0
MAX_NAMESPACES: Final = 200
"""Maximum number of namespaces with metrics of their own.

The metrics of the others are added up.
"""
OTHER_NAMESPACES: Final = "(other)"
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class DiscoveryPolicy:
    """Which namespaces are watched, and when a sidecar is stale, from the settings."""

    namespaces: tuple[str, ...] = ()
    max_pods: int = 50_000
    write_interval_seconds: float = 5.0
    stale_seconds: float = 180.0


@dataclass(frozen=True, slots=True)
class SidecarActivity:
    """When sidecars were last seen, and the services with stored profiles.

    `services` has pairs of namespace and service, `by_agent` of namespace and pod: those that a node agent
    samples now.
    """

    last_seen: LastSeenByPod
    services: frozenset[tuple[str, str]]
    by_agent: frozenset[tuple[str, str]] = frozenset()

    @property
    def service_names(self) -> frozenset[str]:
        return frozenset(service for _, service in self.services)

    def select_namespaces(self, is_selected: Callable[[str], bool]) -> SidecarActivity:
        """Return the activity in the selected namespaces alone."""
        return SidecarActivity(
            {place: at for place, at in self.last_seen.items() if is_selected(place[0])},
            frozenset(pair for pair in self.services if is_selected(pair[0])),
            frozenset(pair for pair in self.by_agent if is_selected(pair[0])),
        )


class ClusterDiscovery:
    """The cluster as far as it is known; `api` is None if none is to be watched.

    `load_activity` returns what sidecars have reported, for the published metrics.
    """

    def __init__(
        self,
        api: Callable[[], ListWatchApi] | None,
        shared_state: SharedClusterState,
        policy: DiscoveryPolicy,
        metrics: Metrics,
        load_activity: Callable[[], Awaitable[SidecarActivity]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._shared_state = shared_state
        self.policy = policy
        self._metrics = metrics
        self._load_activity = load_activity
        self._clock = clock
        self._informers: ClusterInformers | None = None
        self._written_token: object = None
        self._written_at = 0.0
        self._counted_at = 0.0
        self._rollouts: RolloutsByKey = {}
        self._read_at = 0.0
        self._snapshot = ClusterSnapshot(OFF if api is None else STARTING, clock())
        self._lock = threading.Lock()
        self._published_namespaces: set[str] = set()

    @property
    def is_enabled(self) -> bool:
        """Return whether a cluster is to be watched at all."""
        return self._api is not None

    async def run(self, stop: asyncio.Event) -> None:
        """Watch the cluster, or follow the process that does, until `stop` is set.

        A root task. It retries if the store fails.
        """
        while not stop.is_set():
            try:
                await asyncio.to_thread(self._tick)
                await self._update_metrics()
            except SidelightError as error:
                self._metrics.discovery_errors.labels("store").inc()
                _log.warning("discovery is held up", error=error.message, hint=error.hint)
            await wait_for_event(stop, TICK_SECONDS)
        await asyncio.to_thread(self._release)

    def get_snapshot(self) -> ClusterSnapshot:
        """Return what is known of the cluster.

        Blocks while the snapshot is read, at most every `READ_SECONDS`.
        """
        with self._lock:
            informers = self._informers
            if informers is not None:
                return ClusterSnapshot(
                    informers.status, self._clock(), informers.get_inventory(), informers.list_problems()
                )
            now = self._clock()
            if self._api is not None and now >= self._read_at + READ_SECONDS:
                self._read_at = now
                if snapshot := self._shared_state.get_snapshot():
                    self._snapshot = snapshot
            if self._api is not None and self._snapshot.observed_at < now - 3 * MAX_WRITE_INTERVAL_SECONDS:
                return replace(
                    self._snapshot,
                    state=STALE if self._snapshot.inventory.pods else STARTING,
                    problem="no collector has published the cluster's state for "
                    f"{now - self._snapshot.observed_at:.0f} s",
                    hint="Another takes over after --discovery-lease-seconds; the logs say what keeps them.",
                )
            return self._snapshot

    def list_rollouts(self) -> Iterable[Rollout]:
        """Return the known rollouts, as last read or written."""
        return self._rollouts.values()

    def _tick(self) -> None:
        if self._api is None:
            return
        with self._lock:
            is_holder = self._shared_state.lease.try_acquire()
            if is_holder and self._informers is None:
                _log.info("this collector watches the cluster", namespaces=self.policy.namespaces or "all")
                self._informers = ClusterInformers(
                    self._api(), self.policy.namespaces, self.policy.max_pods, self._metrics
                )
            elif not is_holder and self._informers is not None:
                self._close_informers()
            informers = self._informers
        self._metrics.discovery_watching.set(int(informers is not None))
        now = self._clock()
        if informers is None:
            if now >= self._written_at + MAX_WRITE_INTERVAL_SECONDS / 2:
                self._written_at = now
                self._rollouts = self._shared_state.add_rollouts({})
            return
        change_token = informers.change_token
        is_write_due = now >= self._written_at + self.policy.write_interval_seconds
        if (
            is_write_due and change_token != self._written_token
        ) or now >= self._written_at + MAX_WRITE_INTERVAL_SECONDS:
            self._written_token, self._written_at = change_token, now
            snapshot = ClusterSnapshot(
                informers.status, now, informers.get_inventory(), informers.list_problems()
            )
            self._shared_state.put_snapshot(snapshot)
            self._rollouts = self._shared_state.add_rollouts(derive_rollouts(snapshot.inventory))

    def _release(self) -> None:
        with self._lock:
            self._close_informers()
            try:
                self._shared_state.lease.release()
            except SidelightError as error:
                _log.warning("the watch is not given back", error=error.message, hint=error.hint)

    def _close_informers(self) -> None:
        if self._informers is not None:
            self._informers.close()
            self._informers = None
            _log.info("this collector watches the cluster no longer")

    async def _update_metrics(self) -> None:
        """Publish the number of pods by state, if this process watches the cluster."""
        informers, now = self._informers, self._clock()
        if informers is None or now < self._counted_at + COUNT_SECONDS:
            if informers is None and self._published_namespaces:
                self._set_gauges({})
            return
        self._counted_at = now
        activity = await self._load_activity()
        inventory = await asyncio.to_thread(informers.get_inventory)
        for kind, number in informers.count_objects().items():
            self._metrics.discovery_objects.labels(kind).set(number)
        self._set_gauges(await asyncio.to_thread(self._count_pods, inventory, activity, now))

    def _count_pods(
        self, inventory: ClusterInventory, activity: SidecarActivity, now: float
    ) -> dict[str, dict[CoverageState, int]]:
        by_namespace = count_by_namespace(
            group_by_workload(
                inventory, activity.last_seen, now, self.policy.stale_seconds, activity.service_names
            )
        )
        separate = sorted(by_namespace, key=lambda name: (-sum(by_namespace[name].values()), name))[
            :MAX_NAMESPACES
        ]
        totals: dict[str, dict[CoverageState, int]] = {name: dict(by_namespace[name]) for name in separate}
        for name in set(by_namespace) - set(separate):
            others = totals.setdefault(OTHER_NAMESPACES, {})
            for state, number in by_namespace[name].items():
                others[state] = others.get(state, 0) + number
        return totals

    def _set_gauges(self, counts: dict[str, dict[CoverageState, int]]) -> None:
        gauges = {
            CoverageState.NO_SIDECAR: self._metrics.pods_without_sidecar,
            CoverageState.DEAD: self._metrics.pods_with_dead_sidecar,
            CoverageState.STALE: self._metrics.pods_with_stale_sidecar,
        }
        # Metrics that several processes share cannot be removed: they are set to zero.
        for namespace in self._published_namespaces | set(counts):
            for state, gauge in gauges.items():
                gauge.labels(namespace).set(counts.get(namespace, {}).get(state, 0))
        self._published_namespaces = self._published_namespaces | set(counts) if counts else set()
