"""The lines of one function, with the self and total cost of each."""

from collections.abc import Sequence
from typing import TypedDict

from sidelight_collector.query.call_tree import compute_costs
from sidelight_collector.query.data_basis import DataBasis, SideSummary, build_basis, summarize_side
from sidelight_collector.query.engine.stack_text import weigh_stacks
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_side_windows
from sidelight_collector.query.stack_filter import NO_FILTER, StackFilter, apply_filter, narrow_summary
from sidelight_collector.query.windows import WindowQuery
from sidelight_model.aggregate import FunctionCost
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame, escape_frame, strip_line_number, unescape_frame


class FunctionTotals(TypedDict):
    """The cost of the function on one side, for all lines together."""

    self_us: int
    total_us: int
    self_samples: int
    total_samples: int


class FunctionLinesSide(SideSummary):
    """The columns of one side, aligned with the lines.

    The totals count a stack once, however often the line occurs in it.
    """

    self_us: list[int]
    total_us: list[int]
    self_samples: list[int]
    total_samples: list[int]
    whole: FunctionTotals


class FunctionLines(TypedDict):
    """The lines of a function with samples on any side, in ascending order.

    Line 0 is unknown. `lines_total` is the number of lines without the limit.
    """

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
    """Compute the costs of the `limit` heaviest lines of a function."""
    windows_by_side = select_side_windows(context, sides)
    weights = [
        apply_filter(context, windows, weigh_stacks(sum_stacks(context, windows), kind), stack_filter)
        for windows in windows_by_side
    ]
    weighted_windows = list(zip(windows_by_side, weights, strict=True))
    frame = escape_frame(Frame(function, file).text)
    no_costs = (FunctionCost(),) * len(sides)
    totals = compute_costs(context, weighted_windows, prefix=frame).get(frame, no_costs)
    # A frame with a line number has more text before its closing bracket.
    all_lines = (
        compute_costs(context, weighted_windows, lines=True, prefix=frame.removesuffix(")"))
        if any(map(_has_samples, totals))
        else {}
    )
    costs_by_line = {
        _parse_line(text): costs for text, costs in all_lines.items() if strip_line_number(text) == frame
    }
    ranked = sorted(
        costs_by_line, key=lambda line: (-max(cost.total_ns for cost in costs_by_line[line]), line)
    )
    shown = sorted(ranked[:limit])
    return {
        "type": kind.value,
        "function": function,
        "file": file,
        "line": shown,
        "sides": [
            {
                **narrow_summary(summarize_side(query, windows, kind), windows, weights[at], stack_filter),
                "self_us": [_to_microseconds(costs_by_line[line][at].self_ns) for line in shown],
                "total_us": [_to_microseconds(costs_by_line[line][at].total_ns) for line in shown],
                "self_samples": [costs_by_line[line][at].self_samples for line in shown],
                "total_samples": [costs_by_line[line][at].total_samples for line in shown],
                "whole": {
                    "self_us": _to_microseconds(totals[at].self_ns),
                    "total_us": _to_microseconds(totals[at].total_ns),
                    "self_samples": totals[at].self_samples,
                    "total_samples": totals[at].total_samples,
                },
            }
            for at, (query, windows) in enumerate(zip(sides, windows_by_side, strict=True))
        ],
        "lines_total": len(costs_by_line),
        "basis": build_basis(windows_by_side, kind, context.unreadable_count),
    }


def _parse_line(text: str) -> int:
    """Return the line of an escaped frame, or 0 without one."""
    return Frame.parse(unescape_frame(text)).line if strip_line_number(text) != text else 0


def _has_samples(cost: FunctionCost) -> bool:
    return cost.total_samples > 0


def _to_microseconds(ns: int) -> int:
    return round(ns / 1000)
