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


_NOT_TESTED: Final = FunctionTest()


class AttributedTree:
    """A tree with the own time of each node assigned to a row.

    `frame_ids` are the nodes' frames without lines, as indexes of `texts` and `tests`. `changed_nodes` are
    those whose total changed, without the root. `nodes_by_frame` has the nodes below the root, in order, of
    frames whose own time or one of whose nodes changed.
    """

    def __init__(self, tree: ChangedTree, functions: Mapping[str, FunctionTest]) -> None:
        self.delta, self.is_changed = tree.delta, [flag == NODE_CHANGED for flag in tree.flags]
        self.changed_nodes = [node for node, is_changed in enumerate(self.is_changed) if is_changed and node]
        self._parents, self.ends = find_parents_and_ends(tree.level)
        self._sums = list(accumulate(tree.delta, initial=0.0))
        texts = [strip_line_number(name) for name in tree.names]
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
        self.texts = list(numbers)
        ids = [numbers[text] for text in texts]
        self.frame_ids = [ids[name] for name in tree.name]
        self.tests = [functions.get(text, _NOT_TESTED) for text in self.texts]
        self.nodes_by_frame = self._list_nodes_by_frame()
        self._rows = {0: 0}
        self._is_application: dict[int, bool] = {}

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

    def find_moved(self) -> list[int]:
        """Find nodes whose time moved within their function.

        Other changed nodes of the function lost (or gained) as much.
        """
        gained: dict[int, float] = {}
        lost: dict[int, float] = {}
        for node in ([0] if self.is_changed[0] else []) + self.changed_nodes:
            side, frame = gained if self.delta[node] > 0 else lost, self.frame_ids[node]
            side[frame] = side.get(frame, 0.0) + abs(self.delta[node])
        moved = []
        for frame in gained.keys() | lost.keys():
            for node in [*([0] if self.frame_ids[0] == frame else []), *self.nodes_by_frame[frame]]:
                own = self.delta[node]
                if own != 0 and (lost if own > 0 else gained).get(frame, 0.0) >= MIN_PART * abs(own):
                    moved.append(node)
        return moved

    def find_row(self, node: int) -> int:
        """Return the node for whose frame the own time of a node counts.

        It is the nearest frame of the application, or the node itself if there is none.
        """
        path = []
        while node not in self._rows:
            path.append(node)
            node = self._parents[node]
        for inner in reversed(path):
            row = self._rows[node]
            self._rows[inner] = row if node and self._belongs_to(inner, row) else inner
            node = inner
        return self._rows[node]

    def _belongs_to(self, node: int, above: int) -> bool:
        """Return whether the time of a node counts for the row above it."""
        frame, outer = self.frame_ids[node], self.frame_ids[above]
        if not self._is_of_application(outer):
            return False
        direction = self.tests[frame].total_direction
        is_same_new_code = direction in ONE_SIDED and direction is self.tests[outer].total_direction
        return is_same_new_code or not self._is_of_application(frame)

    def _is_of_application(self, frame: int) -> bool:
        is_own = self._is_application.get(frame)
        if is_own is None:
            is_own = self._is_application[frame] = find_code_owner(self.texts[frame]) is CodeOwner.APPLICATION
        return is_own

    def _list_nodes_by_frame(self) -> dict[int, list[int]]:
        tested = {frame for frame, test in enumerate(self.tests) if test.self_sign}
        nodes: dict[int, list[int]] = {
            frame: [] for frame in tested.union(self.frame_ids[node] for node in self.changed_nodes)
        }
        if self.is_changed and self.is_changed[0]:
            nodes.setdefault(self.frame_ids[0], [])
        if nodes:
            for node, frame in enumerate(self.frame_ids):
                if frame in nodes and node:
                    nodes[frame].append(node)
        return nodes
