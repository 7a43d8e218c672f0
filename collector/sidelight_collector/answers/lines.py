"""The lines of one function: what ended in each, and what it cost with what it called from there."""

from collections.abc import Sequence
from typing import TypedDict

from sidelight_collector.query.call_tree import costs
from sidelight_collector.query.data_basis import Basis, SideNumbers, basis, side
from sidelight_collector.query.engine.stack_text import weigh
from sidelight_collector.query.engine.window_sums import sums
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.select.window_query import (
    choose_all,
)
from sidelight_collector.query.stack_filter import ALL, Pick, narrowed, picked
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_model.aggregate import Cost
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame, escape, unescape, without_line


class LineCost(TypedDict):
    """What the function cost on one side, all its lines together."""

    self_us: int
    total_us: int
    self_samples: int
    total_samples: int


class LinesSide(SideNumbers):
    """One side's columns, aligned with the lines; a total has a stack once, however often it is at a line."""

    self_us: list[int]
    total_us: list[int]
    self_samples: list[int]
    total_samples: list[int]
    whole: LineCost


class Lines(TypedDict):
    """The lines of a function that were seen on any side, ascending; 0 is a line that is not known."""

    type: str
    function: str
    file: str
    line: list[int]
    sides: list[LinesSide]
    lines_total: int
    basis: Basis


def function_lines(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    function: str,
    file: str,
    limit: int,
    pick: Pick = ALL,
) -> Lines:
    """The `limit` heaviest lines of a function; `lines_total` says how many there are."""
    chosen = choose_all(reading, sides)
    weights = [picked(reading, windows, weigh(sums(reading, windows), kind), pick) for windows in chosen]
    weighed = list(zip(chosen, weights, strict=True))
    frame = escape(Frame(function, file).text)
    none = (Cost(),) * len(sides)
    whole = costs(reading, weighed, begin=frame).get(frame, none)
    # With a line there is more text before the last bracket.
    all_lines = (
        costs(reading, weighed, lines=True, begin=frame.removesuffix(")")) if any(map(_seen, whole)) else {}
    )
    found = {_line(text): own for text, own in all_lines.items() if without_line(text) == frame}
    heaviest = sorted(found, key=lambda line: (-max(one.total_ns for one in found[line]), line))[:limit]
    shown = sorted(heaviest)
    return {
        "type": kind.value,
        "function": function,
        "file": file,
        "line": shown,
        "sides": [
            {
                **narrowed(side(question, windows, kind), weights[at], pick),
                "self_us": [_us(found[line][at].self_ns) for line in shown],
                "total_us": [_us(found[line][at].total_ns) for line in shown],
                "self_samples": [found[line][at].self_samples for line in shown],
                "total_samples": [found[line][at].total_samples for line in shown],
                "whole": {
                    "self_us": _us(whole[at].self_ns),
                    "total_us": _us(whole[at].total_ns),
                    "self_samples": whole[at].self_samples,
                    "total_samples": whole[at].total_samples,
                },
            }
            for at, (question, windows) in enumerate(zip(sides, chosen, strict=True))
        ],
        "lines_total": len(found),
        "basis": basis(chosen, kind, reading.unreadable),
    }


def _line(text: str) -> int:
    """The line that an escaped frame names, 0 without one."""
    return Frame.parse(unescape(text)).line if without_line(text) != text else 0


def _seen(cost: Cost) -> bool:
    return cost.total_samples > 0


def _us(ns: int) -> int:
    return round(ns / 1000)
