"""Load both sides of a comparison from the store and build the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import pyarrow as pa

from sidelight_collector.arrow_ops import (
    F64,
    repeat_value,
)
from sidelight_collector.comparison.builder import ComparisonBuilder
from sidelight_collector.comparison.cost_tables import CostRows, FunctionCosts
from sidelight_collector.comparison.inputs import ComparedStacks, ComparisonLoaders
from sidelight_collector.comparison.matrix import (
    PairedObservations,
    SideObservations,
    build_observations,
    select_comparison_windows,
    sum_stacks_by_cell,
)
from sidelight_collector.comparison.model import Verdict
from sidelight_collector.comparison.rename_matching import match_renames
from sidelight_collector.comparison.request import ComparisonOptions, distribute_requests
from sidelight_collector.comparison.side_comparison import SideComparison
from sidelight_collector.comparison.sides.range_choice import find_overlap
from sidelight_collector.comparison.sides.range_statement import format_time_range
from sidelight_collector.query.call_tree import (
    CallTree,
    PooledStacks,
    build_tree_and_pool,
    pool_more_stacks,
    pool_stacks,
)
from sidelight_collector.query.data_basis import DataBasis, SideSummary, build_basis, summarize_side
from sidelight_collector.query.engine.stack_text import StackWeights, weigh_stacks
from sidelight_collector.query.engines.prometheus import RequestCountUnavailable
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.request_counts import TimeBlocks
from sidelight_collector.query.select.observed_time import intersect_intervals, list_observed_intervals
from sidelight_collector.query.stack_filter import StackFilter, apply_filter, narrow_summary
from sidelight_collector.query.windows import (
    SelectedWindows,
    WindowQuery,
)
from sidelight_collector.statistics.basis import Basis, choose_basis
from sidelight_collector.statistics.renames.function_rename import FunctionRename
from sidelight_model.counts import ProfileType


class VerdictAnswer(TypedDict):
    """A verdict alone, and the data that it is based on."""

    type: str
    sides: list[SideSummary]
    verdict: Verdict
    basis: DataBasis


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both sides of a comparison: observations and the samples of each cell.

    `overlap` is the time in which both sides ran, as text, and says whether the rest is left out. It is
    empty if they are not concurrent, and `not_concurrent_reason` says why.
    """

    overlap: str
    not_concurrent_reason: str
    observations: PairedObservations
    cell_sums: Sequence[pa.Table]

    @property
    def windows(self) -> list[SelectedWindows]:
        return [self.observations.baseline.windows, self.observations.comparison.windows]


def load_comparison(
    context: QueryContext, sides: Sequence[WindowQuery], options: ComparisonOptions
) -> Comparison:
    """Load both sides with their samples by cell and stack.

    Sides that overlap are cut to the time in which both were observed, unless the options ask for shares of
    the profile, or divide by request counts that they give for the whole of both sides.
    """
    selected = select_comparison_windows(context, sides, options.max_rows)
    observations = build_observations(sides, selected)
    overlap = find_overlap(*map(list_observed_intervals, selected))
    text = ""
    # Any other basis may fall back to rates of sides that ran at the same time.
    is_cut = options.basis is Basis.CONCURRENT or (
        options.basis is not Basis.COMPOSITION and options.request_counts is None
    )
    if overlap and observations.pairing == "time":
        text = format_time_range(overlap.from_ns, overlap.until_ns)
    elif overlap:
        narrowed = [
            replace(
                side,
                from_ns=max(side.from_ns, overlap.from_ns),
                until_ns=min(side.until_ns, overlap.until_ns),
            )
            for side in sides
        ]
        common = build_observations(narrowed, select_comparison_windows(context, narrowed, options.max_rows))
        if common.pairing == "time":
            text = format_time_range(overlap.from_ns, overlap.until_ns)
            if is_cut:
                observations, text = common, f"{text}, and only this time is compared"
    return Comparison(
        text,
        _explain_not_concurrent(selected),
        observations,
        [sum_stacks_by_cell(context, own) for own in (observations.baseline, observations.comparison)],
    )


def _explain_not_concurrent(selected: Sequence[SelectedWindows]) -> str:
    """Return why two sides are not concurrent."""
    empty = [side for side, windows in zip("AB", selected, strict=True) if not len(windows.table)]
    if empty:
        return "Neither side has windows" if len(empty) == 2 else f"Side {empty[0]} has no windows"
    together = intersect_intervals(*map(list_observed_intervals, selected))
    return (
        "The sides ran together for too short a time" if len(together) else "The sides ran at different times"
    )


