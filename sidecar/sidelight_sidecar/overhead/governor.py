"""Keeps sampling within its budget: measures costs and sets each process's rate.

`budget` computes rates, and `cgroup` decides whether the sidecar's own CPU limit is near; this module has
the clocks, the counters and the processes. Ordinary sampling and captures have a budget each.
"""

from __future__ import annotations

import asyncio
import math
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.cgroup import (
    SHARE_OF_LIMIT,
    CgroupLevel,
    Cgroups,
    LimitProximity,
    classify_proximity,
)
from sidelight_sidecar.discovery.processes import ProcessKey
from sidelight_sidecar.health import HealthBoard, HealthIssue
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.overhead.budget import (
    CGROUP,
    REDUCTION_REASONS,
    SUSPEND_SECONDS,
    Budget,
    ProcessCost,
    RateLimit,
    admit_process,
    rebalance_rates,
    record_usage,
)
from sidelight_sidecar.samplers.sampler import (
    COMMAND_MODE,
    SampleBatch,
    SamplingCost,
)

ORDINARY, CAPTURE = "ordinary", "capture"
_TICK_SECONDS = 1.0
_RATIO_TICKS = 10
_LIMIT_SEARCH_SECONDS = 10.0
"""How often to look for a CPU limit while there is none."""
_OVERHEAD_TICKS = 60
_LONGEST_STOP_SECONDS = 60.0
_OVERRUN_FACTOR = 2.0
_RISE_FACTOR = 1.25
_NO_SAMPLING = RateLimit(0.0, 1, (CGROUP,))
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.overhead.governor")


@dataclass(slots=True)
class _GovernedProcess:
    """A process that is sampled.

    `pool` is its budget. `is_held` pauses its sampling because the CPU limit is near; `must_end_window`
    ends its window early because that costs too much.
    """

    pool: str
    process_cost: ProcessCost
    stops_target: bool
    wake: Callable[[], None]
    is_held: bool = False
    must_end_window: bool = False
    stopped_share: float = 0.0


@dataclass(frozen=True, slots=True)
class _CpuSnapshot:
    """CPU seconds of sampling until `taken_at`.

    `engine_seconds` is the CPU time of the engine's thread, `attributed_seconds` the part of it that
    sessions reported for processes.
    """

    taken_at: float
    engine_seconds: float
    attributed_seconds: float
    attach_seconds: float
    command_seconds: float

    @property
    def total_seconds(self) -> float:
        return self.engine_seconds + self.attach_seconds + self.command_seconds


