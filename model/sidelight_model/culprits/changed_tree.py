"""A call tree with changes, each of which counts for a frame of the application."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import fsum
from typing import Final, NamedTuple

from sidelight_model.change import Direction
from sidelight_model.frames import strip_line_number
from sidelight_model.packages import CodeOwner, find_code_owner
from sidelight_model.tree import find_parents_and_ends

MIN_PART: Final = 0.5
"""Part of a change that must not be accounted for elsewhere."""
NODE_CHANGED: Final = 1
ONE_SIDED: Final = (Direction.NEW, Direction.REMOVED)
_SIGNS: Final = {Direction.INCREASED: 1, Direction.NEW: 1, Direction.DECREASED: -1, Direction.REMOVED: -1}


class FunctionTest(NamedTuple):
    """The directions of a function's self and total time, with their q-values."""

    self_direction: Direction = Direction.NO_DATA
    total_direction: Direction = Direction.NO_DATA
    self_q: float = 1.0
    total_q: float = 1.0

    @property
    def self_sign(self) -> int:
        """1 if the self time increased, -1 if it decreased, 0 if it is not changed."""
        return _SIGNS.get(self.self_direction, 0)

    @property
    def total_sign(self) -> int:
        """As `self_sign`, of the total time."""
        return _SIGNS.get(self.total_direction, 0)


@dataclass(frozen=True, slots=True)
class ChangedTree:
    """The call tree of both sides in pre-order; node 0 is the whole.

    `name` is the index of each node's frame in `names`, `delta` the change of its own time. `flags` is
    `NODE_CHANGED` where the change of its total is outside noise.
    """

    names: Sequence[str]
    level: Sequence[int]
    name: Sequence[int]
    delta: Sequence[float]
    flags: Sequence[int]


class AttributedTree:
    """A tree with the own time of each node assigned to a row.

    `frame_ids` are the nodes' frames without lines, as indexes of `texts` and `tests`. `row_nodes` is the
    node for whose frame the own time of each node counts.
    """

    def __init__(self, tree: ChangedTree, functions: Mapping[str, FunctionTest]) -> None:
        self.delta, self.is_changed = tree.delta, [flag == NODE_CHANGED for flag in tree.flags]
        self._parents, self.ends = find_parents_and_ends(tree.level)
        self._sums = list(accumulate(tree.delta, initial=0.0))
        texts = [strip_line_number(name) for name in tree.names]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        self.texts = list(numbers)
        ids = [numbers[text] for text in texts]
        self.frame_ids = [ids[name] for name in tree.name]
        self.tests = [functions.get(text, FunctionTest()) for text in self.texts]
        self.nodes_by_frame: list[list[int]] = [[] for _ in self.texts]
        """The nodes of each frame below the root, in order."""
        for node, frame in enumerate(self.frame_ids[1:], 1):
            self.nodes_by_frame[frame].append(node)
        self.row_nodes = self._assign_rows()

    def list_path(self, node: int) -> list[int]:
        """List a node and its ancestors below the root, outermost first."""
        path = []
        while node > 0:
            path.append(node)
            node = self._parents[node]
        return path[::-1]

    def list_outer(self, nodes: Sequence[int]) -> list[int]:
        """List the nearest of these nodes above each of them, or -1.

        The nodes are in order.
        """
        outer, path = [], [-1]
        for node in nodes:
            while path[-1] >= 0 and self.ends[path[-1]] <= node:
                path.pop()
            outer.append(path[-1])
            path.append(node)
        return outer

    def sum_own(self, nodes: Iterable[int]) -> float:
        return fsum(self.delta[node] for node in nodes)

    def sum_below(self, node: int) -> float:
        """Return the change of a node's total."""
        return self._sums[self.ends[node]] - self._sums[node]

    def has_changed_path(self, outer: int, inner: int, sign: int) -> bool:
        """Return whether a node from `inner` up to `outer` changed in a direction."""
        return any(
            self.is_changed[node] and self.sum_below(node) * sign > 0
            for node in self.list_path(inner)
            if node >= outer
        )

    def find_moved(self) -> list[bool]:
        """Find nodes whose time moved within their function.

        Other changed nodes of the function lost (or gained) as much.
        """
        gained, lost = [0.0] * len(self.texts), [0.0] * len(self.texts)
        for frame, own, is_changed in zip(self.frame_ids, self.delta, self.is_changed, strict=True):
            if is_changed:
                (gained if own > 0 else lost)[frame] += abs(own)
        return [
            own != 0 and (lost if own > 0 else gained)[frame] >= MIN_PART * abs(own)
            for frame, own in zip(self.frame_ids, self.delta, strict=True)
        ]

    def _assign_rows(self) -> list[int]:
        """Return the row of each node.

        It is the nearest frame of the application, or the node itself if there is none.
        """
        owners = [find_code_owner(text) is CodeOwner.APPLICATION for text in self.texts]
        new_code = [
            test.total_direction if test.total_direction in ONE_SIDED else None for test in self.tests
        ]
        frames = self.frame_ids
        rows = list(range(len(frames)))
        for node, parent in enumerate(self._parents):
            above = rows[parent]
            frame, outer = frames[node], frames[above]
            if parent <= 0 or not owners[outer]:
                continue
            if not owners[frame] or (new_code[frame] is not None and new_code[frame] is new_code[outer]):
                rows[node] = above
        return rows
