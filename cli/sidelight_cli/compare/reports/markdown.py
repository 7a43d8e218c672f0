"""Render a verdict as Markdown, for a pull request or a job summary.

Names and labels are untrusted text, and a comment can mention people and load images. In such text, every
character with a meaning in Markdown, HTML or GitHub is written as a numeric character reference. In running
text, an empty HTML comment after `@` and `#` prevents mentions and issue links, which GitHub detects after
decoding. Inside code GitHub does not detect them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from sidelight_cli.compare.comparison_model import (
    ComparabilityCheck,
    ComparisonVerdict,
    FunctionRow,
)
from sidelight_cli.compare.reports.formatting import (
    OUTCOME_LABELS,
    choose_scale,
    choose_unit,
    format_advice,
    format_agreement,
    format_basis,
    format_counts,
    format_culprit_lead,
    format_culprits,
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
    list_notes,
    select_checks,
    select_rows,
)
from sidelight_model.gates import GateStatus, combine_statuses
from sidelight_model.terminal_width import escape_unprintable

MAX_ROWS: Final = 10
_STATE_ICONS: Final = {
    GateStatus.PASS: "✅",
    GateStatus.REGRESSED: "❌",
    GateStatus.INCONCLUSIVE: "❔",
    GateStatus.NOT_COMPARABLE: "⚠️",
}
_SPECIAL_CHARACTERS: Final = re.compile(
    r"[\\`*_\[\]<>&|~@#!:$]|^[-+=]|(?<=^[0-9])[.)](?=\s)|(?<=www)\.", re.IGNORECASE
)


def render_markdown(verdict: ComparisonVerdict, sort_by: str, limit: int, *, significant: bool) -> str:
    """Render headline, basis, conditions, sides, warnings, culprits and functions.

    At most `MAX_ROWS` functions are listed, whatever `limit` is.
    """
    lines = [f"### {_render_headline(verdict)}", "", escape_text(verdict.summary)]
    lines += [
        line
        for text in (format_total(verdict), format_basis(verdict))
        if text
        for line in ("", escape_text(text))
    ]
    if required_data := format_required_data(verdict):
        lines += ["", escape_text(required_data)]
    if verdict.conditions:
        conditions = [
            (
                f"{_STATE_ICONS[condition.state]} {OUTCOME_LABELS[condition.state]}",
                format_code(condition.condition),
                escape_text(condition.summary),
            )
            for condition in verdict.conditions
        ]
        lines += ["", *_render_table(("", "condition", ""), conditions)]
    sides = [
        (letter, format_code(side.selector), format_time_range(side), escape_text(format_counts(side)))
        for letter, side in zip("AB", verdict.sides, strict=True)
    ]
    lines += ["", *_render_table(("", "side", "range", "stands on"), sides)]
    warnings = [_render_warning(check) for check in select_checks(verdict.checks)]
    warnings += [f"**warning**: {escape_text(note)}" for note in list_notes(verdict)]
    if warnings:
        lines += ["", *(f"- {line}" for line in warnings)]
    if lead := format_culprit_lead(verdict):
        culprits = [(delta, share, format_code(name)) for delta, share, name in format_culprits(verdict)]
        lines += ["", f"{lead}:", "", *_render_table((choose_unit(verdict), "share", "function"), culprits)]
    rows = select_rows(verdict, sort_by, min(limit, MAX_ROWS), significant=significant)
    if rows:
        lines += [
            "",
            f"<details><summary>Functions, by difference of {sort_by}, in {choose_unit(verdict)}</summary>",
            "",
        ]
        lines += [*_render_functions(rows, sort_by, verdict), "", "</details>"]
    if method := format_method(verdict):
        lines += ["", f"<sub>{escape_text(method)}</sub>"]
    return "\n".join(lines) + "\n"


def escape_text(text: str) -> str:
    """Escape untrusted text for running text."""
    return (
        _SPECIAL_CHARACTERS.sub(_escape_match, escape_unprintable(text).strip())
        .replace("&#64;", "&#64;<!-- -->")
        .replace("&#35;", "&#35;<!-- -->")
    )


def format_code(text: str) -> str:
    """Format untrusted text as code, also inside a table."""
    return f"<code>{_SPECIAL_CHARACTERS.sub(_escape_match, escape_unprintable(text))}</code>" if text else ""


def _escape_match(match: re.Match[str]) -> str:
    return "".join(f"&#{ord(letter)};" for letter in match[0])


def _render_headline(verdict: ComparisonVerdict) -> str:
    if not verdict.conditions:
        return "Sidelight"
    state = combine_statuses(condition.state for condition in verdict.conditions)
    return f"{_STATE_ICONS[state]} Sidelight: {OUTCOME_LABELS[state]}"


def _render_warning(check: ComparabilityCheck) -> str:
    text = f"**{format_severity(check)}**: {escape_text(format_advice(check))}"
    label, command = format_remedy(check)
    return f"{text} {escape_text(label)}: {format_code(command)}" if command else text


def _render_functions(rows: Sequence[FunctionRow], sort_by: str, verdict: ComparisonVerdict) -> list[str]:
    rows_of_cells, scale = [], choose_scale(verdict)
    for row in rows:
        tested = row.select_effect(sort_by)
        rows_of_cells.append(
            (
                format_code(format_function(row)),
                format_rate(tested.effect.baseline, scale),
                format_rate(tested.effect.comparison, scale),
                format_interval(tested.effect, scale),
                format_agreement(tested),
                escape_text(format_q_value(tested)),
                escape_text(format_direction(tested.effect, verdict.rate_unit)),
            )
        )
    return _render_table(
        ("function", f"{sort_by} A", f"{sort_by} B", "Δ, interval", "pods agree", "q", ""), rows_of_cells
    )


def _render_table(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(line)} |" for line in lines]
