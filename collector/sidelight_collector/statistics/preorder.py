"""Trees in pre-order, as arrays of their nodes' levels.

Node 0 is the root, level 0. A node's subtree is the run of deeper nodes that follows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from sidelight_model.tree import sort_preorder

I64 = NDArray[np.int64]


def compute_parents(level: I64) -> I64:
    """Return the parent of each node of a pre-order tree (-1 for the root)."""
    return compute_parents_and_ends(level)[0]


def compute_parents_and_ends(level: I64) -> tuple[I64, I64]:
    """Return the parents and the subtree ends of a pre-order tree.

    The parent of the root is -1. The end is the first node after the subtree. Both arrays are read-only.
    """
    return _compute_parents_and_ends(level.astype(np.int64, copy=False).tobytes())


@lru_cache(maxsize=4)
def _compute_parents_and_ends(level: bytes) -> tuple[I64, I64]:
    """Compute parents and ends once for all steps of a comparison."""
    depths = np.frombuffer(level, np.int64)
    count = len(depths)
    # numpy sorts small integers by their digits, in linear time.
    small = np.min_scalar_type(int(depths.max(initial=0)))
    order = np.argsort(depths.astype(small), kind="stable")
    # In the order of levels, the last node before a node and one level above it is its parent.
    keys = depths[order] * count + order
    above = order[np.maximum(np.searchsorted(keys, keys - count) - 1, 0)]
    parents, ends = np.empty((2, count), np.int64)
    parents[order] = np.where(depths[order] > 0, above, -1)
    # Each node ends the open subtrees from its own level down. At each level subtrees end in their order.
    next_levels = np.append(depths[1:], 0)[:count]
    ended = depths - next_levels + 1
    ended_levels = np.repeat(next_levels - np.cumsum(ended) + ended, ended) + np.arange(count)
    ends[order] = np.repeat(np.arange(1, count + 1), ended)[
        np.argsort(ended_levels.astype(small), kind="stable")
    ]
    for array in (parents, ends):
        array.setflags(write=False)
    return parents, ends


def merge_siblings(names: Sequence[str], level: I64, name: I64) -> tuple[I64, I64, I64]:
    """Merge siblings with equal names in a pre-order tree, including their subtrees.

    Returns the levels and the names of the new tree, and for each old node its index in the new tree.
    Quantities by node are added up by that index. Siblings are ordered by the texts of their names.
    """
    above = compute_parents(level)
    merged = np.zeros(len(level), np.int64)
    parent, code = [np.array([-1])], [name[:1]]
    count = 1
    for depth in range(1, int(level.max(initial=0)) + 1):
        nodes = np.flatnonzero(level == depth)
        keys, back = np.unique(
            np.column_stack([merged[above[nodes]], name[nodes]]), axis=0, return_inverse=True
        )
        merged[nodes] = count + back.ravel()
        parent.append(keys[:, 0])
        code.append(keys[:, 1])
        count += len(keys)
    return _build_preorder(names, np.concatenate(parent), np.concatenate(code), merged)


def _build_preorder(names: Sequence[str], parent: I64, code: I64, merged: I64) -> tuple[I64, I64, I64]:
    order, level = sort_preorder(parent.tolist(), [names[name_id] for name_id in code.tolist()])
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    return np.array(level, np.int64), code[order], place[merged]
