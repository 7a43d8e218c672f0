"""The top functions by cost, and the distribution of stack depths."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypedDict

import pyarrow as pa

from sidelight_collector.arrow_ops import to_ints
from sidelight_collector.query.call_tree import compute_costs
from sidelight_collector.query.data_basis import DataBasis, SideSummary, build_basis, summarize_side
from sidelight_collector.query.engine.stack_text import StackWeights, resolve_stacks, weigh_stacks
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_side_windows
from sidelight_collector.query.stack_filter import (
    NO_FILTER,
    DepthPool,
    StackFilter,
    apply_filter,
    narrow_summary,
)
from sidelight_collector.query.windows import (
    SelectedWindows,
    WindowQuery,
)
from sidelight_model.aggregate import DepthDistribution, FunctionCost, find_largest_gap
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame, unescape_frame


class TopRows(TypedDict):
    """The functions of a table, aligned with the columns of the sides."""

    function: list[str]
    file: list[str]


class TopSide(SideSummary):
    """The numbers and columns of one side.

    The totals count a stack once, however often a function recurs in it.
    """

    self_us: list[int]
    total_us: list[int]
    self_samples: list[int]
    total_samples: list[int]


class TopFunctions(TypedDict):
    """Functions by cost; `functions_total` is their number without the limit."""

    type: str
    by: str
    rows: TopRows
    sides: list[TopSide]
    functions_total: int
    basis: DataBasis


class DepthSide(SideSummary):
    """The depth distribution of one side.

    `samples_at[i]` samples were `depth[i]` frames deep.
    """

    depth: list[int]
    samples_at: list[int]
    mean: float | None
    p50: int | None
    p95: int | None
    p99: int | None
    max: int | None


class DepthGap(TypedDict):
    """The largest gap between two cumulative depth distributions.

    `depth` is the depth of the gap, `gap` its size as a share of samples (0 to 1).
    """

    depth: int
    gap: float


class StackDepths(TypedDict):
    """Stack depths of each side; with two sides, also the largest gap between them."""

    type: str
    sides: list[DepthSide]
    largest_gap: DepthGap | None
    basis: DataBasis


class CostOrder(StrEnum):
    """The sort order of a table of functions: by self time or by total time."""

    SELF = "self"
    TOTAL = "total"

    def cost_ns(self, cost: FunctionCost) -> int:
        return cost.self_ns if self is CostOrder.SELF else cost.total_ns


def query_top(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    by: CostOrder,
    limit: int,
    stack_filter: StackFilter = NO_FILTER,
) -> TopFunctions:
    """Find the `limit` functions with the highest cost on any side.

    `by` selects self time or total time.
    """
    windows_by_side = select_side_windows(context, sides)
    weights_by_side = [
        apply_filter(context, windows, weigh_stacks(sum_stacks(context, windows), kind), stack_filter)
        for windows in windows_by_side
    ]
    costs_by_frame = compute_costs(context, list(zip(windows_by_side, weights_by_side, strict=True)))
    ranked = sorted(costs_by_frame.items(), key=lambda item: (-max(map(by.cost_ns, item[1])), item[0]))
    heaviest = ranked[:limit]
    frames = [Frame.parse(unescape_frame(frame)) for frame, _ in heaviest]
    return {
        "type": kind.value,
        "by": by.value,
        "rows": {
            "function": [frame.function for frame in frames],
            "file": [frame.file for frame in frames],
        },
        "sides": [
            _build_top_side(
                narrow_summary(summarize_side(query, windows, kind), windows, weights, stack_filter),
                [costs[at] for _, costs in heaviest],
            )
            for at, (query, windows, weights) in enumerate(
                zip(sides, windows_by_side, weights_by_side, strict=True)
            )
        ],
        "functions_total": len(costs_by_frame),
        "basis": build_basis(windows_by_side, kind, context.unreadable_count),
    }


def query_depth(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    stack_filter: StackFilter = NO_FILTER,
) -> StackDepths:
    """Compute the stack depths of one side or two."""
    windows_by_side = select_side_windows(context, sides)
    weights_by_side = [
        apply_filter(context, windows, weigh_stacks(sum_stacks(context, windows), kind), stack_filter)
        for windows in windows_by_side
    ]
    distributions = [
        _measure_depths(context, windows, weights)
        for windows, weights in zip(windows_by_side, weights_by_side, strict=True)
    ]
    gap = find_largest_gap(*distributions) if len(distributions) == 2 else None
    return {
        "type": kind.value,
        "sides": [
            _build_depth_side(
                narrow_summary(summarize_side(query, windows, kind), windows, weights, stack_filter),
                distribution,
            )
            for query, windows, weights, distribution in zip(
                sides, windows_by_side, weights_by_side, distributions, strict=True
            )
        ],
        "largest_gap": {"depth": gap[0], "gap": abs(gap[1])} if gap else None,
        "basis": build_basis(windows_by_side, kind, context.unreadable_count),
    }


def _measure_depths(
    context: QueryContext, windows: SelectedWindows, weights: StackWeights
) -> DepthDistribution:
    pool = DepthPool()
    stack_ids = resolve_stacks(context, windows, weights.service, weights.hashes, pool)
    samples_by_stack = pa.table({"depth": pool.depths().take(stack_ids), "samples": weights.samples})
    samples_by_depth = samples_by_stack.group_by("depth").aggregate([("samples", "sum")]).sort_by("depth")
    return DepthDistribution(
        dict(zip(to_ints(samples_by_depth["depth"]), to_ints(samples_by_depth["samples_sum"]), strict=True))
    )


def _build_depth_side(summary: SideSummary, distribution: DepthDistribution) -> DepthSide:
    return {
        **summary,
        "depth": list(distribution.samples),
        "samples_at": list(distribution.samples.values()),
        "mean": distribution.mean,
        "p50": distribution.quantile(0.5),
        "p95": distribution.quantile(0.95),
        "p99": distribution.quantile(0.99),
        "max": distribution.max,
    }


def _build_top_side(summary: SideSummary, costs: Sequence[FunctionCost]) -> TopSide:
    return {
        **summary,
        "self_us": [round(cost.self_ns / 1000) for cost in costs],
        "total_us": [round(cost.total_ns / 1000) for cost in costs],
        "self_samples": [cost.self_samples for cost in costs],
        "total_samples": [cost.total_samples for cost in costs],
    }
