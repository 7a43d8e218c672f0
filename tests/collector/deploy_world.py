"""Deploys of real windows in a real store, looked after by as many collectors as a test asks for."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor, Future
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import sqrt
from random import Random
from typing import Any, TypeVar

from sidelight_collector.deploys.deploy import Deploy, DeployPolicy
from sidelight_collector.deploys.deploy_detector import DeployContext
from sidelight_collector.deploys.deploy_repository import DeployRepository
from sidelight_collector.deploys.evaluation import Analyser
from sidelight_collector.deploys.evaluator import DeployEvaluator, Notifier
from sidelight_collector.deploys.rate_limiter import AnalysisRateLimiter
from sidelight_collector.kubernetes_discovery.rollouts import Rollout, RunningVersion
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import MANIFEST_CACHE_DIVISOR, run_until_complete
from sidelight_collector.query.query_cache import ListingCache, TableCache
from sidelight_collector.query.query_context import Deadline, QueryContext
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lease import Leases
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.window import Window
from tests.collector.stored_windows import START_NS, stored, window

Answer = TypeVar("Answer")

START = START_NS / 10**9
MINUTE = 60.0
HOUR = 3600.0
DAY = 86_400.0
LEASE_SECONDS = 120.0
RULES = DeployPolicy()
LIMITS = QueryLimits(timeout_seconds=300)


class SameThread(Executor):
    """An executor that runs what it is given at once, in the thread that asks."""

    def submit(self, work: Callable[..., Answer], /, *given: Any, **named: Any) -> Future[Answer]:
        done: Future[Answer] = Future()
        try:
            done.set_result(work(*given, **named))
        except Exception as error:  # noqa: BLE001 - as other executors do
            done.set_exception(error)
        return done


class Asked:
    """Queries of one store, answered as the engine does, but in the thread of the test."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._cache = TableCache(LIMITS.cache_bytes)
        self._listings = ListingCache(LIMITS.cache_bytes // MANIFEST_CACHE_DIVISOR)
        self._pool = SameThread()
        self.cpu_seconds = 0.0
        self.fails: Callable[[], None] = lambda: None

    def __call__(self, answer: Callable[[QueryContext], Answer]) -> Answer:
        self.fails()
        begin = time.thread_time()
        deadline = Deadline(LIMITS.timeout_seconds)
        reading = QueryContext(self._store, self._cache, self._pool, deadline, listings=self._listings)
        try:
            return run_until_complete(answer, reading)
        finally:
            self.cpu_seconds = time.thread_time() - begin


_encoded: dict[tuple[object, ...], list[tuple[str, bytes]]] = {}
"""Objects of windows that a test stored, by what they were made of."""


@dataclass
class World:
    """A store, and a clock that stands still until it is told otherwise; seconds from START."""

    store: ObjectStore = field(default_factory=MemoryStore)
    at: float = 0.0

    @property
    def now(self) -> float:
        return START + self.at

    def ships(
        self,
        version: str,
        start: float,
        until: float,
        *,
        text: str | Callable[[str, float], str] = "main (app.py:1) 10 | main (app.py:1);[idle] 90",
        pods: Iterable[str] = ("a", "b", "c"),
        step: float = 60.0,
        **labels: str,
    ) -> None:
        """Windows of pods of a version, one after the other without a gap, in a segment for each hour."""
        if not isinstance(text, str):
            self._write(version, start, until, text, pods, step, labels)
            return
        # Many tests begin with the same windows: they are encoded once.
        key = (version, start, until, text, tuple(pods), step, *sorted(labels.items()))
        if key not in _encoded:
            other = World()
            other._write(version, start, until, text, pods, step, labels)
            _encoded[key] = [(entry.key, other.store.get(entry.key)) for entry in other.store.list("")]
        for name, content in _encoded[key]:
            self.store.put(name, content, if_absent=True)

    def _write(
        self,
        version: str,
        start: float,
        until: float,
        text: str | Callable[[str, float], str],
        pods: Iterable[str],
        step: float,
        labels: Mapping[str, str],
    ) -> None:
        segments: dict[int, list[Window]] = {}
        at = start
        while at < until:
            for pod in pods:
                name = f"{version}-{pod}"
                told = text if isinstance(text, str) else text(name, at)
                one = window(told, at=at, seconds=step, version=version, pod=name, **labels)
                segments.setdefault(int(at // HOUR), []).append(one)
            at += step
        stored(*segments.values(), store=self.store)

    @property
    def shelf(self) -> DeployRepository:
        return DeployRepository(self.store)

    def deploys(self) -> list[Deploy]:
        """All there are, whole, the newest first."""
        with closing(self.shelf) as shelf:
            return [shelf.get(one.id) for one in shelf.list_newest(1000, lambda _: True)]

    def readable(self) -> list[Deploy]:
        """Those that can be read, without their verdicts."""
        with closing(self.shelf) as shelf:
            return shelf.list_newest(1000, lambda _: True)

    def only(self) -> Deploy:
        """The one there is."""
        (one,) = self.deploys()
        return one


class Looker:
    """One collector that looks after deploys."""

    def __init__(
        self,
        world: World,
        judge: Analyser | None = None,
        rules: DeployPolicy = RULES,
        *,
        alerts: Notifier | None = None,
        rollouts: Iterable[Rollout] = (),
        running: Iterable[RunningVersion] = (),
        leased: bool = True,
        pace: AnalysisRateLimiter | None = None,
        keep_days: float = 90,
    ) -> None:
        self.world = world
        self.metrics = Metrics()
        self.ask = Asked(world.store)
        self.shelf = DeployRepository(world.store)
        context = DeployContext(
            self.shelf,
            self.ask,
            rules,
            self.metrics,
            pace or AnalysisRateLimiter(1000, 1000.0, world.at),
            keep_days,
            lambda: rollouts,
            lambda: running,
            clock=lambda: world.now,
            timer=lambda: world.at,
        )
        self.watch = DeployEvaluator(
            context,
            judge,
            interval_seconds=60,
            notifier=alerts,
            leases=Leases(world.store, LEASE_SECONDS, timer=lambda: world.at) if leased else None,
        )

    def until(self, at: float, step: float = 60.0) -> None:
        """Let time pass until a moment, and look as often as a collector does."""
        while self.world.at < at:
            self.world.at = min(at, self.world.at + step)
            self.watch.run_once()

    def dies(self) -> None:
        """Be gone without giving anything back."""
        self.shelf.close()

    def ends(self) -> None:
        """End as a collector does that is told to."""
        self.watch.release()
        self.shelf.close()

    def value(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        return self.metrics.registry.get_sample_value(name, labels) or 0.0


def working(cores: float, seed: int = 1, seconds: float = 60.0) -> Callable[[str, float], str]:
    """Windows of pods that work so much on average: each pod has its share, and each window its chance."""
    shares: dict[str, float] = {}

    def text(pod: str, at: float) -> str:
        if pod not in shares:
            shares[pod] = Random(f"{seed} {pod}").gauss(1.0, 0.02)
        luck = Random(f"{seed} {pod} {at}")
        ticks = round(seconds * 100)
        busy = max(3, round(luck.gauss(cores * shares[pod] * ticks, sqrt(cores * ticks))))
        parts = [
            ("serve (app.py:1);json (json.py:9)", busy // 3),
            ("serve (app.py:1);query (db.py:5)", busy // 3),
        ]
        parts += [
            ("serve (app.py:1)", busy - 2 * (busy // 3)),
            ("serve (app.py:1);[idle]", max(1, ticks - busy)),
        ]
        return " | ".join(f"{stack} {count}" for stack, count in parts)

    return text


def states(deploys: Iterable[Deploy]) -> Mapping[str, str]:
    """How each version stands."""
    return {one.version: str(one.state) for one in deploys}


def given(rules: DeployPolicy, **changes: Any) -> DeployPolicy:
    return replace(rules, **changes)


def ships_until_now(ago: float, until: float, version: str, text: Callable[[str, float], str]) -> World:
    """A store with windows of a version between two ages in seconds, for collectors with a real clock."""
    world = World()
    now = int(time.time() - START)
    world.ships(version, now - ago, now - until, text=text, pods="abcd")
    return world
