"""What the rest of the collector asks about the cluster, and the task that keeps it up to date."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

import structlog

from sidelight_collector.kubernetes_discovery.cluster_cache import Known
from sidelight_collector.kubernetes_discovery.coverage_status import Heard, Standing, counted, groups
from sidelight_collector.kubernetes_discovery.informers import STARTING, Session
from sidelight_collector.kubernetes_discovery.reflector import Api
from sidelight_collector.kubernetes_discovery.rollouts import Rollout, Rollouts, derived
from sidelight_collector.kubernetes_discovery.shared_state import Share, Sight
from sidelight_collector.metrics import Metrics
from sidelight_model.errors import SidelightError

OFF: Final = "off"
STALE: Final = "stale"
TURN_SECONDS: Final = 1.0
WRITE_ANYWAY_SECONDS: Final = 60.0
READ_SECONDS: Final = 3.0
COUNT_SECONDS: Final = 30.0
MOST_NAMESPACES: Final = 200
"""Namespaces that have numbers of their own; those of others are added up."""
OTHERS: Final = "(other)"
_log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Rules:
    """From the settings: what is watched, and for how long a sidecar may say nothing."""

    namespaces: tuple[str, ...] = ()
    most_pods: int = 50_000
    share_seconds: float = 5.0
    silent_seconds: float = 180.0


@dataclass(frozen=True, slots=True)
class Around:
    """What sidecars told: who was heard of when, and the services there are."""

    heard: Heard
    services: frozenset[str]


class Discovery:
    """The cluster as far as it is known; `api` None where none is to be asked.

    `around` tells what sidecars told, for the numbers that are published.
    """

    def __init__(
        self,
        api: Callable[[], Api] | None,
        share: Share,
        rules: Rules,
        metrics: Metrics,
        around: Callable[[], Awaitable[Around]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._api = api
        self._share = share
        self.rules = rules
        self._metrics = metrics
        self._around = around
        self._clock = clock
        self._session: Session | None = None
        self._told: object = None
        self._told_at = 0.0
        self._counted_at = 0.0
        self._rollouts: Rollouts = {}
        self._read_at = 0.0
        self._sight = Sight(OFF if api is None else STARTING, clock())
        self._lock = threading.Lock()
        self._namespaces: set[str] = set()

    @property
    def on(self) -> bool:
        """Whether a cluster is to be watched at all."""
        return self._api is not None

    async def run(self, stop: asyncio.Event) -> None:
        """Watch, or follow whoever does, until `stop` is set: a root task. A failing store is waited for."""
        while not stop.is_set():
            try:
                await asyncio.to_thread(self._turn)
                await self._count()
            except SidelightError as error:
                self._metrics.discovery_errors.labels("store").inc()
                _log.warning("discovery is held up", error=error.message, hint=error.hint)
            try:
                async with asyncio.timeout(TURN_SECONDS):
                    await stop.wait()
            except TimeoutError:
                continue
        await asyncio.to_thread(self._leave)

    def sight(self) -> Sight:
        """What is known of the cluster; blocks while it is read, at most every few seconds."""
        with self._lock:
            session = self._session
            if session is not None:
                return Sight(session.state, self._clock(), session.known(), session.missing())
            now = self._clock()
            if self._api is not None and now >= self._read_at + READ_SECONDS:
                self._read_at = now
                if found := self._share.sight():
                    self._sight = found
            if self._api is not None and self._sight.at < now - 3 * WRITE_ANYWAY_SECONDS:
                return replace(
                    self._sight,
                    state=STALE if self._sight.known.pods else STARTING,
                    problem=f"no collector has told what it sees for {now - self._sight.at:.0f} s",
                    hint="Another takes over after --discovery-lease-seconds; the logs say what keeps them.",
                )
            return self._sight

    def rollouts(self) -> Iterable[Rollout]:
        """The rollouts that are known: as they were read or written last."""
        return self._rollouts.values()

    def _turn(self) -> None:
        if self._api is None:
            return
        with self._lock:
            held = self._share.take()
            if held and self._session is None:
                _log.info("this collector watches the cluster", namespaces=self.rules.namespaces or "all")
                self._session = Session(
                    self._api(), self.rules.namespaces, self.rules.most_pods, self._metrics
                )
            elif not held and self._session is not None:
                self._end()
            session = self._session
        self._metrics.discovery_watching.set(int(session is not None))
        now = self._clock()
        if session is None:
            if now >= self._told_at + WRITE_ANYWAY_SECONDS / 2:
                self._told_at = now
                self._rollouts = self._share.rollouts({})
            return
        told = session.changes
        due = now >= self._told_at + self.rules.share_seconds
        if (due and told != self._told) or now >= self._told_at + WRITE_ANYWAY_SECONDS:
            self._told, self._told_at = told, now
            sight = Sight(session.state, now, session.known(), session.missing())
            self._share.put(sight)
            self._rollouts = self._share.rollouts(derived(sight.known))

    def _leave(self) -> None:
        with self._lock:
            self._end()
            try:
                self._share.leave()
            except SidelightError as error:
                _log.warning("the watch is not given back", error=error.message, hint=error.hint)

    def _end(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None
            _log.info("this collector watches the cluster no longer")

    async def _count(self) -> None:
        """Publish how many pods stand how; a process that does not watch has none."""
        session, now = self._session, self._clock()
        if session is None or now < self._counted_at + COUNT_SECONDS:
            if session is None and self._namespaces:
                self._publish({})
            return
        self._counted_at = now
        around = await self._around()
        known = await asyncio.to_thread(session.known)
        for kind, number in session.counts().items():
            self._metrics.discovery_objects.labels(kind).set(number)
        self._publish(await asyncio.to_thread(self._counts, known, around, now))

    def _counts(self, known: Known, around: Around, now: float) -> dict[str, dict[Standing, int]]:
        found = counted(groups(known, around.heard, now, self.rules.silent_seconds, around.services))
        named = sorted(found, key=lambda name: (-sum(found[name].values()), name))[:MOST_NAMESPACES]
        told: dict[str, dict[Standing, int]] = {name: dict(found[name]) for name in named}
        for name in set(found) - set(named):
            others = told.setdefault(OTHERS, {})
            for standing, number in found[name].items():
                others[standing] = others.get(standing, 0) + number
        return told

    def _publish(self, counts: dict[str, dict[Standing, int]]) -> None:
        gauges = {
            Standing.NO_SIDECAR: self._metrics.pods_without_sidecar,
            Standing.DEAD: self._metrics.pods_with_dead_sidecar,
            Standing.SILENT: self._metrics.pods_with_stale_sidecar,
        }
        # Numbers that several processes publish together cannot be taken back: they become zero.
        for namespace in self._namespaces | set(counts):
            for standing, gauge in gauges.items():
                gauge.labels(namespace).set(counts.get(namespace, {}).get(standing, 0))
        self._namespaces = self._namespaces | set(counts) if counts else set()
