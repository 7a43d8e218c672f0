"""Numbers and phrases of a verdict that several reports share."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from typing import Final

from sidelight_cli.compare.comparison_model import (
    ComparabilityCheck,
    ComparedSide,
    ComparisonVerdict,
    FunctionRow,
    QuantityEffect,
    TestedEffect,
)
from sidelight_model.change import format_number, format_percent, format_signed
from sidelight_model.export_formats.provenance import format_count, format_minutes, format_timestamp
from sidelight_model.frames import Frame
from sidelight_model.gates import COMPOSITION, GateStatus
from sidelight_model.recordings.recording_pair import CHANGED_DIRECTIONS

MAX_CULPRITS: Final = 5
OUTCOME_LABELS: Final = {
    GateStatus.PASS: "pass",
    GateStatus.REGRESSED: "regressed",
    GateStatus.INCONCLUSIVE: "inconclusive",
    GateStatus.NOT_COMPARABLE: "not comparable",
}
_DIRECTION_LABELS: Final = {
    "unchanged": "unchanged",
    "inconclusive": "not judged",
    "not_judged": "not judged",
    "no_data": "no data on one side",
    "not_comparable": "not comparable",
    "new": "new in B",
    "removed": "removed in B",
}
_SAMPLED_LABEL: Final = "by samples"
_BASIS_LABELS: Final = {
    "concurrent": "concurrent",
    "per_request": "per request",
    "equal_load": "equal load assumed",
    COMPOSITION: "composition (shares of the profile)",
}
_TOTAL_LABELS: Final = {
    "cpu": "CPU",
    "wall": "wall time",
    "gil": "GIL",
    "gil_wait": "GIL wait",
    "off_cpu": "off-CPU time",
    "tasks": "tasks",
}
_UNITS: Final = {
    "share": ("% of the profile", "%", 100.0),
    "second": ("samples per second", "samples/s", 1.0),
    "request": ("milliseconds per request", "ms/request", 1000.0),
    "pod-second": ("millicores per pod", "m/pod", 1000.0),
}
_WALL_UNIT: Final = ("threads per pod", "threads/pod", 1.0)
_TASK_UNIT: Final = ("tasks per pod", "tasks/pod", 1.0)
_MEASUREMENT_LABELS: Final = {"clock": "the whole by the kernel's clock"}
_SEVERITY_LABELS: Final = {"warn": "warning", "blocking": "not comparable"}


def format_direction(effect: QuantityEffect, rate_unit: str) -> str:
    """Describe a change in words.

    The words are about time, since a profile cannot distinguish slower calls from more calls.
    """
    if effect.direction in _DIRECTION_LABELS:
        return _DIRECTION_LABELS[effect.direction]
    by = (
        f" ({format_signed(format_percent(effect.relative), effect.relative)})"
        if effect.relative is not None
        else ""
    )
    if effect.direction == "minor":
        return f"minor{by}"
    more = effect.direction == "increased"
    if rate_unit == "share":
        return f"{'▲ larger' if more else '▼ smaller'} share in B{by}"
    return f"{'▲ takes more' if more else '▼ takes less'} time in B{by}"


def format_basis(verdict: ComparisonVerdict) -> str:
    """Describe in one line what was compared, and why; empty if unknown."""
    label = _BASIS_LABELS.get(verdict.basis, verdict.basis)
    return f"basis: {label}. {verdict.basis_reason}".rstrip() if label else ""


def format_total(verdict: ComparisonVerdict) -> str:
    """Describe the whole of both sides in one line; empty if it is unknown."""
    total = verdict.rate
    if total is None or total.direction == "no_data":
        return ""
    unit = "pod-second" if verdict.rate_unit == "share" else verdict.rate_unit
    _, short, scale = _find_unit(verdict.type, unit)
    numbers = f"{format_rate(total.baseline, scale)} → {format_rate(total.comparison, scale)} {short}"
    line = f"{_TOTAL_LABELS.get(verdict.type, verdict.type)}: {numbers}"
    if total.direction == "not_judged":
        return f"{line}, may be load"
    if total.relative is None:
        return line
    line += f", {format_signed(format_percent(total.relative), total.relative)}"
    if total.relative_low is None or total.relative_high is None:
        return line
    ends = (format_signed(format_percent(end), end) for end in (total.relative_low, total.relative_high))
    return f"{line} ({' to '.join(ends)})"


def format_function(row: FunctionRow) -> str:
    """Format a function with its file and, if it was renamed, its former name."""
    name = Frame(row.function, row.file).text
    return f"{name}, was {row.renamed_from}" if row.renamed_from else name


def choose_unit(verdict: ComparisonVerdict) -> str:
    """Return the unit of the function table."""
    return _find_unit(verdict.type, verdict.rate_unit)[0]


def choose_scale(verdict: ComparisonVerdict) -> float:
    """Return the factor that converts a rate to the unit of the function table."""
    return _find_unit(verdict.type, verdict.rate_unit)[2]


def _find_unit(profile_type: str, rate_unit: str) -> tuple[str, str, float]:
    """Return a unit in words, its short form, and the factor from a rate to it.

    CPU and GIL time of a pod are cores, its wall time and its waits are threads, its asyncio tasks are tasks.
    """
    if profile_type in ("cpu", "gil") or rate_unit != "pod-second":
        return _UNITS[rate_unit]
    return _TASK_UNIT if profile_type == "tasks" else _WALL_UNIT


def format_rate(value: float | None, scale: float) -> str:
    """Format a rate in the unit of the table; `-` if it has no value."""
    return "-" if value is None or not math.isfinite(value) else format_number(value * scale)


def format_difference(value: float | None, scale: float) -> str:
    """Format a signed difference in the unit of the table; `-` if it has no value."""
    return (
        "-"
        if value is None or not math.isfinite(value)
        else format_signed(format_number(value * scale), value)
    )


def format_interval(effect: QuantityEffect, scale: float) -> str:
    """Format the confidence interval of a difference; `-` if there is none."""
    if effect.low is None or effect.high is None or not (effect.baseline or effect.comparison):
        return "-"
    return f"{format_difference(effect.low, scale)} to {format_difference(effect.high, scale)}"


def format_agreement(tested: TestedEffect) -> str:
    """Format how many pods of B changed in the same direction."""
    nothing = not (tested.effect.baseline or tested.effect.comparison)
    return (
        "-"
        if tested.pods_agreeing is None or not tested.pods_total or nothing
        else f"{tested.pods_agreeing} of {tested.pods_total}"
    )


def format_culprit_lead(verdict: ComparisonVerdict) -> str:
    """Describe in how many functions the change starts; empty without any."""
    if not verdict.culprits:
        return ""
    functions = format_count(len(verdict.culprits), "function")
    if verdict.culprit_share is None:
        return f"{functions} changed"
    share = format_percent(verdict.culprit_share, 0)
    if verdict.direction in CHANGED_DIRECTIONS:
        return f"The change starts in {functions}, {share} of it"
    return f"{functions} changed, {share} of all changes"


def format_culprits(verdict: ComparisonVerdict) -> list[tuple[str, str, str]]:
    """Return difference, share and name of the first culprits."""
    return [
        (
            format_difference(row.delta, choose_scale(verdict)),
            format_percent(row.share, 0),
            " › ".join([Frame(row.function, row.file).text, *row.folded]),  # noqa: RUF001
        )
        for row in verdict.culprits[:MAX_CULPRITS]
    ]


def format_q_value(tested: TestedEffect) -> str:
    """Format a function's q-value; `-` if it is on neither side."""
    if tested.q_value is None or not (tested.effect.baseline or tested.effect.comparison):
        return "-"
    return "<0.001" if tested.q_value < 0.001 else f"{tested.q_value:.3f}"


