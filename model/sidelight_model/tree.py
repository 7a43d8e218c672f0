"""The call tree of one profile, or of two side by side, in columns.

A tree is a table of nodes in pre-order: a node's `level`, its frame (an index into `names`), and for each
side the samples and nanoseconds that ended exactly there (self). A node's subtree is the run of deeper
nodes that follows it. Totals, pruning and drawing are therefore single passes without recursion, because
stacks thousands of frames deep are ordinary input. The layout comes from memray (a flat table with a string
table); the browser draws from it without building objects.

Node 0 is the root `total`, level 0. Children are sorted by the text of their frames, so the same call path
has the same place on both sides and in every response.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from sidelight_model.frames import OTHER

StackRow: TypeAlias = tuple[Sequence[str], int, int]
"""(frames with the root first, samples, nanoseconds)."""

ROOT_NAME = "total"


@dataclass(frozen=True, slots=True)
class Tree:
    """Nodes in pre-order; `self_samples[side][node]` and `self_ns[side][node]`."""

    names: Sequence[str]
    level: Sequence[int]
    name_index: Sequence[int]
    self_samples: Sequence[Sequence[int]]
    self_ns: Sequence[Sequence[int]]

    @property
    def side_count(self) -> int:
        return len(self.self_samples)

    def __len__(self) -> int:
        return len(self.level)


def build_tree_from_rows(sides: Sequence[Iterable[StackRow]]) -> Tree:
    """Build the tree of one or more sides.

    A call path that a side lacks is zero on that side.
    """
    codes: dict[str, int] = {ROOT_NAME: 0}
    children: dict[tuple[int, int], int] = {}
    parent, frame = [0], [0]
    weights: list[tuple[list[int], list[int]]] = [([0], [0]) for _ in sides]
    for (samples, ns), rows in zip(weights, sides, strict=True):
        for frames, count, time in rows:
            node = 0
            for text in frames:
                code = codes.setdefault(text, len(codes))
                child = children.setdefault((node, code), len(parent))
                if child == len(parent):
                    parent.append(node)
                    frame.append(code)
                node = child
            missing = len(parent) - len(samples)
            samples.extend([0] * missing)
            ns.extend([0] * missing)
            samples[node] += count
            ns[node] += time
    for samples, ns in weights:
        missing = len(parent) - len(samples)
        samples.extend([0] * missing)
        ns.extend([0] * missing)
    names = list(codes)
    order, level = sort_preorder(parent, [names[code] for code in frame])
    return Tree(
        names,
        level,
        [frame[node] for node in order],
        [[samples[node] for node in order] for samples, _ in weights],
        [[ns[node] for node in order] for _, ns in weights],
    )


def sort_preorder(parent: Sequence[int], text: Sequence[str]) -> tuple[list[int], list[int]]:
    """Return the nodes in pre-order, children sorted by `text`, and their levels."""
    below: list[list[int]] = [[] for _ in parent]
    for node in sorted(range(1, len(parent)), key=text.__getitem__, reverse=True):
        below[parent[node]].append(node)
    order: list[int] = []
    level: list[int] = []
    waiting = [(0, 0)]
    while waiting:
        node, depth = waiting.pop()
        order.append(node)
        level.append(depth)
        waiting.extend((child, depth + 1) for child in below[node])
    return order, level


def compute_totals(tree: Tree, side: int, unit: Literal["samples", "ns"] = "samples") -> list[int]:
    """Compute each node's total: its self and everything below it."""
    total = list((tree.self_samples if unit == "samples" else tree.self_ns)[side])
    for node, above in reversed(list(enumerate(find_parents(tree)))):
        if node:
            total[above] += total[node]
    return total


def find_parents(tree: Tree) -> list[int]:
    """Return the parent of each node; the root is its own parent."""
    above = [0] * len(tree)
    path = [0]
    for node, level in enumerate(tree.level):
        if node:
            del path[level:]
            above[node] = path[-1]
            path.append(node)
    return above


