"""Decide when to sample, from the plan and the time.

The clock is an argument, so that tests can use any. Continuous windows follow each other without a gap.
With an interval, time is divided into slots of that length, counted from `anchor`. Each slot holds one
window, which begins after a jitter of the slot's own. A window always ends inside its slot, so two can
never overlap. A window that begins late is shorter by that much; a window that could not begin in time (a
capture was running, the process could not be read) is skipped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FOREVER = float("inf")
_MIN_WINDOW_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """When to sample; lengths in seconds.

    Without `interval_seconds` sampling is continuous. With `is_on_demand` no window is sampled by schedule.
    """

    window_seconds: float
    interval_seconds: float | None = None
    jitter_seconds: float = 0.0
    is_on_demand: bool = False

    @property
    def is_continuous(self) -> bool:
        return self.interval_seconds is None and not self.is_on_demand


@dataclass(frozen=True, slots=True)
class SampleAction:
    """Sample from now until `until`; `slot` is the number of a scheduled window."""

    until: float
    slot: int = 0


@dataclass(frozen=True, slots=True)
class WaitAction:
    """Do nothing before `until`."""

    until: float


def choose_action(
    now: float,
    plan: SamplingPlan,
    *,
    anchor: float,
    last_slot: int | None,
    slot_jitter: Callable[[int], float],
) -> SampleAction | WaitAction:
    """Return what to do at `now`.

    `slot_jitter(slot)` is a number from 0 to below 1, always the same for one slot. `last_slot` is the slot
    of the last window that was sampled.
    """
    if plan.is_on_demand:
        return WaitAction(FOREVER)
    if plan.interval_seconds is None:
        return SampleAction(now + plan.window_seconds)
    slot = compute_slot(now, plan.interval_seconds, anchor)
    if last_slot is not None and slot <= last_slot:
        slot = last_slot + 1
    for candidate in (slot, slot + 1):
        start = _compute_slot_start(candidate, plan, plan.interval_seconds, anchor, slot_jitter)
        end = anchor + (candidate + 1) * plan.interval_seconds
        if now < start:
            return WaitAction(start)
        if end - now >= _MIN_WINDOW_SHARE * plan.window_seconds:
            return SampleAction(min(now + plan.window_seconds, end), candidate)
    return WaitAction(_compute_slot_start(slot + 2, plan, plan.interval_seconds, anchor, slot_jitter))


def compute_slot(now: float, interval: float, anchor: float) -> int:
    """Return the number of the slot that contains `now`."""
    return max(0, int((now - anchor) // interval))


def _compute_slot_start(
    slot: int, plan: SamplingPlan, interval: float, anchor: float, slot_jitter: Callable[[int], float]
) -> float:
    return anchor + slot * interval + slot_jitter(slot) * plan.jitter_seconds