def format_time_range(side: ComparedSide) -> str:
    """Format a side's time range; empty for files."""
    if side.start is None or side.until is None:
        return ""
    return " until ".join(format_timestamp(round(edge * 1e9)) for edge in (side.start, side.until))


def format_counts(side: ComparedSide) -> str:
    """Format a side's numbers of samples, pods and windows, and its observed time."""
    parts = [format_count(side.samples, "sample")]
    if side.start is not None:
        parts += [format_count(side.pods, "pod"), format_count(side.windows, "window")]
    if side.pod_seconds:
        parts.append(f"{format_duration(side.pod_seconds)} watched")
    return " · ".join(parts)


def format_duration(seconds: float) -> str:
    """Format a duration with at most its two largest units."""
    whole = round(seconds)
    if whole < 60:
        return f"{format_number(seconds)} s"
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts: list[str] = []
    for size, letter in units:
        number, whole = divmod(whole, size)
        if number or parts:
            parts.append(f"{number} {letter}")
    return " ".join(part for part in parts[:2] if not part.startswith("0 "))


def format_method(verdict: ComparisonVerdict) -> str:
    """Describe in one line how the intervals were computed."""
    details = verdict.method
    if not details:
        return ""
    parts = ["shares of the profile" if verdict.rate_unit == "share" else f"per {verdict.rate_unit}"]
    if details.get("noise") != "counting":
        parts.append(_MEASUREMENT_LABELS.get(str(details.get("rate_source")), _SAMPLED_LABEL))
    if (alpha := details.get("alpha_spent")) is not None:
        index = details.get("analysis_index") or 1
        parts.append(
            f"{_format_confidence(1 - alpha)} intervals" + (f" (analysis {index})" if index > 1 else "")
        )
    if details.get("pods"):
        pods = " and ".join(f"{number:,}" for number in details["pods"])
        blocks = " and ".join(f"{number:,}" for number in dict.fromkeys(details.get("time_blocks") or ()))
        parts.append(f"{pods} pods" + (f" in {blocks} blocks of time" if blocks else ""))
    paired = {"time": "the same time on both sides", "hours": "the same hours of other days"}
    if details.get("paired") in paired:
        parts.append(paired[details["paired"]])
    if details.get("same_pods"):
        parts.append("the same pods on both sides")
    if scatter := [value for value in details.get("over_dispersion") or () if value is not None]:
        times = " and ".join(format_number(value) for value in scatter)
        parts.append(f"samples scatter {times} times as much as counting alone would")
    if details.get("noise") == "counting":
        between = details.get("between_runs")
        parts.append(
            f"counting noise, and functions differ by {format_percent(between)} between runs"
            if between
            else "counting noise alone"
        )
    return ", ".join(parts)