def find_parents_and_ends(level: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the parents and the subtree ends of a pre-order tree.

    The parent of the root is -1. The end is the first node after the subtree.
    """
    parents, ends = [], list(range(1, len(level) + 1))
    # The latest node one level above each level.
    above = [-1] * (max(level, default=0) + 2)
    for node, depth in enumerate(level):
        parents.append(above[depth])
        above[depth + 1] = node
    for node in range(len(level) - 1, 0, -1):
        parent = parents[node]
        if ends[parent] < ends[node]:
            ends[parent] = ends[node]
    return parents, ends


def prune_tree(tree: Tree, max_nodes: int) -> tuple[Tree, int]:
    """Fold all but the `max_nodes` heaviest nodes.

    The dropped descendants of a node become its one child `(other)`, so the totals of the root and of every
    remaining node stay the same. The weight of a node is its largest share of any side's time (of its
    samples on a side without times). Returns the pruned tree, which has at most `max_nodes` nodes besides
    the `(other)` nodes, and the number of folded nodes. Raises ValueError if `max_nodes` is below 1.
    """
    pruned, dropped, _ = prune_with_mapping(tree, max_nodes)
    return pruned, dropped


def prune_with_mapping(tree: Tree, max_nodes: int) -> tuple[Tree, int, Sequence[int]]:
    """Prune as `prune_tree` does, and also return the new index of each old node.

    A folded node has the index of its `(other)` node. Raises ValueError if `max_nodes` is below 1.
    """
    if max_nodes < 1:
        raise ValueError("a tree keeps at least its root")
    if len(tree) <= max_nodes:
        return tree, 0, range(len(tree))
    keep = _select_heaviest(tree, max_nodes)
    names = list(tree.names)
    other = names.index(OTHER) if OTHER in names else len(names)
    if other == len(names):
        names.append(OTHER)
    level: list[int] = []
    name: list[int] = []
    samples: list[list[int]] = [[] for _ in range(tree.side_count)]
    ns: list[list[int]] = [[] for _ in range(tree.side_count)]
    folded: dict[int, int] = {}
    new_index: list[int] = []
    path: list[int] = []  # remaining ancestors of the current node, as old indices
    at: list[int] = []  # the same as new indices

    def append_node(depth: int, code: int) -> int:
        level.append(depth)
        name.append(code)
        for side in range(tree.side_count):
            samples[side].append(0)
            ns[side].append(0)
        return len(level) - 1

    for node in range(len(tree)):
        while path and tree.level[path[-1]] >= tree.level[node]:
            path.pop()
            at.pop()
        if keep[node]:
            # No node remains below a dropped node, because a child never outweighs its parent.
            target = append_node(tree.level[node], tree.name_index[node])
            path.append(node)
            at.append(target)
        else:
            target = folded.get(at[-1], -1)
            if target < 0:
                target = folded[at[-1]] = append_node(level[at[-1]] + 1, other)
        new_index.append(target)
        for side in range(tree.side_count):
            samples[side][target] += tree.self_samples[side][node]
            ns[side][target] += tree.self_ns[side][node]
    pruned = Tree(names, level, name, samples, ns)
    return pruned, len(tree) - sum(keep), new_index


def find_end_nodes(tree: Tree, stacks: Iterable[Sequence[str]]) -> list[int]:
    """Find the node at which each stack ends.

    The tree must be unpruned and built from these stacks; a stack that it lacks raises KeyError.
    """
    code = {text: at for at, text in enumerate(tree.names)}
    children = {(above, tree.name_index[node]): node for node, above in enumerate(find_parents(tree)) if node}
    end_nodes = []
    for frames in stacks:
        node = 0
        for text in frames:
            node = children[node, code[text]]
        end_nodes.append(node)
    return end_nodes


def _select_heaviest(tree: Tree, max_nodes: int) -> list[bool]:
    sides = [
        (compute_totals(tree, side, "ns"), compute_totals(tree, side)) for side in range(tree.side_count)
    ]
    weight = [0.0] * len(tree)
    for ns, samples in sides:
        column = ns if ns[0] else samples
        if whole := column[0]:
            weight = [max(old, value / whole) for old, value in zip(weight, column, strict=True)]
    # Pre-order breaks ties, so a parent always comes before an equally heavy child.
    heaviest = heapq.nsmallest(max_nodes, range(len(tree)), key=lambda node: (-weight[node], node))
    keep = [False] * len(tree)
    for node in heaviest:
        keep[node] = True
    return keep
