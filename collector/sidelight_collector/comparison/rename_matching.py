"""Merge functions that changed their name or file.

They count as one in the functions of a comparison and in its tree.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from sidelight_collector.arrow_ops import (
    F64,
    I64,
)
from sidelight_collector.comparison.cost_tables import CostTable, FunctionCosts
from sidelight_collector.query.call_tree import CallTree, Flags, compute_costs
from sidelight_collector.query.engine.stack_text import StackWeights
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.statistics.preorder import compute_parents_and_ends, merge_siblings
from sidelight_collector.statistics.renames.function_matching import match_functions
from sidelight_collector.statistics.renames.function_profiles import LinesByFunction
from sidelight_collector.statistics.renames.function_rename import FunctionRename, compute_canonical_ids
from sidelight_collector.statistics.renames.unmatched_functions import find_unmatched
from sidelight_model.frames import Frame, strip_line_number, unescape_frame


def match_renames(
    context: QueryContext,
    pairs: Sequence[tuple[SelectedWindows, StackWeights]],
    tree: CallTree,
    functions: FunctionCosts,
    pod_seconds: tuple[float, float],
) -> list[FunctionRename]:
    """Match the functions of two sides that are the same, best match first.

    `pod_seconds` are the pod-seconds of each side.
    """
    of = functions.total_costs
    if min(pod_seconds) <= 0:
        return []
    samples_per_rate = tuple(
        float(samples.sum()) / (us.sum() / whole) if us.any() else 0.0
        for samples, us, whole in zip(tree.samples[:2], tree.microseconds[:2], pod_seconds, strict=True)
    )
    unmatched = find_unmatched(
        functions.names, (of.samples_a, of.samples_b), (samples_per_rate[0], samples_per_rate[1])
    )
    if not unmatched:
        return []
    rates = [
        _sum_subtrees(tree.level, us.astype(np.float64)) / whole
        for us, whole in zip(tree.microseconds[:2], pod_seconds, strict=True)
    ]
    lines = _list_lines(context, pairs, unmatched.files)
    return match_functions(tree.names, tree.level, tree.name, (rates[0], rates[1]), unmatched, lines)


def merge_renamed_functions(
    functions: FunctionCosts, renames: Sequence[FunctionRename]
) -> tuple[FunctionCosts, list[str | None]]:
    """Merge each pair of names into one function under the new name.

    Returns the functions and the old name of each, if any. No stack of B has the old name and no stack of A
    the new one, so the sum of both names is exact on both sides.
    """
    at = {text: place for place, text in enumerate(functions.names)}
    present = [rename for rename in renames if rename.old in at and rename.new in at]
    old, new = (np.array([at[text] for text in texts], np.int64) for texts in (
        [rename.old for rename in present], [rename.new for rename in present]
    ))  # fmt: skip
    remaining = np.setdiff1d(np.arange(len(functions.names)), old)
    old_names = {rename.new: rename.old for rename in present}
    names = [functions.names[place] for place in remaining.tolist()]
    own, total = (
        _move_costs(table, old, new).take(remaining)
        for table in (functions.self_costs, functions.total_costs)
    )
    return FunctionCosts(names, own, total, functions.function_count - len(present)), [
        old_names.get(text) for text in names
    ]


def rename_tree_functions(tree: CallTree, renames: Sequence[FunctionRename]) -> CallTree:
    """Replace old names in the tree, and merge call paths that become equal."""
    if not renames:
        return tree
    levels, codes, place = merge_siblings(
        tree.names, tree.level, np.array(compute_canonical_ids(tree.names, renames), np.int64)[tree.name]
    )
    number = {old: new for new, old in enumerate(dict.fromkeys(codes.tolist()))}
    samples, microseconds = (
        [_sum_by_place(place, side, len(levels)) for side in sides]
        for sides in (tree.samples, tree.microseconds)
    )
    return replace(
        tree,
        names=[tree.names[old] for old in number],
        level=levels,
        name=np.array([number[old] for old in codes.tolist()], np.int64),
        samples=samples,
        microseconds=microseconds,
        stack_nodes=np.where(tree.stack_nodes >= 0, place[tree.stack_nodes], -1),
    )


def include_old_names(
    frame_mask: Flags, frame_names: Sequence[str], renames: Sequence[FunctionRename]
) -> Flags:
    """Extend a mask of frames to the old names of the frames in it."""
    at = {word: place for place, word in enumerate(frame_names)}
    extended_mask = frame_mask.copy()
    for rename in renames:
        if rename.old in at and rename.new in at and frame_mask[at[rename.new]]:
            extended_mask[at[rename.old]] = True
    return extended_mask


def _list_lines(
    context: QueryContext, pairs: Sequence[tuple[SelectedWindows, StackWeights]], files: Collection[str]
) -> LinesByFunction:
    """List the sampled lines on each side of the functions in these files."""
    lines_by_function: defaultdict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for text, cost in compute_costs(context, pairs, lines=True).items():
        frame = Frame.parse(unescape_frame(text))
        if frame.line and frame.file in files:
            for lines, own in zip(lines_by_function[strip_line_number(text)], cost, strict=True):
                if own.total_samples:
                    lines.add(frame.line)
    return lines_by_function


def _move_costs(table: CostTable, old: I64, new: I64) -> CostTable:
    """Move the costs of A from the old names to the new ones."""
    a, samples = table.a.copy(), table.samples_a.copy()
    a[new] += a[old]
    samples[new] += samples[old]
    return replace(table, a=a, samples_a=samples)


def _sum_subtrees(level: I64, own: F64) -> F64:
    """Return the sum of each node and all nodes below it."""
    sums = np.concatenate([[0.0], np.cumsum(own)])
    _, ends = compute_parents_and_ends(level)
    totals: F64 = sums[ends] - sums[:-1]
    return totals


def _sum_by_place(place: I64, values: I64, count: int) -> I64:
    """Sum integers by place; they may be larger than a float can hold."""
    sums = np.zeros(count, object if values.max(initial=0) >= 2**62 else np.int64)
    np.add.at(sums, place, values.astype(sums.dtype))
    return sums
