"""A verdict in Markdown, for a pull request or a job's summary.

Names and labels are whatever a program or a person made of them, and a comment may ping people and show
pictures: in what comes from elsewhere every character that Markdown, HTML or GitHub could act on is written
as a number. `@` and `#` in running text are kept from what follows by an empty comment, because mentions are
looked for after the rest is read; in code they are not looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from sidelight_cli.compare.comparison_model import Row, Verdict
from sidelight_cli.compare.reports.formatting import (
    OUTCOMES,
    advised,
    agreement,
    amount,
    chance,
    counted,
    direction,
    explanation,
    factor,
    interval,
    listed,
    method,
    more,
    name,
    notes,
    parts,
    said,
    severity,
    span,
    unit,
)
from sidelight_model.gates import State, worst
from sidelight_model.terminal_width import visible

MOST_ROWS: Final = 10
_MARKS: Final = {
    State.FINE: "✅",
    State.REGRESSED: "❌",
    State.UNCLEAR: "❔",
    State.INCOMPARABLE: "⚠️",
}
_ACTS: Final = re.compile(r"[\\`*_\[\]<>&|~@#!:$]|^[-+=]|(?<=^[0-9])[.)](?=\s)|(?<=www)\.", re.IGNORECASE)


def markdown(verdict: Verdict, by: str, limit: int, *, significant: bool) -> str:
    """The headline, conditions, what the sides are, what makes them not alike, and the functions."""
    lines = [f"### {_headline(verdict)}", "", plain(verdict.sentence)]
    if what := more(verdict):
        lines += ["", plain(what)]
    if verdict.conditions:
        told = [
            (f"{_MARKS[one.state]} {OUTCOMES[one.state]}", code(one.condition), plain(one.sentence))
            for one in verdict.conditions
        ]
        lines += ["", *_table(("", "condition", ""), told)]
    sides = [
        (letter, code(side.selector), span(side), plain(counted(side)))
        for letter, side in zip("AB", verdict.sides, strict=True)
    ]
    lines += ["", *_table(("", "side", "range", "stands on"), sides)]
    warnings = [f"**{severity(check)}**: {plain(advised(check))}" for check in said(verdict.checks)]
    warnings += [f"**warning**: {plain(note)}" for note in notes(verdict)]
    if warnings:
        lines += ["", *(f"- {line}" for line in warnings)]
    if lead := explanation(verdict):
        told = [(delta, share, code(path)) for delta, share, path in parts(verdict)]
        lines += ["", f"{lead}:", "", *_table((unit(verdict), "share", "call path"), told)]
    rows = listed(verdict, by, min(limit, MOST_ROWS), significant=significant)
    if rows:
        lines += ["", f"<details><summary>Functions, by difference of {by}, in {unit(verdict)}</summary>", ""]
        lines += [*_functions(rows, by, verdict), "", "</details>"]
    if how := method(verdict):
        lines += ["", f"<sub>{plain(how)}</sub>"]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Text from elsewhere as running text that does nothing."""
    return (
        _ACTS.sub(_number, visible(text).strip())
        .replace("&#64;", "&#64;<!-- -->")
        .replace("&#35;", "&#35;<!-- -->")
    )


def code(text: str) -> str:
    """Text from elsewhere as code, also in a table."""
    return f"<code>{_ACTS.sub(_number, visible(text))}</code>" if text else ""


def _number(found: re.Match[str]) -> str:
    return "".join(f"&#{ord(letter)};" for letter in found[0])


def _headline(verdict: Verdict) -> str:
    if not verdict.conditions:
        return "Sidelight"
    state = worst(one.state for one in verdict.conditions)
    return f"{_MARKS[state]} Sidelight: {OUTCOMES[state]}"


def _functions(rows: Sequence[Row], by: str, verdict: Verdict) -> list[str]:
    told, times = [], factor(verdict)
    for row in rows:
        one = row.by(by)
        told.append(
            (
                code(name(row)),
                amount(one.effect.baseline, times),
                amount(one.effect.comparison, times),
                interval(one.effect, times),
                agreement(one),
                plain(chance(one)),
                plain(direction(one.effect, verdict.per)),
            )
        )
    return _table(("function", f"{by} A", f"{by} B", "Δ, interval", "pods agree", "q", ""), told)


def _table(head: Sequence[str], body: Iterable[Sequence[str]]) -> list[str]:
    lines = [head, ["---"] * len(head), *body]
    return [f"| {' | '.join(line)} |" for line in lines]
