"""What a comparison found, in the sentence that a person would say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sidelight_model.change import Direction, percent, short, signed
from sidelight_model.counts import ProfileType

WHAT: Final = {
    ProfileType.CPU: "CPU time",
    ProfileType.WALL: "thread time",
    ProfileType.GIL: "GIL time",
}
POD_SECOND: Final = "pod-second"
REQUEST: Final = "request"
_UNTOLD: Final = "Not enough data to tell whether"
_OTHERWISE: Final = {
    POD_SECOND: "they ran at different times, and their load may differ",
    REQUEST: "they ran at different times, and their requests may differ",
}
LONG_DAYS: Final = 30
"""Where it takes longer nobody wants to know how long."""
HOUR_MINUTES: Final = 60
DAY_MINUTES: Final = 1440


@dataclass(frozen=True, slots=True)
class Said:
    """What the sentence is made of: rates, the relative change with its interval, what would have shown.

    `relative` and its ends are NaN where A is 0, infinite where they have no bound. `load_known`: something
    tells how far load alone makes sides differ.
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
    load_known: bool = True


@dataclass(frozen=True, slots=True)
class Lack:
    """What would do to see a change of `detect`: more minutes, or so many pods of each side, else not even
    the `most`.

    `differ`: how far pods differ for good. `brief`: the minutes are the least there must be. `passing`: it is
    load, which sides of the same time share.
    """

    detect: float
    minutes: float | None = None
    pods: int | None = None
    differ: float = 0.0
    brief: bool = False
    passing: bool = False
    most: int = 1000


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
        who = "Neither A nor B has" if len(unwatched) > 1 else f"{unwatched[0]} has no"
        return f"{who} windows here, so there is nothing to compare."
    if refused:
        return f"{what[0].upper()}{what[1:]} cannot be compared: {refused.rstrip('.')}."
    if not (said.samples or said.a or said.b):
        return f"Neither side took any {what}."
    numbers = f"{short(said.a)} → {short(said.b)} seconds per {said.unit}"
    if not said.load_known and not (lack and lack.brief):
        return f"{_UNTOLD} {what} changed ({numbers}): {_OTHERWISE[said.unit]}."
    if said.direction is Direction.NEW:
        return f"B takes {what}, and A took none ({numbers})."
    if said.direction is Direction.GONE:
        return f"B takes no {what}, and A took some ({numbers})."
    if said.direction in (Direction.MORE, Direction.LESS):
        more = "more" if said.direction is Direction.MORE else "less"
        by = f"{percent(abs(said.relative))} {more}"
        return f"B takes {by} {what} than A ({_interval(said)}; {numbers})."
    if said.direction is Direction.SAME:
        shown = f"a change of {_about(said.detectable)} would have shown"
        return f"No detectable change in {what} ({_interval(said)}; {numbers}): {shown}."
    if not said.a:
        return f"B took so little {what} that it may be chance that A took none ({numbers})."
    interval = f"{_interval(said)}; " if said.load_known else ""
    untold = f"{_UNTOLD} {what} changed ({interval}{numbers})"
    return untold + _lacking(said, lack)


def _interval(said: Said) -> str:
    level = f"{percent(said.level, 0 if round(said.level, 4) == round(said.level, 2) else 1)} interval"
    if math.isnan(said.low) or math.isnan(said.high):
        return f"no {level}"
    low = signed(percent(said.low), said.low)
    if math.isinf(said.high):
        return f"{level} {low} and up"
    return f"{level} {low} to {signed(percent(said.high), said.high)}"


def _lacking(said: Said, lack: Lack | None) -> str:
    if lack is None:
        return "."
    seen = f"a change of {_about(lack.detect)}"
    if lack.minutes is not None:
        time = f"{duration(lack.minutes)} more of both sides"
        if lack.brief:
            return f": both were watched too briefly to tell change from chance. Take at least {time}."
        pods = "" if lack.pods is None else f", or {lack.pods} pods of each,"
        if lack.minutes > LONG_DAYS * DAY_MINUTES:
            known = lack.passing or lack.pods is not None
            shown = _sooner(said) if lack.passing else "" if known else _shown(said)
            return f": it takes over {LONG_DAYS} days more of both sides{pods} to show {seen}{shown}."
        return f": about {time}{pods} would show {seen}{_sooner(said) if lack.passing else ''}."
    pods = f": pods of one side differ by about {_about(lack.differ)}, however long they run"
    if lack.pods is not None:
        return f"{pods}, so it takes {lack.pods} of each side to show {seen}."
    return f"{pods}, so not even {lack.most:,} of each side would show {seen}{_shown(said)}."


def _shown(said: Said) -> str:
    return "" if math.isinf(said.detectable) else f". With these one of {_about(said.detectable)} would show"


def _sooner(said: Said) -> str:
    """What takes load away, which is more than waiting can."""
    other = "" if said.unit == REQUEST else ", or per request,"
    return f". Most of what blurs it comes and goes: if that is load, both at the same time{other} need less"


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