def _format_confidence(part: float) -> str:
    return f"{part * 100:.4g} %"


def format_required_data(verdict: ComparisonVerdict) -> str:
    """Describe the data needed to detect the minimum effect.

    The text is empty if no condition is inconclusive, or if the comparison as a whole is: then the summary
    already contains this.
    """
    is_inconclusive = any(condition.state is GateStatus.INCONCLUSIVE for condition in verdict.conditions)
    if verdict.required_data is None or not is_inconclusive or verdict.direction == "inconclusive":
        return ""
    detect = verdict.method.get("min_effect")
    goal = f"To see a change of {_format_confidence(detect)}" if detect else "To see more"
    if verdict.required_data.minutes is not None:
        pods = verdict.required_data.pods
        other = "" if pods is None else f", or {format_count(pods, 'pod')} of each side"
        return f"{goal}: about {format_minutes(verdict.required_data.minutes)} more{other}."
    if verdict.required_data.pods is not None:
        return (
            f"{goal}: about {format_count(verdict.required_data.pods, 'pod')} of each side; time "
            "alone does not do."
        )
    return ""


def format_severity(check: ComparabilityCheck) -> str:
    """Return the label of a check's severity; empty for checks not worth showing."""
    return _SEVERITY_LABELS.get(check.severity, "")


def format_advice(check: ComparabilityCheck) -> str:
    """Join a check's text and its hint."""
    return " ".join(f"{part.rstrip('.')}." for part in (check.text, check.hint) if part)


def format_remedy(check: ComparabilityCheck) -> tuple[str, str]:
    """Return the label and command of a check's remedy, empty if no option helps."""
    if check.remedy is None or not check.remedy.parameters:
        return "", ""
    options = [_format_option(name, value) for name, value in check.remedy.parameters.items()]
    return check.remedy.label, " ".join(["sidelight compare …", *options])


def _format_option(name: str, value: str) -> str:
    """Format a query parameter as an option of the command."""
    if name == "query":
        return shlex.quote(value)
    placeholder = "TIME" if name in ("from", "until") else "COUNT"
    return f"--{name.replace('_', '-')} {shlex.quote(value) if value else placeholder}"


def select_checks(checks: Iterable[ComparabilityCheck]) -> list[ComparabilityCheck]:
    """Return the checks worth showing, blocking ones first."""
    return sorted(
        (check for check in checks if format_severity(check)), key=lambda check: check.severity != "blocking"
    )


def select_rows(
    verdict: ComparisonVerdict, sort_by: str, limit: int, *, significant: bool
) -> Sequence[FunctionRow]:
    """Return at most `limit` functions, the largest differences first.

    With `significant`, only functions with a significant change in `sort_by` (self or total).
    """
    rows = [
        row
        for row in verdict.rows
        if not significant or row.select_effect(sort_by).effect.direction in CHANGED_DIRECTIONS
    ]
    rows.sort(key=lambda row: (-abs(row.select_effect(sort_by).effect.delta), row.function, row.file))
    return rows[:limit]


def list_notes(verdict: ComparisonVerdict) -> list[str]:
    """Return warnings about windows that are missing from the comparison."""
    basis, lines = verdict.answer.get("basis") or {}, []
    if unreadable := basis.get("unreadable_segments"):
        lines.append(f"{unreadable} stored segments could not be read; their windows are missing")
    if unresolved := basis.get("unresolved_windows"):
        lines.append(f"{unresolved} windows are left out: their stacks are kept only with others")
    return lines
