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
SHARE: Final = "share"
MAX_LISTED: Final = 3
"""The most functions that a summary names."""
_INCONCLUSIVE: Final = "Not enough data to say whether"
MAX_DAYS: Final = 30
"""A longer duration is not stated exactly."""
HOUR_MINUTES: Final = 60
DAY_MINUTES: Final = 1440


@dataclass(frozen=True, slots=True)
class SummaryInput:
    """The numbers of a summary: rates, relative change and detectable change.

    `relative`, `low` and `high` are the relative change and its interval: NaN where A is 0, infinite where
    they have no bound. `detectable` is the relative change that would have been detected.
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
class ChangedFunction:
    """A function that changed; `relative` is None if one side does not have it."""

    name: str
    direction: Direction
    relative: float | None


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
    changed_functions: Sequence[ChangedFunction] | None = None,
) -> str:
    """Summarize the whole difference in one or two sentences.

    `changed_functions`, largest change first, are those of a comparison of shares, in which the total is
    not judged.
    """
    quantity = TYPE_NAMES[kind]
    if unobserved:
        subject = "Neither A nor B has" if len(unobserved) > 1 else f"{unobserved[0]} has no"
        return f"{subject} windows here, so there is nothing to compare."
    if blocking_reason:
        return f"{quantity[0].upper()}{quantity[1:]} cannot be compared: {blocking_reason.rstrip('.')}."
    if not (summary.samples or summary.a or summary.b):
        return f"Neither side took any {quantity}."
    numbers = format_rates(summary.a, summary.b, kind, summary.unit)
    if changed_functions is not None:
        return f"{_summarize_functions(changed_functions)} {_summarize_total(summary, quantity, numbers)}"
    if summary.direction is Direction.NEW:
        return f"B takes {quantity}, and A took none ({numbers})."
    if summary.direction is Direction.REMOVED:
        return f"B takes no {quantity}, and A took some ({numbers})."
    if summary.direction in (Direction.INCREASED, Direction.DECREASED):
        more = "more" if summary.direction is Direction.INCREASED else "less"
        by = f"{format_percent(abs(summary.relative))} {more}"
        return f"B takes {by} {quantity} than A ({_format_interval(summary)}; {numbers})."
    if summary.direction is Direction.MINOR:
        return f"No relevant change in {quantity} ({_format_interval(summary)}; {numbers})."
    if summary.direction is Direction.UNCHANGED:
        sensitivity = f"a change of {_format_share(summary.detectable)} would have shown"
        return f"No detectable change in {quantity} ({_format_interval(summary)}; {numbers}): {sensitivity}."
    if not summary.a:
        return f"B took so little {quantity} that it may be chance that A took none ({numbers})."
    inconclusive = f"{_INCONCLUSIVE} {quantity} changed ({_format_interval(summary)}; {numbers})"
    return inconclusive + _describe_required_sample(summary, required)


def format_rates(a: float, b: float, kind: ProfileType, unit: str) -> str:
    """Format two rates in one unit.

    Examples: `71 → 77 m/pod`, `1.2 → 1.4 threads/pod`, `3.1 → 3.4 ms/request`.
    """
    if unit == REQUEST:
        scale, name = 1000.0, "ms/request"
    elif kind is ProfileType.WALL:
        scale, name = 1.0, "threads/pod"
    elif max(a, b) < 1:
        scale, name = 1000.0, "m/pod"
    else:
        scale, name = 1.0, "cores/pod"
    return f"{format_number(a * scale)} → {format_number(b * scale)} {name}"


def _summarize_functions(changed: Sequence[ChangedFunction]) -> str:
    if not changed:
        return "No function takes a different share of the profile."
    names = [f"{one.name} ({_describe_function_change(one)})" for one in changed[:MAX_LISTED]]
    more = f" and {len(changed) - MAX_LISTED} more" if len(changed) > MAX_LISTED else ""
    count = "1 function changed" if len(changed) == 1 else f"{len(changed)} functions changed"
    return f"{count}: {', '.join(names)}{more}."


def _describe_function_change(changed: ChangedFunction) -> str:
    if changed.relative is None or changed.direction in (Direction.NEW, Direction.REMOVED):
        return changed.direction.value
    return format_signed(format_percent(abs(changed.relative), 0), changed.relative)


def _summarize_total(summary: SummaryInput, quantity: str, numbers: str) -> str:
    change = f"{format_signed(format_percent(summary.relative), summary.relative)}, " if summary.a else ""
    return f"Total {quantity}: {change}{numbers}; may be load."


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
