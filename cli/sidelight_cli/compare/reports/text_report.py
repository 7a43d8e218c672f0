"""A verdict as text: what a terminal shows, with no codes, and no name that could put one in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sidelight_cli.compare.comparison_model import Row, Tested, Verdict
from sidelight_cli.compare.reports.formatting import (
    OUTCOMES,
    agreement,
    amount,
    chance,
    change,
    counted,
    direction,
    explanation,
    factor,
    interval,
    listed,
    method,
    more,
    name,
    parts,
    said,
    severity,
    span,
    unit,
)
from sidelight_model.export_formats.provenance import plural
from sidelight_model.terminal_width import fit, visible, width


def text(verdict: Verdict, by: str, limit: int, *, significant: bool) -> str:
    """The sentence, what it stands on, checks, conditions, and an aligned table of functions."""
    lines = [visible(verdict.sentence)]
    if what := more(verdict):
        lines.append(what)
    lines.append("")
    for letter, side in zip("AB", verdict.sides, strict=True):
        parts = (letter, visible(side.selector), span(side), counted(side))
        lines.append("  ".join(part for part in parts if part))
    if how := method(verdict):
        lines.append(how)
    lines += _block(_checks(verdict))
    lines += _block(_conditions(verdict))
    lines += _block(_explanation(verdict))
    rows = listed(verdict, by, limit, significant=significant)
    if rows:
        lines += ["", f"{unit(verdict)}, largest difference of {by} first", ""]
        lines += _table(rows, by, factor(verdict), verdict.per)
    lines += _block(_left_out(verdict, 0 if significant else len(verdict.rows) - len(rows)))
    return "\n".join(lines) + "\n"


def _block(lines: Sequence[str]) -> list[str]:
    return ["", *lines] if lines else []


def _explanation(verdict: Verdict) -> list[str]:
    if not (lead := explanation(verdict)):
        return []
    told = parts(verdict)
    widths = [max(width(line[at]) for line in told) for at in range(2)]
    return [
        f"{lead}, in {unit(verdict)}:",
        *("  ".join(["", *_right(line[:2], widths), visible(line[2])]) for line in told),
    ]


def _right(cells: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
    return (" " * (wide - width(cell)) + cell for cell, wide in zip(cells, widths, strict=True))


def _left_out(verdict: Verdict, left: int) -> list[str]:
    lines = []
    if left > 0:
        lines.append(f"{plural(left, 'more function')}: --limit {len(verdict.rows)} lists all.")
    if (seldom := verdict.functions - len(verdict.rows)) > 0:
        lines.append(f"{plural(seldom, 'function')} seen too seldom to be judged one by one.")
    return lines


def _checks(verdict: Verdict) -> list[str]:
    lines = []
    for check in said(verdict.checks):
        lines.append(visible(f"{severity(check)} ({check.reason or check.name}): {check.text}"))
        if check.hint:
            lines.append(visible(f"  {check.hint}"))
    return lines


def _conditions(verdict: Verdict) -> list[str]:
    if not verdict.conditions:
        return []
    told = [(OUTCOMES[one.state], visible(one.condition), one.sentence) for one in verdict.conditions]
    widths = [max(width(line[at]) for line in told) for at in range(2)]
    return [
        "  ".join([*(fit(cell, wide) for cell, wide in zip(line, widths, strict=False)), visible(line[2])])
        for line in told
    ]


def _table(rows: Sequence[Row], by: str, times: float, per: str) -> list[str]:
    other = "total" if by == "self" else "self"
    head = [f"{by} A", f"{by} B", f"Δ {by}", "interval", "pods agree", "q"]
    head += [f"{other} A", f"{other} B", f"Δ {other}", f"{by}, in words", "function"]
    body = [
        [
            *_numbers(row.by(by), times),
            interval(row.by(by).effect, times),
            agreement(row.by(by)),
            chance(row.by(by)),
            *_numbers(row.by(other), times),
            direction(row.by(by).effect, per),
            visible(name(row)),
        ]
        for row in rows
    ]
    widths = [max(width(line[at]) for line in (head, *body)) for at in range(len(head) - 1)]
    return ["  ".join([*_aligned(line[:-1], widths), line[-1]]).rstrip() for line in (head, *body)]


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> Iterable[str]:
    for at, (cell, wide) in enumerate(zip(cells, widths, strict=True)):
        yield fit(cell, wide) if at == len(widths) - 1 else " " * (wide - width(cell)) + cell


def _numbers(tested: Tested, times: float) -> list[str]:
    effect = tested.effect
    unknown = effect.direction == "no_data"
    return [
        amount(effect.baseline, times),
        amount(effect.comparison, times),
        "-" if unknown else change(effect.delta, times),
    ]
