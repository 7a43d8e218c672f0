"""Render a verdict as plain text.

The text has no terminal control codes; those in names are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sidelight_cli.compare.comparison_model import ComparisonVerdict, FunctionRow, TestedEffect
from sidelight_cli.compare.reports.formatting import (
    OUTCOME_LABELS,
    choose_scale,
    choose_unit,
    format_agreement,
    format_basis,
    format_counts,
    format_culprit_lead,
    format_culprits,
    format_difference,
    format_direction,
    format_function,
    format_interval,
    format_method,
    format_q_value,
    format_rate,
    format_remedy,
    format_required_data,
    format_severity,
    format_time_range,
    format_total,
    select_checks,
    select_rows,
)
from sidelight_model.export_formats.provenance import format_count
from sidelight_model.terminal_width import escape_unprintable, fit_to_width, measure_width


def render_text(verdict: ComparisonVerdict, sort_by: str, limit: int, *, significant: bool) -> str:
    """Render summary, basis, sides, checks, conditions, culprits and functions."""
    lines = [escape_unprintable(verdict.summary)]
    lines += filter(None, (format_total(verdict), escape_unprintable(format_basis(verdict))))
    if required_data := format_required_data(verdict):
        lines.append(required_data)
    lines.append("")
    for letter, side in zip("AB", verdict.sides, strict=True):
        parts = (letter, escape_unprintable(side.selector), format_time_range(side), format_counts(side))
        lines.append("  ".join(part for part in parts if part))
    if verdict.range_sentence:
        lines.append(escape_unprintable(verdict.range_sentence))
    if method := format_method(verdict):
        lines.append(method)
    lines += _add_blank_line(_render_checks(verdict))
    lines += _add_blank_line(_render_conditions(verdict))
    lines += _add_blank_line(_render_culprits(verdict))
    rows = select_rows(verdict, sort_by, limit, significant=significant)
    if rows:
        lines += ["", f"{choose_unit(verdict)}, largest difference of {sort_by} first", ""]
        lines += _render_table(rows, sort_by, choose_scale(verdict), verdict.rate_unit)
    lines += _add_blank_line(_render_omissions(verdict, 0 if significant else len(verdict.rows) - len(rows)))
    return "\n".join(lines) + "\n"


def _add_blank_line(lines: Sequence[str]) -> list[str]:
    return ["", *lines] if lines else []


def _render_culprits(verdict: ComparisonVerdict) -> list[str]:
    if not (lead := format_culprit_lead(verdict)):
        return []
    culprits = format_culprits(verdict)
    widths = [max(measure_width(line[at]) for line in culprits) for at in range(2)]
    return [
        f"{lead}, in {choose_unit(verdict)}:",
        *("  ".join(["", *_align_right(line[:2], widths), escape_unprintable(line[2])]) for line in culprits),
    ]


def _align_right(cells: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
    return (" " * (wide - measure_width(cell)) + cell for cell, wide in zip(cells, widths, strict=True))


def _render_omissions(verdict: ComparisonVerdict, omitted: int) -> list[str]:
    lines = []
    if omitted > 0:
        lines.append(f"{format_count(omitted, 'more function')}: --limit {len(verdict.rows)} lists all.")
    if (untested := verdict.function_count - len(verdict.rows)) > 0:
        lines.append(f"{format_count(untested, 'function')} with too few samples to test one by one.")
    return lines


def _render_checks(verdict: ComparisonVerdict) -> list[str]:
    lines = []
    for check in select_checks(verdict.checks):
        lines.append(
            escape_unprintable(f"{format_severity(check)} ({check.reason or check.name}): {check.text}")
        )
        if check.hint:
            lines.append(escape_unprintable(f"  {check.hint}"))
        label, command = format_remedy(check)
        if command:
            lines.append(escape_unprintable(f"  {label}: {command}"))
    return lines


def _render_conditions(verdict: ComparisonVerdict) -> list[str]:
    if not verdict.conditions:
        return []
    rows = [
        (OUTCOME_LABELS[condition.state], escape_unprintable(condition.condition), condition.summary)
        for condition in verdict.conditions
    ]
    widths = [max(measure_width(line[at]) for line in rows) for at in range(2)]
    return [
        "  ".join(
            [
                *(fit_to_width(cell, wide) for cell, wide in zip(line, widths, strict=False)),
                escape_unprintable(line[2]),
            ]
        )
        for line in rows
    ]


def _render_table(rows: Sequence[FunctionRow], sort_by: str, scale: float, rate_unit: str) -> list[str]:
    other = "total" if sort_by == "self" else "self"
    head = [f"{sort_by} A", f"{sort_by} B", f"Δ {sort_by}", "interval", "pods agree", "q"]
    head += [f"{other} A", f"{other} B", f"Δ {other}", f"{sort_by}, in words", "function"]
    body = [
        [
            *_format_numbers(row.select_effect(sort_by), scale),
            format_interval(row.select_effect(sort_by).effect, scale),
            format_agreement(row.select_effect(sort_by)),
            format_q_value(row.select_effect(sort_by)),
            *_format_numbers(row.select_effect(other), scale),
            format_direction(row.select_effect(sort_by).effect, rate_unit),
            escape_unprintable(format_function(row)),
        ]
        for row in rows
    ]
    widths = [max(measure_width(line[at]) for line in (head, *body)) for at in range(len(head) - 1)]
    return ["  ".join([*_align_cells(line[:-1], widths), line[-1]]).rstrip() for line in (head, *body)]


def _align_cells(cells: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
    for at, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
        yield fit_to_width(cell, wide) if at == len(widths) - 1 else " " * (wide - measure_width(cell)) + cell


def _format_numbers(tested: TestedEffect, scale: float) -> list[str]:
    effect = tested.effect
    unknown = effect.direction == "no_data"
    return [
        format_rate(effect.baseline, scale),
        format_rate(effect.comparison, scale),
        "-" if unknown else format_difference(effect.delta, scale),
    ]
