"""How fast each process may be sampled so that all stays within a budget: decided from what was measured.

What sampling takes is nearly proportional to its rate, so the rate that fits is computed, not
searched for: room / what a tick takes. The room is shared max-min: a process that takes little
keeps its rate, and those that take much divide what is left. Two things are bounded: the CPU time
of sampling all processes, as a share of one core, and the time each process stands still, as a
share of its own.

Over budget, rates are set so that four fifths of the budget are used: first lower rates, down to
FLOOR_HZ; then only some of the windows are sampled (`every`); and a process that would take more
than the budget in the longest such row, all by itself, is left alone (off) and tried again later.

Nothing swings. What a tick takes is believed at once when it rises and forgotten slowly when it
falls. A rate is lowered only when the budget is exceeded. It is raised only when that is worth a
quarter, in steps (by half, or to four times the windows), after it was measured, and after a wait
that doubles each time a raise had to be taken back: a rate that cannot settle is raised and taken
back two dozen times in an hour at most.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TypeVar

from sidelight_sidecar.samplers.sampler import SamplingCost

K = TypeVar("K", bound=Hashable)

MIN_RATE_HZ = 5.0
"""Below, a window holds too few samples to tell much: fewer windows are better than thinner ones."""
MAX_WINDOW_STRIDE = 20
SUSPEND_SECONDS = 600.0
_MAX_SUSPEND_SECONDS = 3600.0
CPU, STOPS, CGROUP, PAUSED = "cpu", "stops", "cgroup", "paused"
REDUCTION_REASONS = (CPU, STOPS, CGROUP, PAUSED)
"""Why a rate is below what was asked: also a metric's labels and the words in `quality.reduced`."""

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
    """Shares: `cpu_share` of one core for all processes together, `stop_share` of each process's time.

    `cpu_reason` is the word for what bounds `cpu_share`; without `can_skip_windows`, rates fall to the
    floor and no window is left out.
    """

    cpu_share: float
    stop_share: float
    cpu_reason: str = CPU
    can_skip_windows: bool = True


@dataclass(frozen=True, slots=True)
class RateLimit:
    """Sample at `rate_hz`, one window of `window_stride` (0: none at all); `reasons` why not as asked."""

    rate_hz: float
    window_stride: int = 1
    reasons: tuple[str, ...] = ()

    @property
    def is_suspended(self) -> bool:
        return self.window_stride == 0

    @property
    def mean_hz(self) -> float:
        """The rate over a whole row of windows."""
        return self.rate_hz / self.window_stride if self.window_stride else 0.0


@dataclass(frozen=True, slots=True)
class ProcessCost:
    """What is known of one process: `tick_cpu_seconds` and `tick_stop_seconds` are seconds taken by one tick.

    `has_measurements` once it was measured at all, `has_current_measurement` since the allowance was last
    changed (`changed_at`); `raise_delay` seconds must pass before a rate that was lowered is raised, and
    `raised_at` is when the last raise was; `suspend_seconds` seconds must pass before one that is off is
    tried again.
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

    @property
    def cpu_share(self) -> float:
        """The share of a core this process's sampling takes, by what is known."""
        return self.rate_limit.mean_hz * self.tick_cpu_seconds

    @property
    def stop_share(self) -> float:
        """The share of its time this process stands still, by what is known."""
        return self.rate_limit.mean_hz * self.tick_stop_seconds


def admit_process(
    process_costs: Mapping[K, ProcessCost],
    key: K,
    target_hz: float,
    budget: Budget,
    now: float,
    previous: ProcessCost | None = None,
) -> ProcessCost:
    """The account of a process that comes in; `previous` is one it had.

    One that is new is taken for one like the others until it is measured.
    """
    if previous is not None and previous.has_measurements:
        if previous.rate_limit.is_suspended and budget.can_skip_windows:
            return replace(previous, target_hz=target_hz)
        admitted = replace(
            previous,
            target_hz=target_hz,
            rate_limit=RateLimit(target_hz),
            changed_at=now,
            has_current_measurement=False,
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
            target_hz, RateLimit(target_hz), now, tick_cpu_seconds=cpu, tick_stop_seconds=stop
        )
    hz, reasons = compute_target_rates({**process_costs, key: admitted}, budget)[key]
    if not admitted.has_measurements:
        hz = max(hz, _compute_min_rate(target_hz))
    return replace(admitted, rate_limit=_make_rate_limit(hz, target_hz, reasons, budget))