class Governor:
    """The governor of all processes; used from the event loop alone.

    `engine_cpu` returns the CPU seconds of the extension's thread so far, `clock` monotonic seconds.
    """

    def __init__(
        self,
        budgets: dict[str, Budget],
        cgroups: Cgroups,
        engine_cpu: Callable[[], float],
        metrics: SidecarMetrics,
        health: HealthBoard,
        clock: Callable[[], float],
    ) -> None:
        self._budgets = budgets
        self._cgroups = cgroups
        self._engine_cpu = engine_cpu
        self._metrics = metrics
        self._health = health
        self._clock = clock
        self._processes: dict[ProcessKey, _GovernedProcess] = {}
        self._past_costs: dict[ProcessKey, ProcessCost] = {}
        self._cgroup_levels: list[CgroupLevel] = cgroups.find_levels()
        self._limit_proximities: dict[CgroupLevel, LimitProximity] = {}
        self._limit_checked_at = -math.inf
        self._longest_stops: deque[tuple[float, float]] = deque()
        self._attributed_seconds = self._attach_seconds = self._command_seconds = 0.0
        self._own_cpu_seconds = 0.0
        self._snapshots: deque[_CpuSnapshot] = deque([self._snapshot_cpu()], maxlen=_OVERHEAD_TICKS + 1)

    def add(
        self,
        key: ProcessKey,
        target_hz: float,
        pool: str = ORDINARY,
        *,
        pod: str = "",
        pod_cpu_share: float = math.inf,
        stops_target: bool = True,
        wake: Callable[[], None] = lambda: None,
    ) -> None:
        """Start to govern a process; its cost from an earlier time is remembered.

        `wake` is called when its window must end early, or may begin. It shares the budget of its `pod`,
        which is `pod_cpu_share` of a core.
        """
        previous = self._past_costs.get(key)
        process_cost = admit_process(
            self._get_process_costs(pool),
            key,
            target_hz,
            self._get_budget(pool),
            self._clock(),
            previous,
            pod,
            pod_cpu_share,
        )
        self._processes[key] = _GovernedProcess(pool, process_cost, stops_target, wake)

    def remove(self, key: ProcessKey) -> None:
        """Stop governing a process, and remember its cost."""
        member = self._processes.pop(key, None)
        if member is not None and member.process_cost.has_measurements:
            self._past_costs[key] = member.process_cost
        self._health.clear(_health_subject(key))

    def forget(self, key: ProcessKey) -> None:
        """Stop governing a process that is gone."""
        self.remove(key)
        self._past_costs.pop(key, None)

    def get_rate_limit(self, key: ProcessKey) -> RateLimit | None:
        """Return the rate limit of a process's next window; None if it is not governed.

        At rate 0 the window is not sampled.
        """
        member = self._processes.get(key)
        if member is None:
            return None
        return _NO_SAMPLING if member.is_held else member.process_cost.rate_limit

    def begin_window(self, key: ProcessKey) -> None:
        """Note that a window begins."""
        self._processes[key].must_end_window = False

    def must_end_window(self, key: ProcessKey) -> bool:
        """Return whether the open window must end now."""
        member = self._processes.get(key)
        return member is not None and (member.must_end_window or member.is_held)

    def record_partial(self, key: ProcessKey, batch: SampleBatch, cost: SamplingCost) -> None:
        """Record the cost of a part of a window."""
        self._attach_seconds += batch.attach_cpu_ns / 1e9
        if batch.quality.mode == COMMAND_MODE:
            self._command_seconds += cost.cpu_seconds
        else:
            self._attributed_seconds += cost.cpu_seconds
        self._metrics.stops_over_limit.inc(batch.stops_over_limit)
        self._longest_stops.append((self._clock(), batch.quality.longest_stop_ns / 1e9))
        member = self._processes.get(key)
        if member is None or not cost.ticks:
            return
        member.stopped_share = cost.stopped_seconds / cost.seconds
        expected_share = member.process_cost.tick_stop_seconds * cost.rate_hz
        if member.stopped_share > _OVERRUN_FACTOR * max(
            self._budgets[member.pool].stop_share, expected_share
        ):
            member.must_end_window = True

    def record_window(self, key: ProcessKey, cost: SamplingCost) -> None:
        """Record the cost of a whole window.

        If it rose, or is over budget alone, the rates of its pool are rebalanced. Else the next tick does
        that: the work of all windows would grow with the square of the processes.
        """
        member = self._processes.get(key)
        if member is None:
            return
        member.must_end_window = False
        old = member.process_cost
        member.process_cost = new = record_usage(old, cost)
        budget = self._budgets[member.pool]
        if (
            new.cpu_share > budget.cpu_share
            or new.stop_share > budget.stop_share
            or new.tick_cpu_seconds > _RISE_FACTOR * old.tick_cpu_seconds
            or new.tick_stop_seconds > _RISE_FACTOR * old.tick_stop_seconds
        ):
            self._rebalance(member.pool)

    async def run(self) -> None:
        """Call `tick` every second."""
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            await self.tick()

    async def tick(self) -> None:
        """Check the CPU limit and the cost of sampling, and rebalance all rates."""
        try:
            await self._check_cpu_limit()
        except OSError as error:
            # The last readings hold. The next scan of /proc that works clears the problem.
            self._health.report("open files", HealthIssue.out_of_descriptors(error))
        current, previous = self._snapshot_cpu(), self._snapshots[-1]
        self._snapshots.append(current)
        if self._has_overrun(previous, current):
            for member in self._processes.values():
                member.must_end_window = True
                member.wake()
        for pool in self._budgets:
            self._rebalance(pool)
        self._update_metrics(current, previous)

    def _get_process_costs(self, pool: str) -> dict[ProcessKey, ProcessCost]:
        return {key: member.process_cost for key, member in self._processes.items() if member.pool == pool}

    def _get_budget(self, pool: str) -> Budget:
        """Return a pool's budget below the CPU limit and without the fixed costs.

        Fixed costs are what the engine and attaching take besides ticks.
        """
        budget = self._budgets[pool]
        limits = [
            p.stats.limit_cores for p in self._limit_proximities.values() if p.stats and p.stats.limit_cores
        ]
        if limits and min(limits) * SHARE_OF_LIMIT < budget.cpu_share:
            budget = replace(budget, cpu_share=min(limits) * SHARE_OF_LIMIT, cpu_reason=CGROUP)
        first, last = self._snapshots[0], self._snapshots[-1]
        if pool != ORDINARY or last.taken_at - first.taken_at < _OVERHEAD_TICKS / 4:
            return budget
        unattributed = (last.engine_seconds - last.attributed_seconds) - (
            first.engine_seconds - first.attributed_seconds
        )
        overhead = (max(0.0, unattributed) + last.attach_seconds - first.attach_seconds) / (
            last.taken_at - first.taken_at
        )
        return replace(budget, cpu_share=max(budget.cpu_share / 5, budget.cpu_share - overhead))

    def _rebalance(self, pool: str) -> None:
        for key, process_cost in rebalance_rates(
            self._get_process_costs(pool), self._get_budget(pool), self._clock()
        ).items():
            member = self._processes[key]
            old, new = member.process_cost.rate_limit, process_cost.rate_limit
            member.process_cost = process_cost
            if new != old:
                _log.info(
                    "a sampling rate is changed",
                    pid=key.pid,
                    rate_hz=new.rate_hz,
                    every=new.window_stride,
                    reasons=new.reasons,
                )
            if new.is_suspended and not old.is_suspended:
                self._health.report(_health_subject(key), _make_suspended_issue(key, process_cost))
            elif old.is_suspended and not new.is_suspended:
                self._health.clear(_health_subject(key))

    def _has_overrun(self, previous: _CpuSnapshot, current: _CpuSnapshot) -> bool:
        """Return whether the engine takes far more CPU time than expected."""
        elapsed = current.taken_at - previous.taken_at
        if elapsed <= 0:
            return False
        members = self._processes.values()
        expected_share = sum(
            member.process_cost.tick_cpu_seconds * member.process_cost.rate_limit.rate_hz
            for member in members
        )
        allowed = sum(self._budgets[pool].cpu_share for pool in {member.pool for member in members})
        return (
            (current.engine_seconds - previous.engine_seconds) / elapsed
            > _OVERRUN_FACTOR * max(allowed, expected_share)
            > 0
        )

    async def _check_cpu_limit(self) -> None:
        now = self._clock()
        limited = any(p.stats and p.stats.limit_cores is not None for p in self._limit_proximities.values())
        if not self._cgroup_levels or (not limited and now < self._limit_checked_at + _LIMIT_SEARCH_SECONDS):
            return
        self._limit_checked_at = now
        readings = await asyncio.to_thread(lambda: [(level, level.read()) for level in self._cgroup_levels])
        was_near = any(pressure.is_near_limit(now) for pressure in self._limit_proximities.values())
        for level, reading in readings:
            previous = self._limit_proximities.get(level, LimitProximity())
            if previous.stats is not None:
                throttled = reading.throttled_seconds - previous.stats.throttled_seconds
                self._metrics.throttled_seconds.inc(max(0.0, throttled))
            self._limit_proximities[level] = classify_proximity(previous, reading, now)
        near = [level for level, pressure in self._limit_proximities.items() if pressure.is_near_limit(now)]
        self._metrics.cpu_limit.set(
            min((r.limit_cores for _, r in readings if r.limit_cores is not None), default=0.0)
        )
        for key, member in self._processes.items():
            paths = [(level, self._cgroups.find_path(key.pid, level.version)) for level in near]
            is_held = member.stops_target and any(not level.contains(path) for level, path in paths)
            if is_held != member.is_held:
                member.is_held = is_held
                member.wake()
        if any(member.is_held for member in self._processes.values()):
            if self._health.report("cpu limit", _NEAR_LIMIT_ISSUE):
                _log.warning("nothing is stopped: the CPU limit is near", hint=_NEAR_LIMIT_ISSUE.hint)
        elif self._health.clear("cpu limit") and was_near:
            _log.info("the CPU limit is far enough again")

    def _snapshot_cpu(self) -> _CpuSnapshot:
        return _CpuSnapshot(
            self._clock(),
            self._engine_cpu(),
            self._attributed_seconds,
            self._attach_seconds,
            self._command_seconds,
        )

    def _update_metrics(self, current: _CpuSnapshot, previous: _CpuSnapshot) -> None:
        metrics, members = self._metrics, self._processes.values()
        metrics.sampler_cpu_seconds.inc(max(0.0, current.total_seconds - previous.total_seconds))
        recent = self._snapshots[-min(len(self._snapshots), _RATIO_TICKS + 1)]
        metrics.sampler_cpu_ratio.set(
            max(0.0, current.total_seconds - recent.total_seconds)
            / max(1e-9, current.taken_at - recent.taken_at)
        )
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system
        metrics.cpu_seconds.inc(max(0.0, own - self._own_cpu_seconds))
        self._own_cpu_seconds = own
        rate_limits = [limit for key in self._processes if (limit := self.get_rate_limit(key)) is not None]
        rates = [limit.mean_hz for limit in rate_limits]
        metrics.rate_hz.labels("lowest").set(min(rates, default=0.0))
        metrics.rate_hz.labels("highest").set(max(rates, default=0.0))
        metrics.stopped_ratio.set(max((member.stopped_share for member in members), default=0.0))
        while self._longest_stops and self._longest_stops[0][0] < current.taken_at - _LONGEST_STOP_SECONDS:
            self._longest_stops.popleft()
        metrics.longest_stop_seconds.set(max((stop for _, stop in self._longest_stops), default=0.0))
        reasons = [reason for limit in rate_limits for reason in limit.reasons]
        for reason in REDUCTION_REASONS[:-1]:
            metrics.reduced_rate.labels(reason).set(reasons.count(reason))


_NEAR_LIMIT_ISSUE = HealthIssue(
    Reason.THROTTLED,
    "sampling rests: the sidecar has nearly used up its CPU limit, and to be frozen in the middle of a stop "
    "would freeze the process that is sampled",
    "Remove the CPU limit of the sidecar (a request is enough), or raise it.",
)


def _health_subject(key: ProcessKey) -> str:
    return f"budget of process {key.pid}"


def _make_suspended_issue(key: ProcessKey, process_cost: ProcessCost) -> HealthIssue:
    return HealthIssue(
        Reason.OVER_BUDGET,
        f"process {key.pid} is not sampled: one look at it takes "
        f"{process_cost.tick_cpu_seconds * 1e3:.3g} ms of CPU and "
        f"stops it for {process_cost.tick_stop_seconds * 1e3:.3g} ms, which is above the budget "
        "however rarely it is done",
        "Raise --budget-cpu-percent or --budget-stop-percent, or leave this process out; it is tried again "
        f"after {SUSPEND_SECONDS / 60:.0f} minutes or more.",
    )
