"""Looks out for what calls for a closer look, every few seconds, and tells the processes' loops.

It reads next to nothing of its own: CPU time and memory of processes come with the looks at /proc that
are made anyway, and a container's counters are two small files. `triggers` decides.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import structlog

from sidelight_sidecar.discovery import listening_ports
from sidelight_sidecar.discovery.cgroup import Cgroups, Level
from sidelight_sidecar.discovery.processes import Key
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.overhead.pause_control import Switches
from sidelight_sidecar.sampling.process_watcher import Fleet
from sidelight_sidecar.triggers import (
    READY,
    SIGTERM,
    WORDS,
    ContainerTrail,
    Fired,
    ProcessTrail,
    Rules,
    Spent,
    labels_of,
    rests,
)
from sidelight_sidecar.windows.window_writer import Intake

_TICK_SECONDS = 1.0
_MOVED_SECONDS = 10.0
_OLDER_SECONDS = 60.0
"""A process that was started so long before the sidecar was not started with it."""
_LONGEST_START = 60.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_TOLD = Fired(SIGTERM, "the sidecar was told to end")
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.captures.trigger_monitor"
)
Container = tuple[str, ...]


@dataclass(slots=True)
class _Process:
    trail: ProcessTrail
    container: Container = ()
    looked_at: float = -_MOVED_SECONDS
    fired_at: float | None = None


@dataclass(slots=True)
class _Container:
    trail: ContainerTrail
    keys: frozenset[Key] = frozenset()
    seen_through: Key | None = None
    levels: list[Level] = field(default_factory=list)
    spent: Spent = field(default_factory=lambda: Spent(None))
    starting: bool = False


class Lookout:
    """One for all processes; `clock` is monotonic seconds, `uptime` those since the machine was started."""

    def __init__(
        self,
        rules: Rules,
        fleet: Fleet,
        intake: Intake,
        switches: Switches,
        cgroups: Cgroups,
        metrics: Metrics,
        clock: Callable[[], float],
        uptime: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self._rules = rules
        self._fleet = fleet
        self._intake = intake
        self._switches = switches
        self._cgroups = cgroups
        self._metrics = metrics
        self._clock = clock
        self._uptime = uptime
        self._began = uptime()
        self._processes: dict[Key, _Process] = {}
        self._containers: dict[Container, _Container] = {}
        self._last: dict[str, dict[str, object]] = {}
        for word in WORDS:
            metrics.triggers.labels(word)

    @property
    def told(self) -> dict[str, object]:
        """Which triggers are on, and what made each fire last, as JSON."""
        return {"on": list(self._rules.on), "last": list(self._last.values())}

    async def run(self) -> None:
        """Look every second or every few, if there is anything to look for."""
        while self._rules.watches:
            starting = any(known.starting for known in self._containers.values())
            await asyncio.sleep(_TICK_SECONDS if starting else self._rules.tick_seconds)
            await self.tick()

    async def tick(self) -> None:
        """One look; see `run`."""
        now = self._clock()
        self._processes = {
            watch.key: self._processes.get(watch.key) or _Process(ProcessTrail(self._rules))
            for watch in self._fleet.watches
        }
        ready = await asyncio.to_thread(self._read, now)
        if self._switches.paused:
            return
        for keys, fired in ready:
            self._fire(now, keys, [fired])
        for known in self._containers.values():
            free = any(self._free(key, now) for key in known.keys)
            self._fire(now, known.keys, known.trail.judge(now, known.spent, free=free))
        uptime = self._uptime()
        for key, process in self._processes.items():
            used = self._fleet.used.get(key)
            if used is None:
                continue
            fired_here = process.trail.judge(
                now,
                age=uptime - key.start_ticks / _TICKS_PER_SECOND,
                cpu_seconds=used.cpu_ns / 1e9,
                rss=used.rss,
                limited=self._containers[process.container].spent.limit is not None,
                free=self._free(key, now),
            )
            self._fire(now, [key], fired_here)

    def sigterm(self) -> None:
        """The sidecar was told to end: what is taken from now on says so."""
        if SIGTERM in self._rules.on:
            self._fire(self._clock(), [watch.key for watch in self._fleet.watches], [_TOLD])

    async def ship_rest(self) -> None:
        """At the end: what is still kept in memory, also of processes that ended just before."""
        if SIGTERM in self._rules.on:
            await self._intake.ship_all_held_back(labels_of([_TOLD]), self._clock())

    def _of(self, container: Container) -> list[Key]:
        return [key for key, process in self._processes.items() if process.container == container]

    def _free(self, key: Key, now: float) -> bool:
        return not rests(self._rules, self._processes[key].fired_at, now)

    def _lasts(self, process: _Process, now: float) -> bool:
        return process.fired_at is not None and now < process.fired_at + self._rules.lasts

    def _fire(self, now: float, keys: Collection[Key], fired: Sequence[Fired]) -> None:
        for one in fired:
            told = []
            for watch in self._fleet.watches:
                process = self._processes.get(watch.key)
                ends = one.word == SIGTERM
                if watch.key not in keys or not (ends or process is None or self._free(watch.key, now)):
                    continue
                watch.trigger(one, at_once=ends)
                told.append(watch.key.pid)
                if process is not None and not self._lasts(process, now):
                    process.fired_at = now
            self._metrics.triggers.labels(one.word).inc()
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self._last[one.word] = {"trigger": one.word, "reason": one.reason, "pids": told, "at": at}
            _log.info("a trigger fires", trigger=one.word, reason=one.reason, pids=told)

    def _read(self, now: float) -> list[tuple[Collection[Key], Fired]]:
        """Read the files; whose containers have become ready. Runs in a thread, one at a time."""
        for key, process in self._processes.items():
            if now - process.looked_at >= _MOVED_SECONDS:
                process.container, process.looked_at = self._cgroups.container(key.pid), now
        present = {process.container for process in self._processes.values()}
        self._containers = {container: self._container(container) for container in present}
        ready: list[tuple[Collection[Key], Fired]] = []
        for known in self._containers.values():
            if known.starting and (fired := self._ready(known.keys)) is not None:
                known.starting = False
                ready.append((known.keys, fired))
        return ready

    def _container(self, container: Container) -> _Container:
        """A container as it is now; one of whose processes none was there at the last look begins anew."""
        keys = frozenset(self._of(container))
        known = self._containers.get(container)
        if known is None or not known.keys & keys:
            age = self._began - min(key.start_ticks for key in keys) / _TICKS_PER_SECOND
            known = _Container(
                ContainerTrail(self._rules), starting=self._rules.ready and age < _OLDER_SECONDS
            )
        known.keys = keys
        if self._rules.cpu is not None or self._rules.throttled is not None:
            if known.seen_through not in keys:
                known.seen_through = min(keys)
                known.levels = self._cgroups.levels(known.seen_through.pid)
            known.spent = _spent(known.levels)
        return known

    def _ready(self, keys: Collection[Key]) -> Fired | None:
        age = self._uptime() - min(key.start_ticks for key in keys) / _TICKS_PER_SECOND
        if found := listening_ports.ports([key.pid for key in keys]):
            return Fired(READY, f"listens on port {found[0]}, {age:.1f} s after it was started")
        if age < _LONGEST_START:
            return None
        return Fired(READY, f"runs for {age:.0f} s since it was started, and listens on no port")


def _spent(levels: Sequence[Level]) -> Spent:
    """Of the cgroup with the lowest limit."""
    readings = [reading for level in levels if (reading := level.read()).limit is not None]
    if not readings:
        return Spent(None)
    least = min(readings, key=lambda reading: reading.limit or 0.0)
    return Spent(least.limit, least.used, least.periods, least.throttles)
