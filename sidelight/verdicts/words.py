"""What a comparison found, in the sentence that a person would say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sidelight.stacks.changes import Direction, percent, short, signed
from sidelight.stacks.counts import ProfileType

WHAT: Final = {
    ProfileType.CPU: "CPU time",
    ProfileType.WALL: "thread time",
    ProfileType.GIL: "GIL time",
}
POD_SECOND: Final = "pod-second"
REQUEST: Final = "request"
HOUR_MINUTES: Final = 60
DAY_MINUTES: Final = 1440


@dataclass(frozen=True, slots=True)
class Said:
    """What the sentence is made of: rates, the relative change with its interval, what would have shown.

    `relative` and its ends are NaN where A is 0, infinite where they have no bound.
    """

    a: float
    b: float
    relative: float
    low: float
    high: float
    detectable: float
    direction: Direction
    samples: int
    level: float = 0.95
    unit: str = POD_SECOND


@dataclass(frozen=True, slots=True)
class Lack:
    """What would do to see a change of `detect`: more minutes, or more pods; neither where nothing tells."""

    detect: float
    minutes: float | None = None
    pods: int | None = None


def sentence(
    said: Said,
    kind: ProfileType,
    *,
    unwatched: Sequence[str] = (),
    refused: str = "",
    lack: Lack | None = None,
) -> str:
    """The whole difference in one sentence or two."""
    what = WHAT[kind]
    if unwatched:
        have = "have" if len(unwatched) > 1 else "has"
        return f"{' and '.join(unwatched)} {have} no windows here, so there is nothing to compare."
    if refused:
        return f"{what} cannot be compared: {refused.rstrip('.')}."
    if not said.samples:
        return f"Neither side took any {what}."
    numbers = f"{short(said.a)} → {short(said.b)} seconds per {said.unit}"
    if said.direction is Direction.NEW:
        return f"B takes {what}, A took none ({numbers})."
    if said.direction is Direction.GONE:
        return f"B takes no {what}, A did ({numbers})."
    if said.direction in (Direction.MORE, Direction.LESS):
        by = percent(abs(said.relative))
        return f"B takes {by} {said.direction} {what} than A ({_interval(said)}; {numbers})."
    if said.direction is Direction.SAME:
        shown = f"a change of {_about(said.detectable)} would have shown"
        return f"No detectable change in {what} ({_interval(said)}; {numbers}): {shown}."
    return f"Not enough data to tell whether {what} changed ({_interval(said)}; {numbers}){_lacking(lack)}"


def _interval(said: Said) -> str:
    level = f"{percent(said.level, 0 if round(said.level, 4) == round(said.level, 2) else 1)} interval"
    if math.isnan(said.low) or math.isnan(said.high):
        return f"no {level}"
    low = signed(percent(said.low), said.low)
    if math.isinf(said.high):
        return f"{level} {low} and up"
    return f"{level} {low} to {signed(percent(said.high), said.high)}"


def _lacking(lack: Lack | None) -> str:
    if lack is None:
        return "."
    seen = f"a change of {_about(lack.detect)}"
    if lack.minutes is not None:
        return f": about {duration(lack.minutes)} more of both sides would show {seen}."
    if lack.pods is not None:
        return f": pods differ too much among themselves, and {lack.pods} of each side would show {seen}."
    return f": nothing tells how much more would show {seen}."


def duration(minutes: float) -> str:
    """Minutes in words, rounded up to what a person would say."""
    if minutes <= 1:
        return "a minute"
    if minutes < 2 * HOUR_MINUTES:
        return f"{math.ceil(minutes)} minutes"
    if minutes < 2 * DAY_MINUTES:
        return f"{math.ceil(minutes / HOUR_MINUTES)} hours"
    return f"{math.ceil(minutes / DAY_MINUTES):,} days"


def _about(part: float) -> str:
    """A share without digits that nobody reads."""
    return percent(part, 0 if part >= 0.1 or round(part * 100, 6).is_integer() else 1)
