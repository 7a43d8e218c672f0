"""Deploys of real windows in a real store, looked after by as many collectors as a test asks for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass, field, replace
from math import sqrt
from random import Random
from typing import Any, TypeVar

from sidelight.collector.deploys.deploy import Deploy, Rules
from sidelight.collector.deploys.judging import Judge
from sidelight.collector.deploys.pace import Pace
from sidelight.collector.deploys.shelf import Shelf
from sidelight.collector.deploys.watch import Alerts, Watch
from sidelight.collector.discovery.rollouts import Rollout
from sidelight.collector.metrics import Metrics
from sidelight.collector.query.engine import QueryEngine
from sidelight.collector.query.limits import QueryLimits
from sidelight.collector.query.reading import Reading
from sidelight.collector.store.lease import Leases
from sidelight.collector.store.memory import MemoryStore
from sidelight.collector.store.objects import ObjectStore
from sidelight.stacks.window import Window
from tests.collector.storing import START_NS, stored, window

Answer = TypeVar("Answer")

START = START_NS / 10**9
MINUTE = 60.0
HOUR = 3600.0
DAY = 86_400.0
LEASE_SECONDS = 120.0
RULES = Rules()
LIMITS = QueryLimits(timeout_seconds=300)


class Asked:
    """Asks one store as the collector does, in the thread of the test."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self.cpu_seconds = 0.0
        self.fails: Callable[[], None] = lambda: None

    def __call__(self, answer: Callable[[Reading], Answer]) -> Answer:
        self.fails()
        begin = time.thread_time()
        with closing(QueryEngine(self._store, LIMITS)) as engine:
            try:
                return asyncio.run(engine.ask(answer))
            finally:
                self.cpu_seconds = time.thread_time() - begin


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
    def shelf(self) -> Shelf:
        return Shelf(self.store)

    def deploys(self) -> list[Deploy]:
        """All there are, whole, the newest first."""
        with closing(self.shelf) as shelf:
            return [shelf.deploy(one.id) for one in shelf.newest(1000, lambda _: True)]

    def readable(self) -> list[Deploy]:
        """Those that can be read, without their verdicts."""
        with closing(self.shelf) as shelf:
            return shelf.newest(1000, lambda _: True)

    def only(self) -> Deploy:
        """The one there is."""
        (one,) = self.deploys()
        return one


class Looker:
    """One collector that looks after deploys."""

    def __init__(
        self,
        world: World,
        judge: Judge | None = None,
        rules: Rules = RULES,
        *,
        alerts: Alerts | None = None,
        rollouts: Iterable[Rollout] = (),
        leased: bool = True,
        pace: Pace | None = None,
        keep_days: float = 90,
    ) -> None:
        self.world = world
        self.metrics = Metrics()
        self.ask = Asked(world.store)
        self.shelf = Shelf(world.store)
        self.watch = Watch(
            self.shelf,
            self.ask,
            judge,
            rules,
            self.metrics,
            pace=pace or Pace(1000, 1000.0, world.at),
            interval_seconds=60,
            keep_days=keep_days,
            alerts=alerts,
            rollouts=lambda: rollouts,
            leases=Leases(world.store, LEASE_SECONDS, timer=lambda: world.at) if leased else None,
            clock=lambda: world.now,
            timer=lambda: world.at,
        )

    def until(self, at: float, step: float = 60.0) -> None:
        """Let time pass until a moment, and look as often as a collector does."""
        while self.world.at < at:
            self.world.at = min(at, self.world.at + step)
            self.watch.tick()

    def dies(self) -> None:
        """Be gone without giving anything back."""
        self.shelf.close()

    def ends(self) -> None:
        """End as a collector does that is told to."""
        self.watch.leave()
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


def given(rules: Rules, **changes: Any) -> Rules:
    return replace(rules, **changes)
