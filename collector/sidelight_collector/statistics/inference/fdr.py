"""Tests of many quantities with control of the false-discovery rate.

- Functions: Benjamini and Hochberg (Journal of the Royal Statistical Society B 57, 1995).
- Call paths: from the root down, after Bogomolov, Peterson, Benjamini and Sabatti (Biometrika 108, 2021),
  with the p-value of a subtree after Simes (Biometrika 73, 1986).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sidelight_collector.statistics.preorder import compute_parents_and_ends

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

_P_VALUE_STEPS: Final = np.geomspace(1e-15, 0.1, 145).tolist()


def benjamini_hochberg(p: ArrayLike) -> F64:
    """Return the q-value of each p-value: `compute_q_values` for arrays."""
    values = np.nan_to_num(np.asarray(p, float), nan=1.0)
    order = np.argsort(-values)
    steps = values[order] * len(values) / np.arange(len(values), 0, -1)
    q: F64 = np.empty_like(values)
    q[order] = np.minimum.accumulate(np.minimum(steps, 1.0))
    return q


def tree_rejections(level: I64, p: F64, q: float = 0.05) -> Flags:
    """Return which nodes of a tree changed.

    The nodes are in pre-order: `level` has their levels (0 for the root), `p` their own p-values.

    The test is hierarchical. The p-value of a subtree is that of Simes over all its nodes. From the root
    down, the children of a rejected node are tested together by Benjamini-Hochberg. Their level is the level
    of the parent and its siblings, times the share of those that are rejected. A node counts as changed if
    its subtree is rejected and its own p-value does not exceed what its subtree had to meet.
    """
    count = len(level)
    if not count:
        return np.zeros(0, bool)
    own = np.nan_to_num(np.asarray(p, float), nan=1.0)
    depth = np.asarray(level, np.int64)
    parent, end = compute_parents_and_ends(depth)
    subtree = _compute_simes_p(own, end)
    by_depth = np.argsort(depth, kind="stable")
    ends = np.searchsorted(depth[by_depth], np.arange(depth.max() + 2))
    allowed = np.zeros(count)
    max_rank = np.zeros(count)
    rejected = np.zeros(count, bool)
    allowed[0], rejected[0] = q, subtree[0] <= q
    for at in range(1, int(depth.max()) + 1):
        nodes = by_depth[ends[at] : ends[at + 1]]
        nodes = nodes[rejected[parent[nodes]]]
        if not len(nodes):
            break
        order, rank, size = _rank_siblings(parent[nodes], subtree[nodes])
        nodes = nodes[order]
        above = parent[nodes]
        passes = subtree[nodes] <= allowed[above] * rank / size
        np.maximum.at(max_rank, above, np.where(passes, rank, 0))
        rejected[nodes] = rank <= max_rank[above]
        allowed[nodes] = allowed[above] * max_rank[above] / size
    changed: Flags = rejected & (own <= allowed)
    return changed


def _compute_simes_p(own: F64, end: I64) -> F64:
    """Return the p-value of each subtree after Simes.

    It is the least of p times the number of nodes, divided by the number of nodes with a p as small.
    Subtrees are runs of nodes, so the number with a p of at most some step is a difference of two sums.
    Between the steps, p counts as the next larger one, which is larger by at most a quarter.
    """
    start = np.arange(len(own))
    size = end - start
    least = np.where(size == 1, own, 1.0)
    places = np.flatnonzero(own <= _P_VALUE_STEPS[-1])
    small = own[places]
    first, last = np.searchsorted(places, start), np.searchsorted(places, end)
    # Other subtrees have no node with a small p.
    subtrees = np.flatnonzero(last > first)
    first, last, size, count = first[subtrees], last[subtrees], size[subtrees], 0
    for step in _P_VALUE_STEPS:
        counts = np.concatenate([[0], np.cumsum(small <= step)])
        # With no more nodes than at the step before, no p becomes less.
        if counts[-1] > count:
            count = counts[-1]
            many = counts[last] - counts[first]
            p = np.where(many > 0, step * size / np.maximum(many, 1), 1.0)
            least[subtrees] = np.minimum(least[subtrees], p)
    return least


def _rank_siblings(parent: I64, values: F64) -> tuple[NDArray[np.int64], F64, F64]:
    """Sort the nodes by family and value.

    Returns the order, and in that order the rank of each node in its family and the size of the family.
    """
    order: NDArray[np.int64] = np.lexsort((values, parent))
    ordered = parent[order]
    starts: NDArray[np.int64] = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, len(ordered)])
    rank = (np.arange(len(ordered)) - np.repeat(starts, sizes) + 1).astype(np.float64)
    return order, rank, np.repeat(sizes, sizes).astype(np.float64)
