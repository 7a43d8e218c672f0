"""Build the cluster features of a collector from its settings.

These are discovery, attached sidecars, and the recent activity of sidecars.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from sidelight_collector.answers.last_seen import query_last_seen
from sidelight_collector.answers.timeline import VersionRollout
from sidelight_collector.auth.authorizer import Authorizer
from sidelight_collector.captures.attach.attacher import Attacher, AttachPolicy
from sidelight_collector.captures.attach.one_time_tokens import OneTimeTokenVerifier
from sidelight_collector.captures.capture_repository import CaptureRepository
from sidelight_collector.captures.coordinator import CaptureCoordinator
from sidelight_collector.captures.routes import CaptureRoutes
from sidelight_collector.kubernetes_discovery.rollouts import select_rollouts
from sidelight_collector.kubernetes_discovery.routes import build_workload_routes, rollout_to_json
from sidelight_collector.kubernetes_discovery.shared_state import SharedClusterState
from sidelight_collector.kubernetes_discovery.watcher import (
    ClusterDiscovery,
    DiscoveryPolicy,
    SidecarActivity,
)
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.times import SECOND_NS
from sidelight_kubernetes.kubernetes_client import KubernetesClient
from sidelight_model.errors import SidelightError
from sidelight_model.selectors import Selector

REFRESH_SECONDS: Final = 10.0
"""Minimum time between two refreshes of the recent activity."""


@dataclass(frozen=True, slots=True)
class ClusterFeatures:
    """Discovery with its routes, and the attacher of sidecars.

    `find_rollouts` returns the rollouts in the time range of a query that match its selector.
    """

    discovery: ClusterDiscovery
    attacher: Attacher
    routes: list[web.RouteDef]
    find_rollouts: Callable[[WindowQuery], Sequence[VersionRollout]]


def build_cluster_features(
    settings: Settings,
    store: ObjectStore,
    engine: QueryEngine,
    captures: CaptureRoutes,
    metrics: Metrics,
    cluster: KubernetesClient | None,
) -> ClusterFeatures:
    """Build all cluster features; without a cluster they report that they are off.

    Raises BadSetting if --attach-ca-file cannot be used.
    """
    is_enabled = cluster is not None and settings.discovery
    rules = DiscoveryPolicy(
        settings.discovery_namespaces,
        settings.discovery_max_pods,
        settings.discovery_publish_interval_seconds,
        settings.discovery_stale_seconds,
    )
    recent_activity = RecentActivity(engine, captures.coordinator, settings.discovery_stale_seconds)
    share = SharedClusterState(store, settings.discovery_lease_seconds, settings.discovery_max_rollouts)
    api: Callable[[], KubernetesClient] | None = (lambda: cluster) if is_enabled and cluster else None
    discovery = ClusterDiscovery(api, share, rules, metrics, recent_activity.get_current)

    def find_rollouts(question: WindowQuery) -> Sequence[VersionRollout]:
        begin, end = question.from_ns / SECOND_NS, question.until_ns / SECOND_NS
        return [
            rollout_to_json(one)
            for one in select_rollouts(discovery.list_rollouts(), question.selector, begin, end)
        ]

    attach = AttachPolicy(
        settings.attach_image,
        settings.attach_namespaces,
        settings.attach_collector_url.rstrip("/"),
        settings.attach_wait_seconds,
        settings.attach_ca_file,
    )
    attach.read_ca_certificates()
    attacher = Attacher(cluster, captures.coordinator, discovery.get_snapshot, attach, metrics)
    captures.attacher, captures.coordinator.suggest_alternative = attacher, attacher.suggest_attach
    return ClusterFeatures(
        discovery, attacher, build_workload_routes(discovery, recent_activity.get_current), find_rollouts
    )


def allow_one_time_tokens(
    authorizer: Authorizer, attacher: Attacher, repository: CaptureRepository
) -> Authorizer:
    """Let the authorizer accept one-time tokens of attached sidecars; return it."""
    if attacher.is_enabled:
        authorizer.one_time_identities = OneTimeTokenVerifier(repository)
    return authorizer


def open_cluster(settings: Settings) -> KubernetesClient | None:
    """Open a client of the configured cluster, if any. Raises BadSetting."""
    serves = settings.role != "compactor"
    return KubernetesClient.open(settings.kubernetes) if settings.in_cluster and serves else None


class RecentActivity:
    """Recently active sidecars: those that poll for capture jobs or ship windows."""

    def __init__(self, engine: QueryEngine, coordinator: CaptureCoordinator, stale_seconds: float) -> None:
        self._engine = engine
        self._coordinator = coordinator
        self._stale_seconds = stale_seconds
        self._cached = SidecarActivity({}, frozenset())
        self._cached_at = float("-inf")
        self._refresh_lock = asyncio.Lock()

    async def get_current(self) -> SidecarActivity:
        """Return the activity, at most REFRESH_SECONDS old.

        While the store is unavailable, it returns the last activity.
        """
        async with self._refresh_lock:
            if time.monotonic() < self._cached_at + REFRESH_SECONDS:
                return self._cached
            now = time.time()
            question = WindowQuery(
                Selector(), int((now - self._stale_seconds - 60) * SECOND_NS), int((now + 60) * SECOND_NS)
            )
            try:
                await self._coordinator.load_remote_agents()
                came = await self._engine.run(partial(query_last_seen, query=question))
            except SidelightError:
                return self._cached
            heard, services, by_agent = dict(came.pods), set(came.services), set[tuple[str, str]]()
            for agent in self._coordinator.list_agents():
                labels = agent.status.labels
                place = labels.get("namespace", ""), labels.get("pod", "")
                heard[place] = max(agent.last_seen, heard.get(place, 0.0))
                services.add((place[0], labels["service"]))
                if agent.status.node_agent:
                    by_agent.add(place)
            self._cached = SidecarActivity(heard, frozenset(services), frozenset(by_agent))
            self._cached_at = time.monotonic()
            return self._cached
