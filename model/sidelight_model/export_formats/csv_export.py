"""Functions as CSV (RFC 4180) that is safe to open in a spreadsheet.

Spreadsheets take a cell that begins with `=`, `+`, `-`, `@`, a tab or a line break for a formula, and a
function's name may begin with one. Such a cell gets a leading `'`, which marks it as text. The `'` is also
inserted after characters that some spreadsheets take for the end of a cell (`;`, `,`, `|`, tabs and line
breaks). Numbers are generated here and are not escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final

from sidelight_model.aggregate import FunctionCost
from sidelight_model.export_formats.provenance import Provenance, SideProvenance
from sidelight_model.frames import Frame, unescape_frame

_FORMULA_START: Final = re.compile(r"(^|[;,|\t\r\n])(?=[^\S\t\r\n]*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])")
_NS_PER_SECOND: Final = 1e9


def write_csv(
    functions: Iterable[tuple[str, Sequence[FunctionCost]]], provenance: Provenance, *, with_comments: bool
) -> bytes:
    """Write one row per function, with its self and total samples and seconds.

    Two sides are columns side by side, followed by their rates (seconds per pod-second) and the differences
    of the rates. With `with_comments` the table starts with the provenance, in lines that begin with `#`.
    """
    lines = (
        [f"# {line}" for line in (provenance.title, *provenance.to_lines(), provenance.exporter)]
        if with_comments
        else []
    )
    is_comparison = len(provenance.sides) == 2
    csv_rows = [_format_row([line]) for line in lines]
    csv_rows.append(_format_row(["function", "file", *_list_column_names(is_comparison=is_comparison)]))
    for text, costs in functions:
        frame = Frame.parse(unescape_frame(text))
        numbers = _format_comparison(costs, provenance.sides) if is_comparison else _format_cost(costs[0])
        csv_rows.append(_format_row([frame.function, frame.file], numbers))
    return "".join(csv_rows).encode(errors="replace")


_COLUMNS: Final = ("self_samples", "total_samples", "self_seconds", "total_seconds")


def _list_column_names(*, is_comparison: bool) -> list[str]:
    if not is_comparison:
        return list(_COLUMNS)
    costs = [f"{side}_{name}" for side in "ab" for name in _COLUMNS]
    rates = [f"{side}_{name}_rate" for name in ("self", "total") for side in "ab"]
    return [*costs, *rates, "self_rate_difference", "total_rate_difference"]


def _format_cost(cost: FunctionCost) -> list[str]:
    return [
        str(cost.self_samples),
        str(cost.total_samples),
        format_decimal(cost.self_ns / _NS_PER_SECOND),
        format_decimal(cost.total_ns / _NS_PER_SECOND),
    ]


def _format_comparison(costs: Sequence[FunctionCost], sides: Sequence[SideProvenance]) -> list[str]:
    def rate(ns: int, side: SideProvenance) -> float | None:
        return ns / _NS_PER_SECOND / side.pod_seconds if side.pod_seconds > 0 else None

    rates = [
        [rate(ns, side) for ns, side in zip(of, sides, strict=True)]
        for of in ([cost.self_ns for cost in costs], [cost.total_ns for cost in costs])
    ]
    differences = [None if a is None or b is None else b - a for a, b in rates]
    numbers = [*(rate for pair in rates for rate in pair), *differences]
    return [
        *(number for cost in costs for number in _format_cost(cost)),
        *("" if number is None else format_decimal(number) for number in numbers),
    ]


def _format_row(texts: Sequence[str], numbers: Sequence[str] = ()) -> str:
    return ",".join([*map(quote_cell, texts), *numbers]) + "\r\n"


def quote_cell(text: str) -> str:
    """Quote a text as a cell that no spreadsheet takes for a formula."""
    escaped = _FORMULA_START.sub(r"\1'", text)
    return '"' + escaped.replace('"', '""') + '"'


def format_decimal(value: float) -> str:
    """Format a number with up to nine decimals, without an exponent or trailing zeros."""
    return f"{value:.9f}".rstrip("0").rstrip(".")
