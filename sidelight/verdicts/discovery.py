"""Which of many things changed, when looking at many finds some change by luck."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

F64 = NDArray[np.float64]
I32 = NDArray[np.int32]
Flags = NDArray[np.bool_]


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

    Hierarchical, after Bogomolov, Peterson, Benjamini and Sabatti (2021): from the leaves up, a subtree's p
    is that of Simes (1986) over its node's own and its children's. From the root down, the children of what
    was rejected are tested together by Benjamini-Hochberg, at the level of their parent times the share that
    was rejected beside it. A node counts as changed where its subtree is rejected and its own p does not
    exceed what its subtree had to meet.
    """
    count = len(level)
    if not count:
        return np.zeros(0, bool)
    own = np.nan_to_num(np.asarray(p, float), nan=1.0)
    depth = np.asarray(level, np.int64)
    parent = parents(depth)
    by_depth = np.argsort(depth, kind="stable")
    ends = np.searchsorted(depth[by_depth], np.arange(depth.max() + 2))
    subtree = own.copy()
    for at in range(int(depth.max()), 0, -1):
        nodes = by_depth[ends[at] : ends[at + 1]]
        above = by_depth[ends[at - 1] : ends[at]]
        family = np.concatenate([parent[nodes], above])
        values = np.concatenate([subtree[nodes], own[above]])
        order, rank, size = _ranked(family, values)
        np.minimum.at(subtree, family[order], values[order] * size / rank)
    allowed = np.zeros(count)
    threshold = np.zeros(count)
    allowed[0] = threshold[0] = q
    most = np.zeros(count)
    rejected = np.zeros(count, bool)
    rejected[0] = subtree[0] <= q
    for at in range(1, int(depth.max()) + 1):
        nodes = by_depth[ends[at] : ends[at + 1]]
        nodes = nodes[rejected[parent[nodes]]]
        if not len(nodes):
            break
        order, rank, size = _ranked(parent[nodes], subtree[nodes])
        sorted_nodes = nodes[order]
        above = parent[sorted_nodes]
        passes = subtree[sorted_nodes] <= allowed[above] * rank / size
        np.maximum.at(most, above, np.where(passes, rank, 0))
        rejected[sorted_nodes] = rank <= most[above]
        threshold[sorted_nodes] = allowed[sorted_nodes] = allowed[above] * most[above] / size
    changed: Flags = rejected & (own <= threshold)
    return changed


def parents(level: NDArray[np.int64]) -> NDArray[np.int64]:
    """The parent of each node of a pre-order tree (the last before it, one level up); the root's is -1."""
    parent = np.full(len(level), -1, np.int64)
    last: list[int] = []
    for node, at in enumerate(level.tolist()):
        del last[at:]
        if at:
            parent[node] = last[-1]
        last.append(node)
    return parent


def _ranked(family: NDArray[np.int64], values: F64) -> tuple[NDArray[np.int64], F64, F64]:
    """An order by family and value, and in it each one's rank in its family and the family's size."""
    order: NDArray[np.int64] = np.lexsort((values, family))
    ordered = family[order]
    starts: NDArray[np.int64] = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    sizes = np.diff(np.r_[starts, len(ordered)])
    rank = (np.arange(len(ordered)) - np.repeat(starts, sizes) + 1).astype(np.float64)
    return order, rank, np.repeat(sizes, sizes).astype(np.float64)
