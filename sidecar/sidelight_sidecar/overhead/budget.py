"""Compute the sampling rate of each process that keeps all within a budget.

The cost of sampling is nearly proportional to its rate, so the rate is computed and not searched for:
budget divided by the cost of a tick. The budget is shared max-min: a process that costs little keeps its
rate, and expensive processes divide the rest. Two costs are bounded: the CPU time of sampling all
processes, as a share of one core, and the time that each process stands still, as a share of its own time.

Over budget, rates are reduced until four fifths of the budget are used. First the rates fall, down to
MIN_RATE_HZ. Then only one window of `window_stride` is sampled. A process that alone would exceed the
budget even with the largest stride is suspended and tried again later.

Hysteresis prevents oscillation. A rise in the cost of a tick counts at once, and a fall counts slowly. A
rate falls only when the budget is exceeded. It rises only if it gains at least a quarter, in steps (by
half, or to four times the windows), after a measurement, and after a delay that doubles each time that a
raise had to be undone. A rate that cannot settle is raised and undone at most two dozen times in an hour.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from sidelight_sidecar.samplers.sampler import SamplingCost

K = TypeVar("K", bound=Hashable)

MIN_RATE_HZ = 5.0
"""Below this rate a window holds too few samples to be useful, so windows are skipped instead."""
MAX_WINDOW_STRIDE = 20
SUSPEND_SECONDS = 600.0
_MAX_SUSPEND_SECONDS = 3600.0
CPU, STOPS, CGROUP, PAUSED = "cpu", "stops", "cgroup", "paused"
REDUCTION_REASONS = (CPU, STOPS, CGROUP, PAUSED)
"""Reasons for a rate below the target, also as metric labels and in `quality.reduced`."""

_TARGET_SHARE = 0.8
_MIN_RAISE_FACTOR = 1.25
_MAX_RAISE_FACTOR = 1.5
_MAX_STRIDE_RAISE_FACTOR = 4.0
_MIN_RAISE_DELAY = 10.0
_MAX_RAISE_DELAY = 320.0
_COST_HALF_LIFE_SECONDS = 30.0
_COST_RISE_SECONDS = 5.0
_DEFAULT_TICK_SECONDS = 50e-6


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of the cost of sampling, as shares.

    `cpu_share` is a share of one core for all processes together, `stop_share` a share of each process's
    time. `cpu_reason` is the reason to report when `cpu_share` bounds a rate. Without `can_skip_windows`,
    rates fall to MIN_RATE_HZ and every window is sampled.
    """

    cpu_share: float
    stop_share: float
    cpu_reason: str = CPU
    can_skip_windows: bool = True


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Sample at `rate_hz`, one window of every `window_stride` (0: none).

    `reasons` say why that is less than the target.
    """

    rate_hz: float
    window_stride: int = 1
    reasons: tuple[str, ...] = ()

    @property
    def is_suspended(self) -> bool:
        return self.window_stride == 0

    @property
    def mean_hz(self) -> float:
        """The mean rate over sampled and skipped windows."""
        return self.rate_hz / self.window_stride if self.window_stride else 0.0


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """The cost of sampling one process, and its rate limit.

    `tick_cpu_seconds` and `tick_stop_seconds` are the seconds that one tick costs. `has_measurements` is
    true after the first measurement, `has_current_measurement` after a measurement since the last change of
    the rate limit (`changed_at`). `raise_delay` seconds must pass before a reduced rate is raised;
    `raised_at` is the time of the last raise. `suspend_seconds` seconds must pass before a suspended
    process is tried again. `pod` is the pod whose budget it shares: `pod_cpu_share` of a core for all its
    processes.
    """

    target_hz: float
    rate_limit: RateLimit
    changed_at: float
    tick_cpu_seconds: float = _DEFAULT_TICK_SECONDS
    tick_stop_seconds: float = 0.0
    has_measurements: bool = False
    has_current_measurement: bool = False
    raise_delay: float = _MIN_RAISE_DELAY
    raised_at: float = -math.inf
    suspend_seconds: float = SUSPEND_SECONDS
    pod: str = ""
    pod_cpu_share: float = math.inf

    @property
    def cpu_share(self) -> float:
        """The estimated share of a core that sampling this process takes."""
        return self.rate_limit.mean_hz * self.tick_cpu_seconds

    @property
    def stop_share(self) -> float:
        """The estimated share of its time that this process stands still."""
        return self.rate_limit.mean_hz * self.tick_stop_seconds


def admit_process(
    process_costs: Mapping[K, ProcessCost],
    key: K,
    target_hz: float,
    budget: Budget,
    now: float,
    previous: ProcessCost | None = None,
    pod: str = "",
    pod_cpu_share: float = math.inf,
) -> ProcessCost:
    """Return the cost and rate limit of a process that joins.

    `previous` is its cost when it last left. A new process is assumed to cost as much as the median of the
    others until it is measured.
    """
    if previous is not None and previous.has_measurements:
        if previous.rate_limit.is_suspended and budget.can_skip_windows:
            return replace(previous, target_hz=target_hz, pod_cpu_share=pod_cpu_share)
        admitted = replace(
            previous,
            target_hz=target_hz,
            rate_limit=RateLimit(target_hz),
            changed_at=now,
            has_current_measurement=False,
            pod_cpu_share=pod_cpu_share,
        )
    else:
        measured_costs = [account for account in process_costs.values() if account.has_measurements]
        cpu = (
            median(account.tick_cpu_seconds for account in measured_costs)
            if measured_costs
            else _DEFAULT_TICK_SECONDS
        )
        stop = median(account.tick_stop_seconds for account in measured_costs) if measured_costs else 0.0
        admitted = ProcessCost(
            target_hz,
            RateLimit(target_hz),
            now,
            tick_cpu_seconds=cpu,
            tick_stop_seconds=stop,
            pod=pod,
            pod_cpu_share=pod_cpu_share,
        )
    hz, reasons = compute_target_rates({**process_costs, key: admitted}, budget)[key]
    if not admitted.has_measurements:
        hz = max(hz, _compute_min_rate(target_hz))
    return replace(admitted, rate_limit=_make_rate_limit(hz, target_hz, reasons, budget))


def record_usage(process_cost: ProcessCost, sampling_cost: SamplingCost) -> ProcessCost:
    """Return the cost of a process after a window; a window without a tick is ignored."""
    if not sampling_cost.ticks:
        return process_cost
    # A sampled window represents the skipped windows beside it.
    has_measurements, seconds = (
        process_cost.has_measurements,
        sampling_cost.seconds * max(1, process_cost.rate_limit.window_stride),
    )
    return replace(
        process_cost,
        tick_cpu_seconds=_smooth_cost(
            process_cost.tick_cpu_seconds,
            sampling_cost.cpu_seconds / sampling_cost.ticks,
            seconds,
            has_measurements,
        ),
        tick_stop_seconds=_smooth_cost(
            process_cost.tick_stop_seconds,
            sampling_cost.stopped_seconds / sampling_cost.ticks,
            seconds,
            has_measurements,
        ),
        has_measurements=True,
        has_current_measurement=process_cost.has_current_measurement
        or sampling_cost.rate_hz == process_cost.rate_limit.rate_hz,
    )


def rebalance_rates(
    process_costs: Mapping[K, ProcessCost], budget: Budget, now: float
) -> dict[K, ProcessCost]:
    """Return the costs of all processes with their new rate limits."""
    target_rates = compute_target_rates(process_costs, budget)
    is_over_budget = sum(account.cpu_share for account in process_costs.values()) > budget.cpu_share
    pod_shares: dict[str, float] = defaultdict(float)
    for account in process_costs.values():
        pod_shares[account.pod] += account.cpu_share
    return {
        key: _adjust_rate(
            account,
            *target_rates[key],
            is_over_budget=is_over_budget
            or account.stop_share > budget.stop_share
            or pod_shares[account.pod] > account.pod_cpu_share,
            budget=budget,
            now=now,
        )
        for key, account in process_costs.items()
    }


def compute_target_rates(
    process_costs: Mapping[K, ProcessCost], budget: Budget
) -> dict[K, tuple[float, tuple[str, ...]]]:
    """Compute mean rates that together take four fifths of the budget.

    Returns the rate of each process and the reasons why it is below its target.
    """
    limits = {
        key: min(account.target_hz, _TARGET_SHARE * budget.stop_share / max(account.tick_stop_seconds, 1e-12))
        for key, account in process_costs.items()
    }
    costs = {key: max(account.tick_cpu_seconds, 1e-12) for key, account in process_costs.items()}
    needs = [limits[key] * costs[key] for key in process_costs]
    demands = _limit_pods(list(process_costs.values()), needs)
    rates: dict[K, tuple[float, tuple[str, ...]]] = {}
    for key, need, share in zip(
        process_costs, needs, compute_max_min_shares(demands, _TARGET_SHARE * budget.cpu_share), strict=True
    ):
        reasons = (STOPS,) if limits[key] < process_costs[key].target_hz else ()
        rates[key] = (
            (share / costs[key], (budget.cpu_reason, *reasons)) if share < need else (limits[key], reasons)
        )
    return rates


def _limit_pods(accounts: Sequence[ProcessCost], needs: Sequence[float]) -> list[float]:
    """Return the needs, cut where the processes of one pod need more than its budget."""
    demands = list(needs)
    members: dict[tuple[str, float], list[int]] = defaultdict(list)
    for index, account in enumerate(accounts):
        if not math.isinf(account.pod_cpu_share):
            members[account.pod, account.pod_cpu_share].append(index)
    for (_, cpu_share), indexes in members.items():
        shares = compute_max_min_shares([needs[index] for index in indexes], _TARGET_SHARE * cpu_share)
        for index, share in zip(indexes, shares, strict=True):
            demands[index] = share
    return demands


def compute_max_min_shares(demands: Sequence[float], capacity: float) -> list[float]:
    """Divide `capacity` among `demands` by max-min fairness.

    No share exceeds its demand, and none is less than the share of a smaller demand.
    """
    shares = [0.0] * len(demands)
    for rank, index in enumerate(sorted(range(len(demands)), key=demands.__getitem__)):
        shares[index] = min(demands[index], capacity / (len(demands) - rank))
        capacity -= shares[index]
    return shares


def _adjust_rate(
    process_cost: ProcessCost,
    hz: float,
    reasons: tuple[str, ...],
    *,
    is_over_budget: bool,
    budget: Budget,
    now: float,
) -> ProcessCost:
    current = process_cost.rate_limit
    if current.is_suspended:
        if now - process_cost.changed_at < process_cost.suspend_seconds:
            return process_cost
        # The old measurements are out of date, so one window measures the process anew.
        probe = _make_rate_limit(
            _compute_min_rate(process_cost.target_hz), process_cost.target_hz, current.reasons, budget
        )
        return ProcessCost(
            process_cost.target_hz,
            probe,
            now,
            suspend_seconds=min(_MAX_SUSPEND_SECONDS, 2 * process_cost.suspend_seconds),
            pod=process_cost.pod,
            pod_cpu_share=process_cost.pod_cpu_share,
        )
    if is_over_budget and hz < current.mean_hz:
        raise_delay = _MIN_RAISE_DELAY
        if now - process_cost.raised_at < 2 * _MAX_RAISE_DELAY:
            raise_delay = min(_MAX_RAISE_DELAY, 2 * process_cost.raise_delay)
        lower = _make_rate_limit(hz, process_cost.target_hz, reasons, budget)
        if budget.can_skip_windows and _exceeds_at_minimum(process_cost, budget):
            lower = RateLimit(0.0, 0, reasons)
        if lower.mean_hz >= current.mean_hz:
            return process_cost
        return replace(
            process_cost,
            rate_limit=lower,
            changed_at=now,
            has_current_measurement=False,
            raise_delay=raise_delay,
        )
    is_worthwhile = hz >= _MIN_RAISE_FACTOR * current.mean_hz or (
        hz >= process_cost.target_hz and hz > current.mean_hz
    )
    # The first raise after a reduction waits for the delay; the raises after it only need a measurement.
    raise_delay = (
        _MIN_RAISE_DELAY if process_cost.changed_at == process_cost.raised_at else process_cost.raise_delay
    )
    if (
        is_worthwhile
        and process_cost.has_current_measurement
        and now - process_cost.changed_at >= raise_delay
    ):
        higher = _raise_rate(current, hz, process_cost.target_hz, reasons, budget)
        if higher.mean_hz > current.mean_hz:
            return replace(
                process_cost, rate_limit=higher, changed_at=now, has_current_measurement=False, raised_at=now
            )
    return process_cost


def _exceeds_at_minimum(process_cost: ProcessCost, budget: Budget) -> bool:
    """Return whether the process alone exceeds the budget at the largest stride."""
    min_hz = _compute_min_rate(process_cost.target_hz) / MAX_WINDOW_STRIDE
    return (
        min_hz * process_cost.tick_cpu_seconds > min(budget.cpu_share, process_cost.pod_cpu_share)
        or min_hz * process_cost.tick_stop_seconds > budget.stop_share
    )


def _raise_rate(
    current: RateLimit, hz: float, target_hz: float, reasons: tuple[str, ...], budget: Budget
) -> RateLimit:
    step = _MAX_RAISE_FACTOR if current.window_stride == 1 else _MAX_STRIDE_RAISE_FACTOR
    stepped = _make_rate_limit(min(hz, step * current.mean_hz), target_hz, reasons, budget)
    if stepped.mean_hz >= target_hz or stepped.reasons:
        return stepped
    return replace(stepped, reasons=current.reasons)


def _make_rate_limit(hz: float, target_hz: float, reasons: tuple[str, ...], budget: Budget) -> RateLimit:
    min_hz = _compute_min_rate(target_hz)
    hz = hz if budget.can_skip_windows else max(hz, min_hz)
    if hz >= target_hz:
        return RateLimit(target_hz)
    if hz >= min_hz:
        return RateLimit(max(min_hz, float(int(hz))), 1, reasons)
    return RateLimit(min_hz, math.ceil(min_hz / max(hz, 1e-9) - 1e-9), reasons)


def _compute_min_rate(target_hz: float) -> float:
    return min(MIN_RATE_HZ, target_hz)


def _smooth_cost(old: float, new: float, seconds: float, has_measurements: bool) -> float:
    if not has_measurements or new > 2 * old:
        return new
    if new > old:
        return old + (new - old) * min(1.0, seconds / _COST_RISE_SECONDS)
    return new + (old - new) * math.exp2(-seconds / _COST_HALF_LIFE_SECONDS)
