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
_LEAST_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Plan:
    """Lengths in seconds; `interval` None is continuous, `trigger_only` never samples by itself."""

    window: float
    interval: float | None = None
    jitter: float = 0.0
    trigger_only: bool = False

    @property
    def continuous(self) -> bool:
        return self.interval is None and not self.trigger_only


@dataclass(frozen=True, slots=True)
class Sample:
    """Sample from now on until `until`; `slot` tells scheduled windows apart."""

    until: float
    slot: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do before `until`."""

    until: float


def due(
    now: float, plan: Plan, *, anchor: float, last_slot: int | None, luck: Callable[[int], float]
) -> Sample | Wait:
    """What to do at `now`.

    `luck(slot)` is a number from 0 to below 1, the same whenever it is asked for one slot;
    `last_slot` is the slot of the last window taken.
    """
    if plan.trigger_only:
        return Wait(FOREVER)
    if plan.interval is None:
        return Sample(now + plan.window)
    slot = slot_of(now, plan.interval, anchor)
    if last_slot is not None and slot <= last_slot:
        slot = last_slot + 1
    for candidate in (slot, slot + 1):
        start = _start(candidate, plan, plan.interval, anchor, luck)
        end = anchor + (candidate + 1) * plan.interval
        if now < start:
            return Wait(start)
        if end - now >= _LEAST_SHARE * plan.window:
            return Sample(min(now + plan.window, end), candidate)
    return Wait(_start(slot + 2, plan, plan.interval, anchor, luck))


def slot_of(now: float, interval: float, anchor: float) -> int:
    """The number of the slot in which a moment lies."""
    return max(0, int((now - anchor) // interval))


def _start(slot: int, plan: Plan, interval: float, anchor: float, luck: Callable[[int], float]) -> float:
    return anchor + slot * interval + luck(slot) * plan.jitter
