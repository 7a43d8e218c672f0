"""What a comparison found, in the sentence that a person would say."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sidelight_model.change import Direction, format_number, format_percent, format_signed
from sidelight_model.counts import ProfileType

TYPE_NAMES: Final = {
    ProfileType.CPU: "CPU time",
    ProfileType.WALL: "thread time",
    ProfileType.GIL: "GIL time",
}
POD_SECOND: Final = "pod-second"
REQUEST: Final = "request"
_INCONCLUSIVE: Final = "Not enough data to tell whether"
_UNKNOWN_LOAD_REASONS: Final = {
    POD_SECOND: "they ran at different times, and their load may differ",
    REQUEST: "they ran at different times, and their requests may differ",
}
MAX_DAYS: Final = 30
"""Where it takes longer nobody wants to know how long."""
HOUR_MINUTES: Final = 60
DAY_MINUTES: Final = 1440


@dataclass(frozen=True, slots=True)
class SummaryInput:
    """What the sentence is made of: rates, the relative change with its interval, what would have shown.

    `relative` and its ends are NaN where A is 0, infinite where they have no bound. `is_load_known`:
    something tells how far load alone makes sides differ.
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
    is_load_known: bool = True


@dataclass(frozen=True, slots=True)
class RequiredSample:
    """What would do to see a change of `min_effect`: more minutes, or so many pods of each side, else not
    even the `max_pods`.

    `pod_variation`: how far pods differ for good. `is_too_brief`: the minutes are the least there must be.
    `is_transient`: it is load, which sides of the same time share.
    """

    min_effect: float
    minutes: float | None = None
    pods: int | None = None
    pod_variation: float = 0.0
    is_too_brief: bool = False
    is_transient: bool = False
    max_pods: int = 1000


def summarize_difference(
    summary: SummaryInput,
    kind: ProfileType,
    *,
    unobserved: Sequence[str] = (),
    blocking_reason: str = "",
    required: RequiredSample | None = None,
) -> str:
    """The whole difference in one sentence or two."""
    what = TYPE_NAMES[kind]
    if unobserved:
        who = "Neither A nor B has" if len(unobserved) > 1 else f"{unobserved[0]} has no"
        return f"{who} windows here, so there is nothing to compare."
    if blocking_reason:
        return f"{what[0].upper()}{what[1:]} cannot be compared: {blocking_reason.rstrip('.')}."
    if not (summary.samples or summary.a or summary.b):
        return f"Neither side took any {what}."
    numbers = f"{format_number(summary.a)} → {format_number(summary.b)} seconds per {summary.unit}"
    if not summary.is_load_known and not (required and required.is_too_brief):
        return f"{_INCONCLUSIVE} {what} changed ({numbers}): {_UNKNOWN_LOAD_REASONS[summary.unit]}."
    if summary.direction is Direction.NEW:
        return f"B takes {what}, and A took none ({numbers})."
    if summary.direction is Direction.REMOVED:
        return f"B takes no {what}, and A took some ({numbers})."
    if summary.direction in (Direction.INCREASED, Direction.DECREASED):
        more = "more" if summary.direction is Direction.INCREASED else "less"
        by = f"{format_percent(abs(summary.relative))} {more}"
        return f"B takes {by} {what} than A ({_format_interval(summary)}; {numbers})."
    if summary.direction is Direction.UNCHANGED:
        shown = f"a change of {_format_share(summary.detectable)} would have shown"
        return f"No detectable change in {what} ({_format_interval(summary)}; {numbers}): {shown}."
    if not summary.a:
        return f"B took so little {what} that it may be chance that A took none ({numbers})."
    interval = f"{_format_interval(summary)}; " if summary.is_load_known else ""
    untold = f"{_INCONCLUSIVE} {what} changed ({interval}{numbers})"
    return untold + _describe_required_sample(summary, required)


def _format_interval(summary: SummaryInput) -> str:
    digits = 0 if round(summary.level, 4) == round(summary.level, 2) else 1
    level = f"{format_percent(summary.level, digits)} interval"
    if math.isnan(summary.low) or math.isnan(summary.high):
        return f"no {level}"
    low = format_signed(format_percent(summary.low), summary.low)
    if math.isinf(summary.high):
        return f"{level} {low} and up"
    return f"{level} {low} to {format_signed(format_percent(summary.high), summary.high)}"


def _describe_required_sample(summary: SummaryInput, required: RequiredSample | None) -> str:
    if required is None:
        return "."
    seen = f"a change of {_format_share(required.min_effect)}"
    if required.minutes is not None:
        time = f"{format_minutes(required.minutes)} more of both sides"
        if required.is_too_brief:
            return f": both were watched too briefly to tell change from chance. Take at least {time}."
        pods = "" if required.pods is None else f", or {required.pods} pods of each,"
        if required.minutes > MAX_DAYS * DAY_MINUTES:
            known = required.is_transient or required.pods is not None
            shown = (
                _describe_concurrent_hint(summary)
                if required.is_transient
                else ""
                if known
                else _describe_detectable(summary)
            )
            return f": it takes over {MAX_DAYS} days more of both sides{pods} to show {seen}{shown}."
        return (
            f": about {time}{pods} would show "
            f"{seen}{_describe_concurrent_hint(summary) if required.is_transient else ''}."
        )
    pods = (
        f": pods of one side differ by about {_format_share(required.pod_variation)}, however long they run"
    )
    if required.pods is not None:
        return f"{pods}, so it takes {required.pods} of each side to show {seen}."
    return (
        f"{pods}, so not even {required.max_pods:,} of each side would show "
        f"{seen}{_describe_detectable(summary)}."
    )


def _describe_detectable(summary: SummaryInput) -> str:
    return (
        ""
        if math.isinf(summary.detectable)
        else f". With these one of {_format_share(summary.detectable)} would show"
    )


def _describe_concurrent_hint(summary: SummaryInput) -> str:
    """What takes load away, which is more than waiting can."""
    other = "" if summary.unit == REQUEST else ", or per request,"
    return f". Most of what blurs it comes and goes: if that is load, both at the same time{other} need less"


def format_minutes(minutes: float) -> str:
    """Minutes in words, rounded up to what a person would say."""
    if minutes <= 1:
        return "a minute"
    if minutes < 2 * HOUR_MINUTES:
        return f"{math.ceil(minutes)} minutes"
    if minutes < 2 * DAY_MINUTES:
        return f"{math.ceil(minutes / HOUR_MINUTES)} hours"
    return f"{math.ceil(minutes / DAY_MINUTES):,} days"


def _format_share(part: float) -> str:
    """A share without digits that nobody reads."""
    return format_percent(part, 0 if part >= 0.1 or round(part * 100, 6).is_integer() else 1)