def query_verdict(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    stack_filter: StackFilter,
    options: ComparisonOptions,
    max_nodes: int,
) -> VerdictAnswer:
    """Return the verdict on two sides.

    Only the `max_nodes` heaviest nodes of their tree are considered.
    """
    comparison = load_comparison(context, sides, options)
    pairs = list(zip(comparison.windows, _weigh_sides(context, comparison, kind, stack_filter), strict=True))
    tree, pooled = build_tree_and_pool(context, pairs, lines=False, max_nodes=max_nodes)
    verdict, _, _ = build_verdict(context, comparison, pairs, tree, pooled, kind, stack_filter, options)
    return {
        "type": kind.value,
        "sides": [
            narrow_summary(summarize_side(query, windows, kind), windows, weights, stack_filter)
            for query, (windows, weights) in zip(sides, pairs, strict=True)
        ],
        "verdict": verdict,
        "basis": build_basis(comparison.windows, kind, context.unreadable_count),
    }


def build_verdict(
    context: QueryContext,
    comparison: Comparison,
    pairs: Sequence[tuple[SelectedWindows, StackWeights]],
    tree: CallTree,
    pooled: PooledStacks,
    kind: ProfileType,
    stack_filter: StackFilter,
    options: ComparisonOptions,
    *,
    lines: bool = False,
) -> tuple[Verdict, list[int], Sequence[FunctionRename]]:
    """Build the verdict on two sides.

    Returns the verdict, for each node whether it changed, and the renames. The nodes are those of the tree
    after these renames. With `lines` the tree distinguishes lines.
    """
    observations = (comparison.observations.baseline, comparison.observations.comparison)
    stacks = pool_stacks(context, pairs) if lines else pooled

    def load_rows(of_kind: ProfileType) -> list[CostRows]:
        """Load what both sides took of a profile type.

        All rows have stack 0, because their stacks are not used.
        """
        return [
            CostRows.build((repeat_value(0, pa.int32(), len(weights.hashes)), weights), own)
            for own, weights in zip(
                observations, _weigh_sides(context, comparison, of_kind, stack_filter), strict=True
            )
        ]

    def pool_wall_stacks() -> PooledStacks:
        """Pool the stacks of all samples, including waiting ones, without lines."""
        if kind is ProfileType.WALL:
            return stacks
        weights = _weigh_sides(context, comparison, ProfileType.WALL, stack_filter)
        return pool_more_stacks(context, list(zip(comparison.windows, weights, strict=True)), stacks)

    def find_renames(functions: FunctionCosts) -> list[FunctionRename]:
        pod_seconds = (
            comparison.observations.baseline.matrix.total_exposure,
            comparison.observations.comparison.matrix.total_exposure,
        )
        return match_renames(context, pairs, tree, functions, pod_seconds)

    is_complete = stack_filter.accepts_all and not any(
        windows.endpoint_matchers for windows in comparison.windows
    )
    requests, final_options = _load_requests(context, comparison.observations, options)
    basis_choice = choose_basis(
        options.basis,
        comparison.overlap,
        has_requests=requests is not None,
        missing_requests_reason=final_options.missing_requests_reason,
        not_concurrent_reason=comparison.not_concurrent_reason,
    )
    both = SideComparison(
        comparison.observations,
        ComparedStacks(tree, pooled, stacks, is_complete=is_complete, has_lines=lines),
        kind,
        final_options,
        ComparisonLoaders(load_rows, pool_wall_stacks, find_renames),
        basis_choice,
        requests,
    )
    builder = ComparisonBuilder(both)
    context.deadline.remaining()
    return builder.build(), builder.list_node_flags(), both.renames


def _load_requests(
    context: QueryContext, observations: PairedObservations, options: ComparisonOptions
) -> tuple[tuple[F64, F64] | None, ComparisonOptions]:
    """Return the requests in each cell of both sides, as given or from Prometheus.

    Without counts, the returned options contain the reason.
    """
    if options.request_counts is not None:
        total_a, total_b = options.request_counts
        return (
            distribute_requests(observations.baseline, total_a),
            distribute_requests(observations.comparison, total_b),
        ), options
    source = context.request_counts
    if (
        source is None
        or options.missing_requests_reason
        or not (observations.baseline.matrix.total_exposure and observations.comparison.matrix.total_exposure)
    ):
        return None, options
    try:
        a = source.count_requests("A", _to_time_blocks(observations.baseline), context.deadline.remaining())
        b = source.count_requests("B", _to_time_blocks(observations.comparison), context.deadline.remaining())
    except RequestCountUnavailable as unknown:
        context.is_transient = True
        return None, replace(options, missing_requests_reason=str(unknown))
    return (a, b), options


def _to_time_blocks(observations: SideObservations) -> TimeBlocks:
    """Return the blocks of time of a side, for which requests are counted."""
    return TimeBlocks(
        observations.start_ns,
        observations.matrix.block_seconds,
        observations.alive_seconds,
        observations.windows.process_windows,
        observations.matrix.pods,
    )


def _weigh_sides(
    context: QueryContext, comparison: Comparison, kind: ProfileType, stack_filter: StackFilter
) -> list[StackWeights]:
    """Weigh the stacks of each side that pass the filter, by profile type."""
    return [
        apply_filter(context, windows, weigh_stacks(table, kind), stack_filter)
        for windows, table in zip(comparison.windows, comparison.cell_sums, strict=True)
    ]
