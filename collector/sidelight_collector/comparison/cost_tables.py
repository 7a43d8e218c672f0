"""Tables of what functions and call paths took in each cell of both sides.

Verdicts are made from these tables. Functions and nodes with fewer than `MIN_SAMPLES` samples on both sides
together are left out: they scatter by more than they are, so no test could ever find a change. Only the
heaviest are taken, up to the number that is to be tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.arrow_ops import (
    F64,
    I64,
    to_float64_numpy,
    to_int64_numpy,
)
from sidelight_collector.comparison.matrix import SideObservations
from sidelight_collector.query.call_tree import I32, CallTree, Flags, PooledSide, PooledStacks
from sidelight_collector.statistics.preorder import compute_parents_and_ends
from sidelight_collector.times import SECOND_NS

MIN_SAMPLES: Final = 6
_MAX_EXACT_FLOAT: Final = 2.0**53
"""Integers below this are exact as floats."""
_MAX_EXACT_NS: Final = 2.0**62


@dataclass(frozen=True, slots=True)
class CostRows:
    """Rows of one side: stack, cell, samples and ns of each row.

    `shape` is that of the cells.
    """

    stack_ids: I32
    cell_ids: I32
    samples: F64
    ns: F64
    shape: tuple[int, int]

    @classmethod
    def build(cls, pooled_side: PooledSide, observations: SideObservations) -> CostRows:
        numbers, weights = pooled_side
        if weights.cell_ids is None:
            raise ValueError("this side was not cut into cells")
        samples = to_float64_numpy(weights.samples)
        cell = to_int64_numpy(weights.cell_ids).astype(np.int32)
        return cls(
            to_int64_numpy(numbers).astype(np.int32),
            cell,
            samples,
            samples * to_float64_numpy(weights.period_ns),
            observations.shape,
        )

    @property
    def cell_count(self) -> int:
        return self.shape[0] * self.shape[1]

    def sum_by_stack(self, stack_count: int) -> F64:
        """Return the samples of each stack."""
        return _to_float64(np.bincount(self.stack_ids, self.samples, stack_count))

    def sum_seconds(self, stack_mask: Flags | None = None) -> F64:
        """Return the seconds in each cell, (P, T), of all stacks or of those in a mask."""
        ns = self.ns if stack_mask is None else np.where(stack_mask[self.stack_ids], self.ns, 0.0)
        return _to_float64(np.bincount(self.cell_ids, ns, self.cell_count)).reshape(self.shape) / SECOND_NS

    def count_samples(self, stack_mask: Flags) -> float:
        """Return the number of samples of the stacks in a mask."""
        return float(self.samples[stack_mask[self.stack_ids]].sum())

    def sum_subtree_seconds(self, node_ids: I64, ends: I64) -> F64:
        """Return the seconds of subtrees in each cell, (K, P, T).

        Their nodes are in pre-order. `node_ids` is the node of each stack, or K for none of them, and `ends`
        where each subtree ends.
        """
        own = self._sum_by_group(self.ns, node_ids, len(ends) + 1)[:-1]
        return _to_float64(_sum_subtrees(_to_exact(own), ends)) / SECOND_NS

    def sum_by_group(self, group_ids: I64, group_count: int) -> F64:
        """Return the samples in each cell by group, (`group_count`, P, T).

        `group_ids` is the group of each stack.
        """
        return self._sum_by_group(self.samples, group_ids, group_count)

    def sum_seconds_by_group(self, group_ids: I64, group_count: int) -> F64:
        """Return the seconds in each cell by group, as `sum_by_group` does."""
        return self._sum_by_group(self.ns, group_ids, group_count) / SECOND_NS

    def _sum_by_group(self, values: F64, group_ids: I64, group_count: int) -> F64:
        at = group_ids[self.stack_ids] * self.cell_count + self.cell_ids
        return _to_float64(np.bincount(at, values, group_count * self.cell_count)).reshape(
            group_count, *self.shape
        )


@dataclass(frozen=True, slots=True)
class CostTable:
    """Seconds of K quantities in the cells of each side, (K, P, T), and samples, (K,)."""

    a: F64
    b: F64
    samples_a: F64
    samples_b: F64

    @property
    def seconds(self) -> tuple[F64, F64]:
        return self.a.sum((1, 2)), self.b.sum((1, 2))

    def take(self, at: I64) -> CostTable:
        """Return the table of a selection."""
        return CostTable(self.a[at], self.b[at], self.samples_a[at], self.samples_b[at])


@dataclass(frozen=True, slots=True)
class FunctionCosts:
    """Functions with their self and total time.

    `names` are escaped frames without lines. `function_count` includes the functions that are left out.
    """

    names: Sequence[str]
    self_costs: CostTable
    total_costs: CostTable
    function_count: int


@dataclass(frozen=True, slots=True)
class NodeCosts:
    """The nodes of a tree that can be tested, in pre-order.

    `node_ids` are their indices in the tree. `seconds` and samples are their total costs on each side, and
    `take` cuts those of a selection into cells. `ends` is where the subtree of each node of the tree ends.
    """

    node_ids: I64
    seconds: tuple[F64, F64]
    samples_a: F64
    samples_b: F64
    rows: tuple[CostRows, CostRows]
    stack_nodes: I64
    ends: I64

    def take(self, at: I64) -> CostTable:
        """Return the costs of a selection, in ascending order, in the cells of each side."""
        nodes = self.node_ids[at]
        # Nodes come before those below them, so what is written last is the nearest.
        nearest = np.full(len(self.ends), len(nodes))
        for place, (node, end) in enumerate(zip(nodes.tolist(), self.ends[nodes].tolist(), strict=True)):
            nearest[node:end] = place
        ends_at = np.searchsorted(nodes, self.ends[nodes])
        places = nearest[self.stack_nodes]
        a, b = (rows.sum_subtree_seconds(places, ends_at) for rows in self.rows)
        return CostTable(a, b, self.samples_a[at], self.samples_b[at])


def build_function_costs(pooled: PooledStacks, a: CostRows, b: CostRows, max_functions: int) -> FunctionCosts:
    """Build the costs of the functions of both sides, at most `max_functions`."""
    builder = pooled.builder
    words, stacks = builder.frame_names(), len(builder)
    every = np.arange(len(words), dtype=np.int32)
    # There are far fewer stacks than rows, so the heaviest functions are selected by stack.
    (own_a, all_a), (own_b, all_b) = (
        (own[:, 0], total[:, 0])
        for rows in (a, b)
        for own, total in [builder.sum_by_frame(_sum_samples_by_stack(rows, stacks), every, 1)]
    )
    selected = np.sort(select_heaviest(all_a, all_b, max_functions))
    place = np.full(len(words), -1, np.int32)
    place[selected] = np.arange(len(selected))
    (own_of_a, total_of_a), (own_of_b, total_of_b) = (
        tuple(
            table.reshape(len(selected), *rows.shape) / SECOND_NS
            for table in builder.sum_by_frame(
                (rows.stack_ids, rows.cell_ids, rows.ns), place, rows.cell_count
            )
        )
        for rows in (a, b)
    )
    return FunctionCosts(
        [words[at] for at in selected.tolist()],
        CostTable(own_of_a, own_of_b, own_a[selected], own_b[selected]),
        CostTable(total_of_a, total_of_b, all_a[selected], all_b[selected]),
        int(((all_a > 0) | (all_b > 0)).sum()),
    )


def _sum_samples_by_stack(rows: CostRows, stacks: int) -> tuple[I32, I32, F64]:
    samples = rows.sum_by_stack(stacks)
    seen = np.flatnonzero(samples).astype(np.int32)
    return seen, np.zeros_like(seen), samples[seen]


def build_node_costs(tree: CallTree, a: CostRows, b: CostRows, max_nodes: int) -> NodeCosts:
    """Build the costs of the nodes of a tree of both sides, at most `max_nodes`.

    The ancestors of each node are included.
    """
    ends = compute_parents_and_ends(tree.level)[1]
    samples_a, samples_b = (_to_float64(_sum_subtrees(own, ends)) for own in tree.samples[:2])
    at = np.union1d(select_heaviest(samples_a, samples_b, max_nodes), [0])
    count = len(tree.level)
    ns = (np.bincount(tree.stack_nodes[rows.stack_ids], rows.ns, count) for rows in (a, b))
    seconds_a, seconds_b = (
        _to_float64(_sum_subtrees(_to_exact(_to_float64(of)), ends)[at]) / SECOND_NS for of in ns
    )
    samples = samples_a[at], samples_b[at]
    return NodeCosts(at, (seconds_a, seconds_b), *samples, (a, b), tree.stack_nodes, ends)


def _sum_subtrees(own: NDArray[Any], end: I64) -> NDArray[Any]:
    """Return the sum of each node and all nodes below it.

    The subtree of a node is the run of nodes up to `end`.
    """
    sums = np.zeros((len(own) + 1, *own.shape[1:]), own.dtype)
    np.cumsum(own, axis=0, out=sums[1:])
    below: NDArray[Any] = sums[end]
    below -= sums[:-1]
    return below


def _to_exact(ns: F64) -> NDArray[Any]:
    """Convert to numbers that have exact differences, if their sum fits 62 bits."""
    whole = float(ns.sum())
    return np.rint(ns).astype(np.int64) if _MAX_EXACT_FLOAT <= whole < _MAX_EXACT_NS else ns


def select_heaviest(a: F64, b: F64, max_rows: int) -> I64:
    """Select quantities with enough samples, the largest first.

    Their size is their share of either side.
    """
    share = np.maximum(a / max(float(a.max(initial=0)), 1), b / max(float(b.max(initial=0)), 1))
    order = np.argsort(-share, kind="stable")
    return order[(a + b)[order] >= MIN_SAMPLES][:max_rows]


def _to_float64(values: NDArray[Any]) -> F64:
    floating: F64 = values.astype(np.float64, copy=False)
    return floating
