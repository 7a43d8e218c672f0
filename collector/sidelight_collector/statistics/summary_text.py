"""Summarize the result of a comparison in a sentence for people."""

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
_INCONCLUSIVE: Final = "Not enough data to say whether"
_UNKNOWN_LOAD_REASONS: Final = {
    POD_SECOND: "they ran at different times, and their load may differ",
    REQUEST: "they ran at different times, and their requests may differ",
}
MAX_DAYS: Final = 30
"""A longer duration is not stated exactly."""
HOUR_MINUTES: Final = 60
DAY_MINUTES: Final = 1440


@dataclass(frozen=True, slots=True)
class SummaryInput:
    """The numbers of a summary: rates, relative change and detectable change.

    `relative`, `low` and `high` are the relative change and its interval: NaN where A is 0, infinite where
    they have no bound. `detectable` is the relative change that would have been detected. `is_load_known`
    tells whether it is known how far load alone makes the sides differ.
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
    """The sample size that detects a change of `min_effect`.

    `minutes` is the additional time, `pods` the number of pods of each side. If both are None, not even
    `max_pods` are sufficient. `pod_variation` is the lasting difference between pods. `is_too_brief`: the
    minutes are the minimum for any result. `is_transient`: the noise is load, which concurrent sides share.
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
    """Summarize the whole difference in one or two sentences."""
    quantity = TYPE_NAMES[kind]
    if unobserved:
        subject = "Neither A nor B has" if len(unobserved) > 1 else f"{unobserved[0]} has no"
        return f"{subject} windows here, so there is nothing to compare."
    if blocking_reason:
        return f"{quantity[0].upper()}{quantity[1:]} cannot be compared: {blocking_reason.rstrip('.')}."
    if not (summary.samples or summary.a or summary.b):
        return f"Neither side took any {quantity}."
    numbers = f"{format_number(summary.a)} → {format_number(summary.b)} seconds per {summary.unit}"
    if not summary.is_load_known and not (required and required.is_too_brief):
        return f"{_INCONCLUSIVE} {quantity} changed ({numbers}): {_UNKNOWN_LOAD_REASONS[summary.unit]}."
    if summary.direction is Direction.NEW:
        return f"B takes {quantity}, and A took none ({numbers})."
    if summary.direction is Direction.REMOVED:
        return f"B takes no {quantity}, and A took some ({numbers})."
    if summary.direction in (Direction.INCREASED, Direction.DECREASED):
        more = "more" if summary.direction is Direction.INCREASED else "less"
        by = f"{format_percent(abs(summary.relative))} {more}"
        return f"B takes {by} {quantity} than A ({_format_interval(summary)}; {numbers})."
    if summary.direction is Direction.UNCHANGED:
        sensitivity = f"a change of {_format_share(summary.detectable)} would have shown"
        return f"No detectable change in {quantity} ({_format_interval(summary)}; {numbers}): {sensitivity}."
    if not summary.a:
        return f"B took so little {quantity} that it may be chance that A took none ({numbers})."
    interval = f"{_format_interval(summary)}; " if summary.is_load_known else ""
    inconclusive = f"{_INCONCLUSIVE} {quantity} changed ({interval}{numbers})"
    return inconclusive + _describe_required_sample(summary, required)


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
    change = f"a change of {_format_share(required.min_effect)}"
    if required.minutes is not None:
        time = f"{format_minutes(required.minutes)} more of both sides"
        if required.is_too_brief:
            return f": both sides are too short to distinguish a change from chance. Take at least {time}."
        pods = "" if required.pods is None else f", or {required.pods} pods of each,"
        if required.minutes > MAX_DAYS * DAY_MINUTES:
            has_alternative = required.is_transient or required.pods is not None
            suffix = (
                _describe_concurrent_hint(summary)
                if required.is_transient
                else ""
                if has_alternative
                else _describe_detectable(summary)
            )
            return f": it takes over {MAX_DAYS} days more of both sides{pods} to show {change}{suffix}."
        return (
            f": about {time}{pods} would show "
            f"{change}{_describe_concurrent_hint(summary) if required.is_transient else ''}."
        )
    pods = (
        f": pods of one side differ by about {_format_share(required.pod_variation)}, however long they run"
    )
    if required.pods is not None:
        return f"{pods}, so it takes {required.pods} of each side to show {change}."
    return (
        f"{pods}, so not even {required.max_pods:,} of each side would show "
        f"{change}{_describe_detectable(summary)}."
    )


def _describe_detectable(summary: SummaryInput) -> str:
    return (
        ""
        if math.isinf(summary.detectable)
        else f". With these one of {_format_share(summary.detectable)} would show"
    )


def _describe_concurrent_hint(summary: SummaryInput) -> str:
    """Describe what removes load, because waiting removes less."""
    other = "" if summary.unit == REQUEST else ", or per request,"
    return f". Most of what blurs it comes and goes: if that is load, both at the same time{other} need less"


def format_minutes(minutes: float) -> str:
    """Format minutes in words, rounded up to a usual unit."""
    if minutes <= 1:
        return "a minute"
    if minutes < 2 * HOUR_MINUTES:
        return f"{math.ceil(minutes)} minutes"
    if minutes < 2 * DAY_MINUTES:
        return f"{math.ceil(minutes / HOUR_MINUTES)} hours"
    return f"{math.ceil(minutes / DAY_MINUTES):,} days"


def _format_share(part: float) -> str:
    """Format a share without insignificant digits."""
    return format_percent(part, 0 if part >= 0.1 or round(part * 100, 6).is_integer() else 1)
