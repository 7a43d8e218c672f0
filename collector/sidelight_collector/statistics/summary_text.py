"""Summarize the result of a comparison in a sentence for people."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sidelight_collector.statistics.required_sample_text import RequiredSample, format_share
from sidelight_model.change import Direction, format_number, format_percent, format_signed
from sidelight_model.counts import ProfileType

TYPE_NAMES: Final = {
    ProfileType.CPU: "CPU time",
    ProfileType.WALL: "thread time",
    ProfileType.GIL: "GIL time",
    ProfileType.GIL_WAIT: "time waiting for the GIL",
    ProfileType.OFF_CPU: "off-CPU time",
    ProfileType.TASKS: "time of tasks",
}
POD_SECOND: Final = "pod-second"
REQUEST: Final = "request"
SHARE: Final = "share"
MAX_LISTED: Final = 3
"""The most functions that a summary names."""


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
    evidence = f"({_format_interval(summary)}; {numbers})"
    match summary.direction:
        case Direction.NEW:
            return f"B takes {quantity}, and A took none ({numbers})."
        case Direction.REMOVED:
            return f"B takes no {quantity}, and A took some ({numbers})."
        case Direction.INCREASED | Direction.DECREASED as direction:
            more = "more" if direction is Direction.INCREASED else "less"
            return f"B takes {format_percent(abs(summary.relative))} {more} {quantity} than A {evidence}."
        case Direction.MINOR:
            return f"No relevant change in {quantity} {evidence}."
        case Direction.UNCHANGED:
            sensitivity = f"a change of {format_share(summary.detectable)} would have shown"
            return f"No detectable change in {quantity} {evidence}: {sensitivity}."
    if not summary.a:
        return f"B took so little {quantity} that it may be chance that A took none ({numbers})."
    is_per_request = summary.unit == REQUEST
    lacking = required.describe(summary.detectable, is_per_request=is_per_request) if required else ""
    return f"Not enough data to say whether {quantity} changed {evidence}{lacking}."


def format_rates(a: float, b: float, kind: ProfileType, unit: str) -> str:
    """Format two rates in one unit.

    Examples: `71 → 77 m/pod`, `1.2 → 1.4 threads/pod`, `3.1 → 3.4 ms/request`.
    """
    if unit == REQUEST:
        scale, name = 1000.0, "ms/request"
    elif not kind.is_cpu_time:
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
    return _format_change(changed.relative, 0)


def _summarize_total(summary: SummaryInput, quantity: str, numbers: str) -> str:
    change = f"{_format_change(summary.relative)}, " if summary.a else ""
    return f"Total {quantity}: {change}{numbers}; may be load."


def _format_interval(summary: SummaryInput) -> str:
    digits = 0 if round(summary.level, 4) == round(summary.level, 2) else 1
    level = f"{format_percent(summary.level, digits)} interval"
    if math.isnan(summary.low) or math.isnan(summary.high):
        return f"no {level}"
    high = "and up" if math.isinf(summary.high) else f"to {_format_change(summary.high)}"
    return f"{level} {_format_change(summary.low)} {high}"


def _format_change(change: float, digits: int = 1) -> str:
    return format_signed(format_percent(change, digits), change)
