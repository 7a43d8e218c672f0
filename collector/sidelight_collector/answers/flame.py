"""The flame graph response: one side or two, in columns, pruned only for drawing."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NotRequired, TypedDict

import pyarrow as pa

from sidelight_collector.arrow_ops import sum_ints
from sidelight_collector.comparison.answer import build_verdict, load_comparison
from sidelight_collector.comparison.matrix import observe_one_side
from sidelight_collector.comparison.model import Verdict
from sidelight_collector.comparison.rename_matching import rename_tree_functions
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.query.call_tree import CallTree, PooledStacks, build_tree_and_pool
from sidelight_collector.query.data_basis import DataBasis, SideSummary, build_basis, summarize_side
from sidelight_collector.query.engine.stack_text import StackWeights, weigh_stacks
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.sampling_quality import list_nested_strings
from sidelight_collector.query.select.window_query import select_side_windows
from sidelight_collector.query.stack_filter import NO_FILTER, StackFilter, apply_filter, narrow_summary
from sidelight_collector.query.windows import (
    SelectedWindows,
    WindowQuery,
)
from sidelight_collector.statistics.inference.sample_shares import estimate_share
from sidelight_model.counts import STATES, STATES_BY_TYPE, ProfileType
from sidelight_model.frames import unescape_frame

_MIN_GIL_SAMPLES: Final = 1000
_MIN_GIL_WAIT_SHARE: Final = 0.1
_GIL_WAIT: Final = "gil_wait"
_GIL_STATES: Final = ("gil", "running", "cpu_wait", _GIL_WAIT)
"""States in which a thread wants to run."""


class GilContention(TypedDict):
    """A share with its interval.

    Its ends are None where one pod at one time shows no scatter.
    """

    share: float
    low: float | None
    high: float | None


class SelfColumns(TypedDict):
    """The self cost of each node, and by state if requested."""

    self_samples: Sequence[int]
    self_us: Sequence[int]
    self_samples_by_state: NotRequired[dict[str, Sequence[int]]]
    self_us_by_state: NotRequired[dict[str, Sequence[int]]]


class FlameGraphSide(SideSummary, SelfColumns):
    """The numbers and columns of one side.

    `gil_contention` tells what the GIL costs, if that is known and much, and not in comparisons.
    """

    gil_contention: GilContention | None


class PruningSummary(TypedDict):
    """The number of nodes folded into `(other)`, and the node limit that applied."""

    nodes: int
    limit: int | None


class FlameGraph(TypedDict):
    """A call tree in pre-order (see sidelight_model.tree) with unescaped frames.

    With a verdict, `changed` has a 1 for each node whose change is outside noise.
    """

    type: str
    lines: bool
    names: list[str]
    level: Sequence[int]
    name: Sequence[int]
    sides: list[FlameGraphSide]
    pruned: PruningSummary
    basis: DataBasis
    changed: NotRequired[list[int]]
    verdict: NotRequired[Verdict]


def query_flame_graph(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    *,
    lines: bool,
    nodes: int | None,
    max_nodes: int,
    states: bool = False,
    stack_filter: StackFilter = NO_FILTER,
    comparison_options: ComparisonOptions | None = None,
) -> FlameGraph:
    """Build the call tree of one side or two, pruned to the heaviest nodes.

    Nodes beyond `nodes` (None: beyond `max_nodes`) are folded into `(other)`. With `states` each state
    counts as a side of its own for pruning, so a node that is heavy in one state remains. With
    `comparison_options`, allowed only for two sides, the response has a verdict.
    """
    comparison = None if comparison_options is None else load_comparison(context, sides, comparison_options)
    windows_by_side = comparison.windows if comparison else select_side_windows(context, sides)
    limit = min(nodes or max_nodes, max_nodes)
    stack_sums = (
        comparison.cell_sums if comparison else [sum_stacks(context, windows) for windows in windows_by_side]
    )
    weights_by_side = [
        _weigh_side(context, windows, table, kind, stack_filter, states=states)
        for windows, table in zip(windows_by_side, stack_sums, strict=True)
    ]
    columns = [
        (windows, weights)
        for windows, side_weights in zip(windows_by_side, weights_by_side, strict=True)
        for weights in side_weights
    ]
    tree, pooled = build_tree_and_pool(context, columns, lines=lines, max_nodes=limit)
    context.deadline.remaining()
    verdict = None
    if comparison and comparison_options:
        side_columns = (0, len(weights_by_side[0]))
        side_stacks = PooledStacks(pooled.builder, [pooled.sides[column] for column in side_columns])
        alone = replace(
            tree,
            samples=[tree.samples[column] for column in side_columns],
            microseconds=[tree.microseconds[column] for column in side_columns],
        )
        pairs = [columns[column] for column in side_columns]
        verdict = build_verdict(
            context,
            comparison,
            pairs,
            alone,
            side_stacks,
            kind,
            stack_filter,
            comparison_options,
            lines=lines,
        )
        tree = rename_tree_functions(tree, verdict[2])
    answer = _build_answer(
        context,
        sides,
        windows_by_side,
        weights_by_side,
        tree,
        kind,
        lines=lines,
        states=states,
        stack_filter=stack_filter,
    )
    answer["pruned"]["limit"] = limit if nodes or tree.total_nodes > max_nodes else None
    if verdict:
        answer["verdict"], answer["changed"], _ = verdict
    return answer


def _build_answer(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    windows_by_side: Sequence[SelectedWindows],
    weights_by_side: Sequence[Sequence[StackWeights]],
    tree: CallTree,
    kind: ProfileType,
    *,
    lines: bool,
    states: bool,
    stack_filter: StackFilter,
) -> FlameGraph:
    return {
        "type": kind.value,
        "lines": lines,
        "names": list(map(unescape_frame, tree.names)),
        "level": tree.level.tolist(),
        "name": tree.name.tolist(),
        "sides": [
            {
                **narrow_summary(summarize_side(query, windows, kind), windows, weights[0], stack_filter),
                **_build_self_columns(tree, at * len(weights), kind, states=states),
                "gil_contention": _measure_gil_contention(windows) if len(sides) == 1 else None,
            }
            for at, (query, windows, weights) in enumerate(
                zip(sides, windows_by_side, weights_by_side, strict=True)
            )
        ],
        "pruned": {"nodes": tree.pruned_nodes, "limit": None},
        "basis": build_basis(windows_by_side, kind, context.unreadable_count),
    }


def _weigh_side(
    context: QueryContext,
    windows: SelectedWindows,
    stack_sums: pa.Table,
    kind: ProfileType,
    stack_filter: StackFilter,
    *,
    states: bool,
) -> list[StackWeights]:
    """Return the weights of a side, and with `states` those of each state of its type."""
    weights = [weigh_stacks(stack_sums, kind)]
    if states:
        weights += [weigh_stacks(stack_sums, kind, (state,)) for state in STATES_BY_TYPE[kind]]
    return [apply_filter(context, windows, side_weights, stack_filter) for side_weights in weights]


def _build_self_columns(tree: CallTree, first: int, kind: ProfileType, *, states: bool) -> SelfColumns:
    columns: SelfColumns = {
        "self_samples": tree.samples[first].tolist(),
        "self_us": tree.microseconds[first].tolist(),
    }
    if states:
        columns_by_state = {state: first + 1 + place for place, state in enumerate(STATES_BY_TYPE[kind])}
        zeros = [0] * len(tree.level)
        columns["self_samples_by_state"] = {
            state: tree.samples[columns_by_state[state]].tolist() if state in columns_by_state else zeros
            for state in STATES
        }
        columns["self_us_by_state"] = {
            state: tree.microseconds[columns_by_state[state]].tolist() if state in columns_by_state else zeros
            for state in STATES
        }
    return columns


def _measure_gil_contention(windows: SelectedWindows) -> GilContention | None:
    """Measure what the GIL costs, with an interval from how far pods and times differ.

    The result is None where it is little, not known for all windows, or of few samples.
    """
    waiting, wanted = (
        sum(sum_ints(windows.table[state]) for state in states) for states in ((_GIL_WAIT,), _GIL_STATES)
    )
    if wanted < _MIN_GIL_SAMPLES or waiting < _MIN_GIL_WAIT_SHARE * wanted:
        return None
    if _GIL_WAIT in list_nested_strings(windows.process_windows["missing_states"]):
        return None
    observations = observe_one_side(windows)
    matrix = replace(observations.matrix, exposure=observations.sum_seconds(_GIL_STATES))
    found = estimate_share(matrix, observations.sum_seconds((_GIL_WAIT,)), wanted)
    return {"share": found.share, "low": found.low, "high": found.high}
