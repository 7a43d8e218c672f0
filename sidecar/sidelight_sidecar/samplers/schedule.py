"""When to sample: a decision from the clock and the plan, so that it can be tried on any clock.

Continuous windows follow each other without a gap. On a schedule, time is cut into slots as long
as the interval, counted from `anchor`; each slot holds one window that begins after a jitter of
its own. A window always ends inside its slot, so two can never overlap; one that is a little late
is that much shorter, and one that could not begin in time (a capture was running, the process
could not be read) is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FOREVER = float("inf")
_MIN_WINDOW_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class SamplingPlan:
    """Lengths in seconds; `interval_seconds` None is continuous, `is_on_demand` never samples by itself."""

    window_seconds: float
    interval_seconds: float | None = None
    jitter_seconds: float = 0.0
    is_on_demand: bool = False

    @property
    def is_continuous(self) -> bool:
        return self.interval_seconds is None and not self.is_on_demand


@dataclass(frozen=True, slots=True)
class SampleAction:
    """Sample from now on until `until`; `slot` tells scheduled windows apart."""

    until: float
    slot: int = 0


@dataclass(frozen=True, slots=True)
class WaitAction:
    """Nothing to do before `until`."""

    until: float


def choose_action(
    now: float,
    plan: SamplingPlan,
    *,
    anchor: float,
    last_slot: int | None,
    slot_jitter: Callable[[int], float],
) -> SampleAction | WaitAction:
    """What to do at `now`.

    `luck(slot)` is a number from 0 to below 1, the same whenever it is asked for one slot;
    `last_slot` is the slot of the last window taken.
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
    """The number of the slot in which a moment lies."""
    return max(0, int((now - anchor) // interval))


def _compute_slot_start(
    slot: int, plan: SamplingPlan, interval: float, anchor: float, slot_jitter: Callable[[int], float]
) -> float:
    return anchor + slot * interval + slot_jitter(slot) * plan.jitter_seconds
