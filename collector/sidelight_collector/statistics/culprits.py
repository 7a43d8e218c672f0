"""Find where a change starts, in the application's own code.

A change shows in every frame above it, so `main` explains nothing. It starts where a function's *own* time
changed, and counts for the application's nearest frame at or above, which the reader can edit.

- Changed own time counts for a function's only caller, and for each caller whose total changed in the same
  direction, or that has a changed node on the path. It counts for the function itself if these callers
  account for less than half of it, or for more than twice as much, because time moved between callers.
- A changed node may have changed in many small parts. The deepest whose frame's total changed too counts, if
  these parts are at least half of its change. Time that other nodes of its function lost moved here and is
  no part.
- Code that only one side has counts for its outermost frame of the application.

The own time of a node counts once at most, also in recursion, so rows add up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.fdr import compute_parents_and_ends
from sidelight_model.change import Direction
from sidelight_model.frames import Frame, strip_line_number
from sidelight_model.packages import CodeOwner, find_code_owner

F64: TypeAlias = NDArray[np.float64]
I64: TypeAlias = NDArray[np.int64]

MAX_ROWS: Final = 10
"""Rows for each direction."""
MAX_FOLDED: Final = 3
"""Frames named below a row: the outermost ones and the last."""
MIN_PART: Final = 0.5
"""Part of a change that must not be accounted for elsewhere."""
NODE_CHANGED: Final = 1
_SIGNS: Final = {Direction.INCREASED: 1, Direction.NEW: 1, Direction.DECREASED: -1, Direction.REMOVED: -1}
_ONE_SIDED: Final = (Direction.NEW, Direction.REMOVED)


class FunctionTest(NamedTuple):
    """The directions of a function's self and total time, with their q-values."""

    self_direction: Direction = Direction.NO_DATA
    total_direction: Direction = Direction.NO_DATA
    self_q: float = 1.0
    total_q: float = 1.0


@dataclass(frozen=True, slots=True)
class ChangedTree:
    """The call tree of both sides in pre-order; node 0 is the whole.

    `name` is the index of each node's frame in `names`, `delta` the change of its own time. `flags` is
    `NODE_CHANGED` where the change of its total is outside noise.
    """

    names: Sequence[str]
    level: I64
    name: I64
    delta: F64
    flags: I64


@dataclass(frozen=True, slots=True)
class Culprit:
    """A function where a change starts.

    It is the application's, or a library's if no caller stands out. `frame` has no line. The own times of
    `nodes` add up to `delta`. `path` is the heaviest path to the function, from below the root. `folded` are
    the functions from there to the one that changed.
    """

    frame: str
    nodes: Sequence[int]
    path: Sequence[str]
    folded: Sequence[str]
    delta: float
    share: float
    direction: Direction
    q: float
    is_self: bool


@dataclass(frozen=True, slots=True)
class Culprits:
    """Where a change starts, largest first; `share` of the change is accounted for."""

    share: float | None
    rows: Sequence[Culprit]


class _Part(NamedTuple):
    """Own time of `nodes` that counts for the frame of `row_node`.

    Most of it is at or below `top`.
    """

    row_node: int
    top: int
    nodes: Sequence[int]
    weight: float
    q: float


def find_culprits(
    tree: ChangedTree,
    functions: Mapping[str, FunctionTest],
    *,
    whole: float | None = None,
    min_delta: float = 0.0,
    max_rows: int = MAX_ROWS,
) -> Culprits:
    """Find the functions where a change starts.

    `functions` has the tests by frame without line. `whole` is the change of the total; if it is None, the
    share is of all changes. Smaller changes than `min_delta` are no rows. Equal changes are in the order of
    their frames' texts, and a caller's parts in that of their nodes.
    """
    rows = _Search(tree, functions).find_rows()
    large = [row for row in rows if abs(row.delta) >= min_delta]
    listed = [row for sign in (1, -1) for row in [of for of in large if of.delta * sign > 0][:max_rows]]
    if not listed:
        return Culprits(None, ())
    found, all_changes = (sum(abs(row.delta) for row in of) for of in (listed, rows))
    share = sum(row.delta for row in listed) / whole if whole else found / all_changes
    return Culprits(min(max(share, 0.0), 1.0), sorted(listed, key=rows.index))


