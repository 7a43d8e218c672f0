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


class Schedule:
    """The slots of one process; `rng` returns a number from 0 to below 1."""

    def __init__(self, plan: SamplingPlan, anchor: float, rng: Callable[[], float]) -> None:
        self._plan = plan
        self._anchor = anchor
        self._rng = rng
        self._last_slot: int | None = None
        self._slot_jitters: dict[int, float] = {}

    def choose(self, now: float) -> SampleAction | WaitAction:
        """Return what to do at `now`."""
        return choose_action(
            now,
            self._plan,
            anchor=self._anchor,
            last_slot=self._last_slot,
            slot_jitter=self._get_slot_jitter,
        )

    def record_slot(self, slot: int) -> int:
        """Record that a slot is sampled; return how many were missed before it."""
        if self._plan.interval_seconds is None:
            return 0
        first = 0 if self._last_slot is None else self._last_slot + 1
        self._last_slot = slot
        return max(0, slot - first)

    def skip_until(self, now: float) -> None:
        """Count the slots until `now` as sampled."""
        if self._plan.interval_seconds is not None:
            self._last_slot = compute_slot(now, self._plan.interval_seconds, self._anchor)

    def _get_slot_jitter(self, slot: int) -> float:
        if slot not in self._slot_jitters:
            recent = {old: jitter for old, jitter in self._slot_jitters.items() if old >= slot - 2}
            self._slot_jitters = recent
            self._slot_jitters[slot] = self._rng()
        return self._slot_jitters[slot]


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
