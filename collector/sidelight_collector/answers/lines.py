"""The lines of one function: what ended in each, and what it cost with what it called from there."""

from collections.abc import Sequence
from typing import TypedDict

from sidelight_collector.query.call_tree import compute_costs
from sidelight_collector.query.data_basis import DataBasis, SideSummary, build_basis, summarize_side
from sidelight_collector.query.engine.stack_text import weigh_stacks
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import (
    select_side_windows,
)
from sidelight_collector.query.stack_filter import NO_FILTER, StackFilter, apply_filter, narrow_summary
from sidelight_collector.query.windows import (
    WindowQuery,
)
from sidelight_model.aggregate import FunctionCost
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame, escape_frame, strip_line_number, unescape_frame


class FunctionTotals(TypedDict):
    """What the function cost on one side, all its lines together."""

    self_us: int
    total_us: int
    self_samples: int
    total_samples: int


class FunctionLinesSide(SideSummary):
    """One side's columns, aligned with the lines; a total has a stack once, however often it is at a line."""

    self_us: list[int]
    total_us: list[int]
    self_samples: list[int]
    total_samples: list[int]
    whole: FunctionTotals


class FunctionLines(TypedDict):
    """The lines of a function that were seen on any side, ascending; 0 is a line that is not known."""

    type: str
    function: str
    file: str
    line: list[int]
    sides: list[FunctionLinesSide]
    lines_total: int
    basis: DataBasis


def query_function_lines(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    function: str,
    file: str,
    limit: int,
    stack_filter: StackFilter = NO_FILTER,
) -> FunctionLines:
    """The `limit` heaviest lines of a function; `lines_total` says how many there are."""
    chosen = select_side_windows(context, sides)
    weights = [
        apply_filter(context, windows, weigh_stacks(sum_stacks(context, windows), kind), stack_filter)
        for windows in chosen
    ]
    weighed = list(zip(chosen, weights, strict=True))
    frame = escape_frame(Frame(function, file).text)
    none = (FunctionCost(),) * len(sides)
    totals = compute_costs(context, weighed, prefix=frame).get(frame, none)
    # With a line there is more text before the last bracket.
    all_lines = (
        compute_costs(context, weighed, lines=True, prefix=frame.removesuffix(")"))
        if any(map(_has_samples, totals))
        else {}
    )
    found = {_parse_line(text): own for text, own in all_lines.items() if strip_line_number(text) == frame}
    heaviest = sorted(found, key=lambda line: (-max(one.total_ns for one in found[line]), line))[:limit]
    shown = sorted(heaviest)
    return {
        "type": kind.value,
        "function": function,
        "file": file,
        "line": shown,
        "sides": [
            {
                **narrow_summary(summarize_side(question, windows, kind), weights[at], stack_filter),
                "self_us": [_to_microseconds(found[line][at].self_ns) for line in shown],
                "total_us": [_to_microseconds(found[line][at].total_ns) for line in shown],
                "self_samples": [found[line][at].self_samples for line in shown],
                "total_samples": [found[line][at].total_samples for line in shown],
                "whole": {
                    "self_us": _to_microseconds(totals[at].self_ns),
                    "total_us": _to_microseconds(totals[at].total_ns),
                    "self_samples": totals[at].self_samples,
                    "total_samples": totals[at].total_samples,
                },
            }
            for at, (question, windows) in enumerate(zip(sides, chosen, strict=True))
        ],
        "lines_total": len(found),
        "basis": build_basis(chosen, kind, context.unreadable_count),
    }


def _parse_line(text: str) -> int:
    """The line that an escaped frame names, 0 without one."""
    return Frame.parse(unescape_frame(text)).line if strip_line_number(text) != text else 0


def _has_samples(cost: FunctionCost) -> bool:
    return cost.total_samples > 0


def _to_microseconds(ns: int) -> int:
    return round(ns / 1000)
