"""What a collector has of a cluster, made from its settings: discovery, and who was heard of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from aiohttp import web

from sidelight_collector.answers.last_seen import presence
from sidelight_collector.answers.timeline import Rolled
from sidelight_collector.auth.authorizer import Guard
from sidelight_collector.captures.attacher import Attacher, AttachRules
from sidelight_collector.captures.capture_repository import Shelf
from sidelight_collector.captures.coordinator import Desk
from sidelight_collector.captures.one_time_tokens import OneTime
from sidelight_collector.captures.routes import Captures
from sidelight_collector.kubernetes_discovery.rollouts import within
from sidelight_collector.kubernetes_discovery.routes import routes, told
from sidelight_collector.kubernetes_discovery.shared_state import Share
from sidelight_collector.kubernetes_discovery.watcher import Around, Discovery, Rules
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_collector.settings.collector import Settings
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.times import SECOND_NS
from sidelight_kubernetes.kubernetes_client import Cluster
from sidelight_model.errors import SidelightError
from sidelight_model.selectors import Selector

AROUND_SECONDS: Final = 10.0
"""Who was heard of is asked for at most so often."""


@dataclass(frozen=True, slots=True)
class Clustered:
    """Discovery and the routes that tell of it; `rolled` tells the rollouts that belong to a question."""

    discovery: Discovery
    attacher: Attacher
    routes: list[web.RouteDef]
    rolled: Callable[[Question], Sequence[Rolled]]


def clustered(
    settings: Settings,
    store: ObjectStore,
    engine: QueryEngine,
    captures: Captures,
    metrics: Metrics,
    cluster: Cluster | None,
) -> Clustered:
    """All of it; without a cluster it says that it is off."""
    on = cluster is not None and settings.discovery
    rules = Rules(
        settings.discovery_namespaces,
        settings.discovery_max_pods,
        settings.discovery_publish_interval_seconds,
        settings.discovery_stale_seconds,
    )
    heard = Hearing(engine, captures.desk, settings.discovery_stale_seconds)
    share = Share(store, settings.discovery_lease_seconds, settings.discovery_max_rollouts)
    api: Callable[[], Cluster] | None = (lambda: cluster) if on and cluster else None
    discovery = Discovery(api, share, rules, metrics, heard.around)

    def rolled(question: Question) -> Sequence[Rolled]:
        begin, end = question.from_ns / SECOND_NS, question.until_ns / SECOND_NS
        return [told(one) for one in within(discovery.rollouts(), question.selector, begin, end)]

    attach = AttachRules(
        settings.attach_image,
        settings.attach_namespaces,
        settings.attach_collector_url.rstrip("/"),
        settings.attach_wait_seconds,
    )
    attacher = Attacher(cluster, captures.desk, discovery.sight, attach, metrics)
    captures.attacher, captures.desk.advice = attacher, attacher.advice
    return Clustered(discovery, attacher, routes(discovery, heard.around), rolled)


def guarded(guard: Guard, attacher: Attacher, shelf: Shelf) -> Guard:
    """The guard, which lets in sidecars that were attached too."""
    return replace(guard, attached=OneTime(shelf)) if attacher.on else guard


def opened_cluster(settings: Settings) -> Cluster | None:
    """The cluster that the settings name. Raises BadSetting."""
    serves = settings.role != "compactor"
    return Cluster.open(settings.kubernetes) if settings.in_cluster and serves else None


class Hearing:
    """Who was heard of: sidecars that ask for orders, and those whose windows came."""

    def __init__(self, engine: QueryEngine, desk: Desk, seconds: float) -> None:
        self._engine = engine
        self._desk = desk
        self._seconds = seconds
        self._known = Around({}, frozenset())
        self._at = float("-inf")
        self._one = asyncio.Lock()

    async def around(self) -> Around:
        """What is known now, at most some seconds old; the last that was known while the store is away."""
        async with self._one:
            if time.monotonic() < self._at + AROUND_SECONDS:
                return self._known
            now = time.time()
            question = Question(
                Selector(), int((now - self._seconds - 60) * SECOND_NS), int((now + 60) * SECOND_NS)
            )
            try:
                await self._desk.learn_agents()
                came = await self._engine.ask(partial(presence, question=question))
            except SidelightError:
                return self._known
            heard, services = dict(came.pods), set(came.services)
            for agent in self._desk.all_agents():
                labels = agent.status.labels
                place = labels.get("namespace", ""), labels.get("pod", "")
                heard[place] = max(agent.last_seen, heard.get(place, 0.0))
                services.add(labels["service"])
            self._known, self._at = Around(heard, frozenset(services)), time.monotonic()
            return self._known
