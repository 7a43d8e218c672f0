"""Evaluates triggers every few seconds and starts boosts in the sampling loops.

It reads almost nothing of its own. CPU time and memory of processes come with the scans of /proc that are
made anyway, and a container's counters are two small files. `triggers` decides which triggers fire.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import structlog

from sidelight_sidecar.descriptors import OUT_OF_DESCRIPTORS_HINT
from sidelight_sidecar.discovery import listening_ports
from sidelight_sidecar.discovery.cgroup import CgroupLevel, Cgroups, MemoryCgroup
from sidelight_sidecar.discovery.processes import ProcessKey
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.overhead.pause_control import PauseControl
from sidelight_sidecar.sampling.process_watcher import ProcessWatcher
from sidelight_sidecar.triggers import (
    READY,
    SIGTERM,
    TRIGGER_NAMES,
    ContainerTriggers,
    CpuUsage,
    ProcessTriggers,
    TriggerEvent,
    TriggerRules,
    build_trigger_labels,
    is_in_cooldown,
)
from sidelight_sidecar.windows.window_writer import WindowWriter

_TICK_SECONDS = 1.0
_MAX_TICK_SECONDS = 3.0
_CGROUP_CHECK_SECONDS = 10.0
_MAX_START_GAP_SECONDS = 60.0
"""A process that started longer than this before the sidecar did not start together with it."""
_MAX_STARTUP_SECONDS = 60.0
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SIGTERM_EVENT = TriggerEvent(SIGTERM, "the sidecar received SIGTERM")
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.captures.trigger_monitor"
)
ContainerKey = tuple[str, ...]


@dataclass(slots=True)
class _MonitoredProcess:
    triggers: ProcessTriggers
    container: ContainerKey = ()
    checked_at: float = -_CGROUP_CHECK_SECONDS
    fired_at: float | None = None


@dataclass(slots=True)
class _MonitoredContainer:
    triggers: ContainerTriggers
    keys: frozenset[ProcessKey] = frozenset()
    read_through: ProcessKey | None = None
    levels: list[CgroupLevel] = field(default_factory=list)
    usage: CpuUsage = field(default_factory=lambda: CpuUsage(None))
    memory: MemoryCgroup | None = None
    working_set: int | None = None
    is_starting: bool = False


class TriggerMonitor:
    """Monitors the triggers of all processes, each by the rules of its pod.

    `rules` are those without annotations. `clock` returns monotonic seconds, `uptime` the seconds since the
    machine booted.
    """

    def __init__(
        self,
        rules: TriggerRules,
        process_watcher: ProcessWatcher,
        window_writer: WindowWriter,
        pause_control: PauseControl,
        cgroups: Cgroups,
        metrics: SidecarMetrics,
        clock: Callable[[], float],
        uptime: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME),
    ) -> None:
        self._rules = rules
        self._process_watcher = process_watcher
        self._window_writer = window_writer
        self._pause_control = pause_control
        self._cgroups = cgroups
        self._metrics = metrics
        self._clock = clock
        self._uptime = uptime
        self._started_at = uptime()
        self._ships_preroll = False
        self._processes: dict[ProcessKey, _MonitoredProcess] = {}
        self._containers: dict[ContainerKey, _MonitoredContainer] = {}
        self._last_events: dict[str, dict[str, object]] = {}
        for word in TRIGGER_NAMES:
            metrics.triggers.labels(word)

    @property
    def status(self) -> dict[str, object]:
        """The enabled triggers and the last event of each, as JSON."""
        enabled = {name for rules in self._list_rules() for name in rules.enabled_triggers}
        names = [name for name in TRIGGER_NAMES if name in enabled]
        return {"on": names, "last": list(self._last_events.values())}

    async def run(self) -> None:
        """Call `tick` periodically while any rules need polling.

        It runs every second while a container starts, else every `check_interval_seconds`.
        """
        while True:
            starting = any(container.is_starting for container in self._containers.values())
            polled = [rules for rules in self._list_rules() if rules.needs_polling]
            interval = min((rules.check_interval_seconds for rules in polled), default=_MAX_TICK_SECONDS)
            await asyncio.sleep(_TICK_SECONDS if starting else interval)
            if polled:
                await self.tick()

    async def tick(self) -> None:
        """Evaluate all triggers once; `run` calls it periodically."""
        now = self._clock()
        known, self._processes = self._processes, {}
        for watch in self._process_watcher.process_samplers:
            rules, monitored = watch.context.trigger_rules, known.get(watch.key)
            if monitored is None:
                monitored = _MonitoredProcess(ProcessTriggers(rules))
            elif monitored.triggers.rules != rules:
                monitored.triggers = ProcessTriggers(rules)
            self._processes[watch.key] = monitored
        try:
            ready = await asyncio.to_thread(self._read_containers, now)
        except OSError as error:
            self._metrics.loop_errors.labels("triggers").inc()
            _log.warning("no trigger can be evaluated", problem=str(error), hint=OUT_OF_DESCRIPTORS_HINT)
            return
        if self._pause_control.is_paused:
            return
        uptime = self._uptime()
        for keys, fired in ready:
            self._fire(now, keys, [fired])
        for container in self._containers.values():
            can_fire = any(self._can_fire(key, now) for key in container.keys)
            events = container.triggers.evaluate(now, container.usage, can_fire=can_fire)
            age = _compute_age(container.keys, uptime)
            events += container.triggers.evaluate_memory(now, age, container.working_set, can_fire=can_fire)
            self._fire(now, container.keys, events)
        for key, process in self._processes.items():
            usage = self._process_watcher.usage.get(key)
            if usage is None:
                continue
            container = self._containers[process.container]
            events = process.triggers.evaluate(
                now,
                age=_compute_age([key], uptime),
                cpu_seconds=usage.cpu_ns / 1e9,
                rss=usage.rss_bytes if container.working_set is None else None,
                has_cpu_limit=container.usage.limit_cores is not None,
                can_fire=self._can_fire(key, now),
            )
            self._fire(now, [key], events)

    def fire_sigterm(self) -> None:
        """Fire the SIGTERM trigger: samples from now on carry its label."""
        keys = [
            watch.key
            for watch in self._process_watcher.process_samplers
            if SIGTERM in watch.context.trigger_rules.enabled_triggers
        ]
        self._ships_preroll = bool(keys) or SIGTERM in self._rules.enabled_triggers
        if self._ships_preroll:
            self._fire(self._clock(), keys, [_SIGTERM_EVENT])

    async def flush(self) -> None:
        """Release the pre-roll at shutdown, also of processes that have just ended.

        Processes without the SIGTERM trigger have none any more.
        """
        if self._ships_preroll:
            await self._window_writer.release_all(build_trigger_labels([_SIGTERM_EVENT]), self._clock())

    def _list_process_keys(self, container: ContainerKey) -> list[ProcessKey]:
        return [key for key, process in self._processes.items() if process.container == container]

    def _can_fire(self, key: ProcessKey, now: float) -> bool:
        process = self._processes[key]
        return not is_in_cooldown(process.triggers.rules, process.fired_at, now)

    def _is_boosted(self, process: _MonitoredProcess, now: float) -> bool:
        boost_seconds = process.triggers.rules.boost_seconds
        return process.fired_at is not None and now < process.fired_at + boost_seconds

    def _list_rules(self) -> set[TriggerRules]:
        return {
            self._rules,
            *(watch.context.trigger_rules for watch in self._process_watcher.process_samplers),
        }

    def _fire(self, now: float, keys: Collection[ProcessKey], events: Sequence[TriggerEvent]) -> None:
        for event in events:
            fired_pids = []
            for watch in self._process_watcher.process_samplers:
                process = self._processes.get(watch.key)
                is_sigterm = event.trigger == SIGTERM
                if watch.key not in keys or not (
                    is_sigterm or process is None or self._can_fire(watch.key, now)
                ):
                    continue
                watch.apply_trigger(event, immediate=is_sigterm)
                fired_pids.append(watch.key.pid)
                if process is not None and not self._is_boosted(process, now):
                    process.fired_at = now
            self._metrics.triggers.labels(event.trigger).inc()
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            self._last_events[event.trigger] = {
                "trigger": event.trigger,
                "reason": event.reason,
                "pids": fired_pids,
                "at": at,
            }
            _log.info("a trigger fires", trigger=event.trigger, reason=event.reason, pids=fired_pids)

    def _read_containers(self, now: float) -> list[tuple[Collection[ProcessKey], TriggerEvent]]:
        """Read the containers' files and return an event for each that became ready.

        It runs in a thread, once at a time.
        """
        for key, process in self._processes.items():
            if now - process.checked_at >= _CGROUP_CHECK_SECONDS:
                process.container, process.checked_at = self._cgroups.identify_container(key.pid), now
        present = {process.container for process in self._processes.values()}
        self._containers = {container: self._update_container(container) for container in present}
        ready: list[tuple[Collection[ProcessKey], TriggerEvent]] = []
        for monitored in self._containers.values():
            if monitored.is_starting and (event := self._check_ready(monitored.keys)) is not None:
                monitored.is_starting = False
                ready.append((monitored.keys, event))
        return ready

    def _update_container(self, container: ContainerKey) -> _MonitoredContainer:
        """Return the container with its current processes and usage.

        If none of its processes was there at the last tick, its state starts anew. With other rules its
        triggers do, but it does not become ready again.
        """
        keys = frozenset(self._list_process_keys(container))
        monitored, rules = self._containers.get(container), self._processes[min(keys)].triggers.rules
        if monitored is None or not monitored.keys & keys:
            age = _compute_age(keys, self._started_at)
            monitored = _MonitoredContainer(
                ContainerTriggers(rules),
                is_starting=rules.fires_on_ready and age < _MAX_START_GAP_SECONDS,
            )
        elif monitored.triggers.rules != rules:
            is_starting = rules.fires_on_ready and monitored.is_starting
            monitored = _MonitoredContainer(ContainerTriggers(rules), is_starting=is_starting)
        monitored.keys = keys
        reads_cpu = rules.cpu_share is not None or rules.throttled_share is not None
        if monitored.read_through not in keys:
            monitored.read_through = min(keys)
            pid = monitored.read_through.pid
            monitored.levels = self._cgroups.find_levels(pid) if reads_cpu else []
            monitored.memory = self._cgroups.find_memory(pid) if rules.rss_growth is not None else None
        if reads_cpu:
            monitored.usage = _read_usage(monitored.levels)
        monitored.working_set = monitored.memory.read_working_set() if monitored.memory else None
        return monitored

    def _check_ready(self, keys: Collection[ProcessKey]) -> TriggerEvent | None:
        age = _compute_age(keys, self._uptime())
        if ports := listening_ports.find_ports([key.pid for key in keys]):
            return TriggerEvent(READY, f"listens on port {ports[0]}, {age:.1f} s after it was started")
        if age < _MAX_STARTUP_SECONDS:
            return None
        return TriggerEvent(READY, f"runs for {age:.0f} s since it was started, and listens on no port")


def _compute_age(keys: Collection[ProcessKey], uptime: float) -> float:
    """Return the age of the oldest process at an uptime, in seconds."""
    return uptime - min(key.start_ticks for key in keys) / _TICKS_PER_SECOND


def _read_usage(levels: Sequence[CgroupLevel]) -> CpuUsage:
    """Return the usage of the cgroup with the lowest limit."""
    readings = [reading for level in levels if (reading := level.read()).limit_cores is not None]
    if not readings:
        return CpuUsage(None)
    lowest = min(readings, key=lambda reading: reading.limit_cores or 0.0)
    return CpuUsage(lowest.limit_cores, lowest.cpu_seconds, lowest.periods, lowest.throttled_periods)
