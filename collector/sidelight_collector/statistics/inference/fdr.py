"""Which of many things changed, when looking at many finds some change by luck."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
Flags = NDArray[np.bool_]

_P_VALUE_STEPS: Final = np.geomspace(1e-15, 0.1, 145).tolist()


def benjamini_hochberg(p: ArrayLike) -> F64:
    """The q of each p: rejecting what has q <= 5 % leaves 5 % of what is rejected false, on average.

    Benjamini and Hochberg (1995); it holds where quantities rise and fall together too (Benjamini and
    Yekutieli, 2001). NaN counts as 1.
    """
    values: F64 = np.nan_to_num(np.asarray(p, float), nan=1.0)
    order = np.argsort(values)
    ranked = values[order] * len(values) / np.arange(1, len(values) + 1)
    q: F64 = np.empty_like(values)
    q[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    return q


def tree_rejections(level: I32, p: F64, q: float = 0.05) -> Flags:
    """Which nodes of a tree changed: its nodes in pre-order with their levels (the root's is 0), and their
    own p.

    Hierarchical, after Bogomolov, Peterson, Benjamini and Sabatti (2021): a subtree's p is that of Simes
    (1986) over all its nodes. From the root down, the children of what was rejected are tested together by
    Benjamini-Hochberg, at the level of their parent times the share that was rejected beside it. A node
    counts as changed where its subtree is rejected and its own p does not exceed what its subtree had to
    meet.
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


def compute_parents(level: I64) -> I64:
    """The parent of each node of a pre-order tree (-1 for the root)."""
    return compute_parents_and_ends(level)[0]


def compute_parents_and_ends(level: I64) -> tuple[I64, I64]:
    """The parent of each node of a pre-order tree (-1 for the root), and the first node after its subtree."""
    parent, end = np.full(len(level), -1, np.int64), np.full(len(level), len(level), np.int64)
    path: list[int] = []
    for node, at in enumerate(level.tolist()):
        end[path[at:]] = node
        del path[at:]
        if at:
            parent[node] = path[-1]
        path.append(node)
    return parent, end


def _compute_simes_p(own: F64, end: I64) -> F64:
    """The p of each subtree: the least of p times its nodes by how many have so small a p.

    Subtrees are runs of nodes, so how many have a p of at most some step is a difference of two sums. Between
    the steps p counts as the next larger, by a quarter at most.
    """
    start = np.arange(len(own))
    size = end - start
    least = np.where(size == 1, own, 1.0)
    for step in _P_VALUE_STEPS:
        small = np.concatenate([[0], np.cumsum(own <= step)])
        if small[-1]:
            many = small[end] - small[start]
            least = np.minimum(least, np.where(many > 0, step * size / np.maximum(many, 1), 1.0))
    return least


def _rank_siblings(parent: I64, values: F64) -> tuple[NDArray[np.int64], F64, F64]:
    """An order by family and value, and in it each one's rank in its family and the family's size."""
    order: NDArray[np.int64] = np.lexsort((values, parent))
    ordered = parent[order]
    starts: NDArray[np.int64] = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, len(ordered)])
    rank = (np.arange(len(ordered)) - np.repeat(starts, sizes) + 1).astype(np.float64)
    return order, rank, np.repeat(sizes, sizes).astype(np.float64)