def record_usage(process_cost: ProcessCost, sampling_cost: SamplingCost) -> ProcessCost:
    """The account after a window; one without a tick tells nothing."""
    if not sampling_cost.ticks:
        return process_cost
    # A window stands for those that are left out beside it.
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
    """The accounts with the allowances that hold from now on."""
    target_rates = compute_target_rates(process_costs, budget)
    is_over_budget = sum(account.cpu_share for account in process_costs.values()) > budget.cpu_share
    return {
        key: _adjust_rate(
            account,
            *target_rates[key],
            is_over_budget=is_over_budget or account.stop_share > budget.stop_share,
            budget=budget,
            now=now,
        )
        for key, account in process_costs.items()
    }


def compute_target_rates(
    process_costs: Mapping[K, ProcessCost], budget: Budget
) -> dict[K, tuple[float, tuple[str, ...]]]:
    """The mean rate of each process that together take four fifths of the budget, and what bounds it."""
    limits = {
        key: min(account.target_hz, _TARGET_SHARE * budget.stop_share / max(account.tick_stop_seconds, 1e-12))
        for key, account in process_costs.items()
    }
    costs = {key: max(account.tick_cpu_seconds, 1e-12) for key, account in process_costs.items()}
    needs = [limits[key] * costs[key] for key in process_costs]
    found: dict[K, tuple[float, tuple[str, ...]]] = {}
    for key, need, share in zip(
        process_costs, needs, compute_max_min_shares(needs, _TARGET_SHARE * budget.cpu_share), strict=True
    ):
        reasons = (STOPS,) if limits[key] < process_costs[key].target_hz else ()
        found[key] = (
            (share / costs[key], (budget.cpu_reason, *reasons)) if share < need else (limits[key], reasons)
        )
    return found


def compute_max_min_shares(demands: Sequence[float], capacity: float) -> list[float]:
    """Max-min shares of `capacity`: nobody gets more than it needs, nor less than another that needs more."""
    shares = [0.0] * len(demands)
    for place, index in enumerate(sorted(range(len(demands)), key=demands.__getitem__)):
        shares[index] = min(demands[index], capacity / (len(demands) - place))
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
        # What it took then is no guide any more; one window will tell.
        probe = _make_rate_limit(
            _compute_min_rate(process_cost.target_hz), process_cost.target_hz, current.reasons, budget
        )
        return ProcessCost(
            process_cost.target_hz,
            probe,
            now,
            suspend_seconds=min(_MAX_SUSPEND_SECONDS, 2 * process_cost.suspend_seconds),
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
    # The first step up after having been lowered waits; the steps that follow it only need to be measured.
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
    """Whether the longest row of windows would take more than the budget if it were sampled alone."""
    min_hz = _compute_min_rate(process_cost.target_hz) / MAX_WINDOW_STRIDE
    return (
        min_hz * process_cost.tick_cpu_seconds > budget.cpu_share
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
    return RateLimit(min_hz, math.ceil(min_hz / hz - 1e-9), reasons)


def _compute_min_rate(target_hz: float) -> float:
    return min(MIN_RATE_HZ, target_hz)


def _smooth_cost(old: float, new: float, seconds: float, has_measurements: bool) -> float:
    if not has_measurements or new > 2 * old:
        return new
    if new > old:
        return old + (new - old) * min(1.0, seconds / _COST_RISE_SECONDS)
    return new + (old - new) * math.exp2(-seconds / _COST_HALF_LIFE_SECONDS)
