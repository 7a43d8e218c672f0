"""Functions as CSV (RFC 4180) that a spreadsheet opens without running anything in it.

A cell that begins with `=`, `+`, `-`, `@`, a tab or a line break is a formula to spreadsheets, whoever named
the function so. Such a beginning gets a `'` in front, which they read as "this is text": at the start of a
cell and after whatever some of them take for the end of one (`;`, `,`, `|`, tabs and line breaks). Numbers
are ours and stay numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from sidelight_model.aggregate import Cost
from sidelight_model.export_formats.provenance import About, AboutSide
from sidelight_model.frames import Frame, unescape

_ACTS: Final = re.compile(r"(^|[;,|\t\r\n])(?=[^\S\t\r\n]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")
_NS: Final = 1e9


def write_csv(functions: Iterable[tuple[str, Sequence[Cost]]], about: About, *, says: bool) -> bytes:
    """A row for each function, with its own samples and seconds and those with what it calls.

    Two sides stand side by side with their rates (seconds per pod-second) and the differences of these. With
    `says` lines beginning with `#` come first and tell what the table stands on.
    """
    lines = [f"# {line}" for line in (about.title, *about.notes(), about.exporter)] if says else []
    two = len(about.sides) == 2
    written = [_row([line]) for line in lines]
    written.append(_row(["function", "file", *_headings(two=two)]))
    for text, costs in functions:
        frame = Frame.parse(unescape(text))
        numbers = _compared(costs, about.sides) if two else _numbers(costs[0])
        written.append(_row([frame.function, frame.file], numbers))
    return "".join(written).encode(errors="replace")


_COLUMNS: Final = ("self_samples", "total_samples", "self_seconds", "total_seconds")


def _headings(*, two: bool) -> list[str]:
    if not two:
        return list(_COLUMNS)
    each = [f"{side}_{name}" for side in "ab" for name in _COLUMNS]
    rates = [f"{side}_{name}_rate" for name in ("self", "total") for side in "ab"]
    return [*each, *rates, "self_rate_difference", "total_rate_difference"]


def _numbers(cost: Cost) -> list[str]:
    return [
        str(cost.self_samples),
        str(cost.total_samples),
        decimal(cost.self_ns / _NS),
        decimal(cost.total_ns / _NS),
    ]


def _compared(costs: Sequence[Cost], sides: Sequence[AboutSide]) -> list[str]:
    def rate(ns: int, side: AboutSide) -> float | None:
        return ns / _NS / side.pod_seconds if side.pod_seconds > 0 else None

    rates = [
        [rate(ns, side) for ns, side in zip(of, sides, strict=True)]
        for of in ([cost.self_ns for cost in costs], [cost.total_ns for cost in costs])
    ]
    differences = [None if a is None or b is None else b - a for a, b in rates]
    numbers = [*(rate for pair in rates for rate in pair), *differences]
    return [
        *(number for cost in costs for number in _numbers(cost)),
        *("" if number is None else decimal(number) for number in numbers),
    ]


def _row(texts: Sequence[str], numbers: Sequence[str] = ()) -> str:
    return ",".join([*map(cell, texts), *numbers]) + "\r\n"


def cell(text: str) -> str:
    """A text as a quoted cell that is never a formula."""
    harmless = _ACTS.sub(r"\1'", text)
    return '"' + harmless.replace('"', '""') + '"'


def decimal(value: float) -> str:
    """A number without exponent, to nanoseconds, without zeros at its end."""
    return f"{value:.9f}".rstrip("0").rstrip(".")