class _Search:
    """A tree, and for each node the node for which its own time counts."""

    def __init__(self, tree: ChangedTree, functions: Mapping[str, FunctionTest]) -> None:
        self._tree, self._functions, self._delta = tree, functions, tree.delta
        parents, self._ends = compute_parents_and_ends(tree.level)
        self._parents: list[int] = parents.tolist()
        self._total_sums = np.concatenate([[0.0], np.cumsum(tree.delta)])
        texts = [strip_line_number(name) for name in tree.names]
        owners = [find_code_owner(text) for text in texts]
        self._frames = [texts[code] for code in tree.name.tolist()]
        self._row_nodes = list(range(len(parents)))
        for node, parent in enumerate(self._parents):
            above = self._row_nodes[parent]
            is_caller = parent > 0 and owners[tree.name[above]] is CodeOwner.APPLICATION
            is_own = owners[tree.name[node]] is CodeOwner.APPLICATION
            if is_caller and not (is_own and not self._is_part_of_new_code(node, above)):
                self._row_nodes[node] = above
        self._nodes: dict[str, dict[str, list[int]]] = {}
        for node, row_node in list(enumerate(self._row_nodes))[1:]:
            by_caller = self._nodes.setdefault(self._frames[node], {})
            by_caller.setdefault(self._frames[row_node], []).append(node)
        # For each frame the sums of its changed nodes: those that gained, and those that lost.
        self._changed_sums = {frame: [0.0, 0.0] for frame in self._frames}
        for node in np.flatnonzero(tree.flags == NODE_CHANGED).tolist():
            self._changed_sums[self._frames[node]][int(tree.delta[node] < 0)] += tree.delta[node]

    def find_rows(self) -> list[Culprit]:
        """Find all rows, largest first."""
        parts = [part for frame in self._nodes for part in self._find_callers(frame)]
        parts += self._find_spread_changes({node for part in parts for node in part.nodes})
        parts_by_row: dict[tuple[str, bool], list[_Part]] = {}
        sums = [0.0, 0.0]
        for part in sorted(parts, key=lambda part: (-part.weight, part.top)):
            delta = self._sum(part.nodes)
            parts_by_row.setdefault((self._frames[part.row_node], delta > 0), []).append(part)
            sums[delta > 0] += abs(delta)
        rows = [self._build_row(of_row, sums[rises]) for (_, rises), of_row in parts_by_row.items()]
        return sorted(rows, key=lambda row: (-abs(row.delta), row.frame, row.delta))

    def _find_callers(self, frame: str) -> list[_Part]:
        """Find the callers for which the changed own time of a function counts."""
        test = self._get_test(frame)
        if not (sign := _SIGNS.get(test.self_direction, 0)):
            return []
        parts, own = [], self._delta * sign
        for caller, nodes in self._nodes[frame].items():
            top = max(nodes, key=own.__getitem__)
            row_node = self._row_nodes[top]
            path = [node for node in self._list_path(top) if node >= row_node]
            is_changed = (
                caller == frame
                or len(self._nodes[frame]) == 1
                or _SIGNS.get(self._get_test(caller).total_direction) == sign
                or any(
                    self._tree.flags[node] == NODE_CHANGED and self._sum_below(node) * sign > 0
                    for node in path
                )
            )
            if is_changed and own[nodes].sum() > 0:
                parts.append(_Part(row_node, top, nodes, own[top], test.self_q))
        every = sorted(node for nodes in self._nodes[frame].values() for node in nodes)
        change, found = own[every].sum(), sum(own[part.nodes].sum() for part in parts)
        if change > 0 and not MIN_PART * change <= found <= change / MIN_PART:
            top = max(every, key=own.__getitem__)
            return [_Part(top, top, every, own[top], test.self_q)]
        return parts if change > 0 else []

    def _find_spread_changes(self, used_nodes: set[int]) -> list[_Part]:
        """Find changed nodes that changed in many small parts, the deepest first."""
        parts, flags = [], self._tree.flags.tolist()
        is_free = [at not in used_nodes and not self._is_moved(at) for at in range(len(flags))]
        rest: list[float] = np.where(is_free, self._delta, 0.0).tolist()
        for node in range(len(flags) - 1, 0, -1):
            row_node, total = self._row_nodes[node], self._sum_below(node)
            is_spread = flags[node] == NODE_CHANGED and rest[node] * total >= MIN_PART * total**2
            test = self._get_test(self._frames[row_node])
            if is_spread and _SIGNS.get(test.total_direction) == np.sign(total):
                inside = [at for at in range(node, self._ends[node]) if is_free[at]]
                parts.append(_Part(row_node, node, inside, abs(rest[node]), test.total_q))
                for at in inside:
                    is_free[at] = False
                rest[node] = 0.0
            rest[self._parents[node]] += rest[node]
        return parts

    def _build_row(self, parts: Sequence[_Part], all_changes: float) -> Culprit:
        """Build a row from its parts, the heaviest first."""
        row_node, nodes = parts[0].row_node, sorted(node for part in parts for node in part.nodes)
        delta, frame, path = self._sum(nodes), self._frames[row_node], self._list_path(row_node)
        direction = self._get_test(frame).total_direction
        if direction not in _ONE_SIDED or _SIGNS[direction] != np.sign(delta):
            direction = Direction.INCREASED if delta > 0 else Direction.DECREASED
        below = [
            Frame.parse(self._frames[node]).function for node in self._list_path(parts[0].top)[len(path) :]
        ]
        folded = list(dict.fromkeys(below))
        return Culprit(
            frame,
            nodes,
            [self._tree.names[self._tree.name[node]] for node in path],
            folded if len(folded) <= MAX_FOLDED else [*folded[: MAX_FOLDED - 1], folded[-1]],
            delta,
            abs(delta) / all_changes,
            direction,
            parts[0].q,
            all(self._frames[node] == frame for node in nodes),
        )

    def _is_part_of_new_code(self, node: int, above: int) -> bool:
        own, outer = (self._get_test(self._frames[at]).total_direction for at in (node, above))
        return own is outer and own in _ONE_SIDED

    def _is_moved(self, node: int) -> bool:
        """Whether changed nodes of the function lost (or gained) as much elsewhere."""
        own = self._delta[node]
        opposite = self._changed_sums[self._frames[node]][int(own > 0)]
        return bool(abs(opposite) >= MIN_PART * abs(own) > 0)

    def _list_path(self, node: int) -> list[int]:
        """List a node and its ancestors below the root, outermost first."""
        path = []
        while node > 0:
            path.append(node)
            node = self._parents[node]
        return path[::-1]

    def _get_test(self, frame: str) -> FunctionTest:
        return self._functions.get(frame, FunctionTest())

    def _sum(self, nodes: Sequence[int]) -> float:
        return float(self._delta[nodes].sum())

    def _sum_below(self, node: int) -> float:
        return float(self._total_sums[self._ends[node]] - self._total_sums[node])
