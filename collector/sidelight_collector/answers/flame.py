"""The flame graph answer: one side or two, in columns, pruned for drawing only."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NotRequired, TypedDict

import pyarrow as pa

from sidelight_collector.comparison.answer import build_verdict, load_comparison
from sidelight_collector.comparison.model import Verdict
from sidelight_collector.comparison.rename_matching import rename_tree_functions
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.query.call_tree import CallTree, PooledStacks, build_tree_and_pool
from sidelight_collector.query.data_basis import DataBasis, SideSummary, build_basis, summarize_side
from sidelight_collector.query.engine.stack_text import STATES_BY_TYPE, StackWeights, weigh_stacks
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import (
    select_side_windows,
)
from sidelight_collector.query.stack_filter import NO_FILTER, StackFilter, apply_filter, narrow_summary
from sidelight_collector.query.windows import (
    SelectedWindows,
    WindowQuery,
)
from sidelight_collector.storage.tables import STATES
from sidelight_model.counts import ProfileType
from sidelight_model.frames import unescape_frame


class SelfColumns(TypedDict):
    """For each node what ended exactly there, and by state if that was asked for."""

    self_samples: Sequence[int]
    self_us: Sequence[int]
    self_samples_by_state: NotRequired[dict[str, Sequence[int]]]
    self_us_by_state: NotRequired[dict[str, Sequence[int]]]


class FlameGraphSide(SideSummary, SelfColumns):
    """One side's numbers and columns."""


class PruningSummary(TypedDict):
    """How many nodes were folded into `(other)`, and the limit they were folded for."""

    nodes: int
    limit: int | None


class FlameGraph(TypedDict):
    """A call tree in pre-order (see sidelight_model.tree), frames unescaped for reading.

    With a verdict, `changed` has a 1 for each node that is outside noise.
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
    """The call tree of these sides, the lightest nodes beyond `nodes` (None: beyond `max_nodes`) as
    `(other)`.

    With `states` each state is drawn as a side of its own, so that a node heavy in one of them is kept. A
    verdict is `comparison_options` of two sides only.
    """
    comparison = None if comparison_options is None else load_comparison(context, sides, comparison_options)
    chosen = comparison.windows if comparison else select_side_windows(context, sides)
    limit = min(nodes or max_nodes, max_nodes)
    added = comparison.cell_sums if comparison else [sum_stacks(context, windows) for windows in chosen]
    weighed = [
        _weigh_side(context, windows, table, kind, stack_filter, states=states)
        for windows, table in zip(chosen, added, strict=True)
    ]
    columns = [(windows, each) for windows, own in zip(chosen, weighed, strict=True) for each in own]
    tree, pooled = build_tree_and_pool(context, columns, lines=lines, max_nodes=limit)
    context.deadline.remaining()
    found = None
    if comparison and comparison_options:
        at = (0, len(weighed[0]))
        own = PooledStacks(pooled.builder, [pooled.sides[each] for each in at])
        alone = replace(
            tree,
            samples=[tree.samples[each] for each in at],
            microseconds=[tree.microseconds[each] for each in at],
        )
        pairs = [columns[each] for each in at]
        found = build_verdict(
            context, comparison, pairs, alone, own, kind, stack_filter, comparison_options, lines=lines
        )
        tree = rename_tree_functions(tree, found[2])
    answer = _build_answer(
        context, sides, chosen, weighed, tree, kind, lines=lines, states=states, stack_filter=stack_filter
    )
    answer["pruned"]["limit"] = limit if nodes or tree.total_nodes > max_nodes else None
    if found:
        answer["verdict"], answer["changed"], _ = found
    return answer


def _build_answer(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    chosen: Sequence[SelectedWindows],
    weighed: Sequence[Sequence[StackWeights]],
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
        "level": tree.level,
        "name": tree.name,
        "sides": [
            {
                **narrow_summary(summarize_side(question, windows, kind), weights[0], stack_filter),
                **_build_self_columns(tree, at * len(weights), kind, states=states),
            }
            for at, (question, windows, weights) in enumerate(zip(sides, chosen, weighed, strict=True))
        ],
        "pruned": {"nodes": tree.pruned_nodes, "limit": None},
        "basis": build_basis(chosen, kind, context.unreadable_count),
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
    """The side itself, then each state of its type if these are wanted."""
    weights = [weigh_stacks(stack_sums, kind)]
    if states:
        weights += [weigh_stacks(stack_sums, kind, (state,)) for state in STATES_BY_TYPE[kind]]
    return [apply_filter(context, windows, each, stack_filter) for each in weights]


def _build_self_columns(tree: CallTree, first: int, kind: ProfileType, *, states: bool) -> SelfColumns:
    columns: SelfColumns = {"self_samples": tree.samples[first], "self_us": tree.microseconds[first]}
    if states:
        at = {state: first + 1 + place for place, state in enumerate(STATES_BY_TYPE[kind])}
        none = [0] * len(tree.level)
        columns["self_samples_by_state"] = {
            state: tree.samples[at[state]] if state in at else none for state in STATES
        }
        columns["self_us_by_state"] = {
            state: tree.microseconds[at[state]] if state in at else none for state in STATES
        }
    return columns
