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
from itertools import accumulate, chain
from typing import Final, NamedTuple

from sidelight_model.change import Direction
from sidelight_model.culprits.changed_tree import (
    MIN_PART,
    ONE_SIDED,
    AttributedTree,
    ChangedTree,
    FunctionTest,
)
from sidelight_model.frames import Frame

MAX_ROWS: Final = 10
"""Rows for each direction."""
MAX_FOLDED: Final = 3
"""Frames named below a row: the outermost ones and the last."""


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
    """Finds the rows of a tree."""

    def __init__(self, tree: ChangedTree, functions: Mapping[str, FunctionTest]) -> None:
        self._named, self._tree = tree, AttributedTree(tree, functions)

    def find_rows(self) -> list[Culprit]:
        """Find all rows, largest first."""
        parts = [part for frame in sorted(self._tree.nodes_by_frame) for part in self._find_callers(frame)]
        is_free = [True] * len(self._tree.delta)
        for node in chain(self._tree.find_moved(), *(part.nodes for part in parts)):
            is_free[node] = False
        parts += self._find_spread_changes(is_free)
        parts_by_row: dict[tuple[int, bool], list[_Part]] = {}
        sums = [0.0, 0.0]
        for part in sorted(parts, key=lambda part: (-part.weight, part.top)):
            delta = self._tree.sum_own(part.nodes)
            parts_by_row.setdefault((self._tree.frame_ids[part.row_node], delta > 0), []).append(part)
            sums[delta > 0] += abs(delta)
        rows = [self._build_row(of_row, sums[rises]) for (_, rises), of_row in parts_by_row.items()]
        return sorted(rows, key=lambda row: (-abs(row.delta), row.frame, row.delta))

    def _find_callers(self, frame: int) -> list[_Part]:
        """Find the callers for which the changed own time of a function counts."""
        tree, test = self._tree, self._tree.tests[frame]
        if not (sign := test.self_sign):
            return []
        every, parts = tree.nodes_by_frame[frame], []
        own = {node: tree.delta[node] * sign for node in every}
        by_caller: dict[int, list[int]] = {}
        for node in every:
            by_caller.setdefault(tree.frame_ids[tree.find_row(node)], []).append(node)
        for caller, nodes in by_caller.items():
            top = max(nodes, key=own.__getitem__)
            row_node = tree.find_row(top)
            is_changed = (
                caller == frame
                or len(by_caller) == 1
                or tree.tests[caller].total_sign == sign
                or tree.has_changed_path(row_node, top, sign)
            )
            if is_changed and tree.sum_own(nodes) * sign > 0:
                parts.append(_Part(row_node, top, nodes, own[top], test.self_q))
        change = tree.sum_own(every) * sign
        found = sum(tree.sum_own(part.nodes) * sign for part in parts)
        if change > 0 and not MIN_PART * change <= found <= change / MIN_PART:
            top = max(every, key=own.__getitem__)
            return [_Part(top, top, every, own[top], test.self_q)]
        return parts if change > 0 else []

    def _find_spread_changes(self, is_free: list[bool]) -> list[_Part]:
        """Find changed nodes that changed in many small parts, the deepest first.

        Only nodes that are free count; those of a part are not free any more.
        """
        tree, parts = self._tree, []
        free = [own if own_free else 0.0 for own, own_free in zip(tree.delta, is_free, strict=True)]
        sums = list(accumulate(free, initial=0.0))
        # What parts below a changed node have taken, at the nearest changed node above them.
        taken: dict[int, float] = {}
        changed = tree.changed_nodes
        for node, above in reversed(list(zip(changed, tree.list_outer(changed), strict=True))):
            total, end = tree.sum_below(node), tree.ends[node]
            all_free, below = sums[end] - sums[node], taken.pop(node, 0.0)
            rest = all_free - below
            test = tree.tests[tree.frame_ids[tree.find_row(node)]]
            if rest * total >= MIN_PART * total**2 and test.total_sign * total > 0:
                inside = [at for at in range(node, end) if is_free[at]]
                parts.append(_Part(tree.find_row(node), node, inside, abs(rest), test.total_q))
                is_free[node:end] = [False] * (end - node)
                below = all_free
            taken[above] = taken.get(above, 0.0) + below
        return parts

    def _build_row(self, parts: Sequence[_Part], all_changes: float) -> Culprit:
        """Build a row from its parts, the heaviest first."""
        tree, row_node = self._tree, parts[0].row_node
        nodes = sorted(node for part in parts for node in part.nodes)
        frame, delta, path = tree.frame_ids[row_node], tree.sum_own(nodes), tree.list_path(row_node)
        test = tree.tests[frame]
        direction = test.total_direction
        if direction not in ONE_SIDED or test.total_sign * delta <= 0:
            direction = Direction.INCREASED if delta > 0 else Direction.DECREASED
        below = [tree.texts[tree.frame_ids[node]] for node in tree.list_path(parts[0].top)[len(path) :]]
        folded = list(dict.fromkeys(Frame.parse(text).function for text in below))
        return Culprit(
            tree.texts[frame],
            nodes,
            [self._named.names[self._named.name[node]] for node in path],
            folded if len(folded) <= MAX_FOLDED else [*folded[: MAX_FOLDED - 1], folded[-1]],
            delta,
            abs(delta) / all_changes,
            direction,
            parts[0].q,
            all(tree.frame_ids[node] == frame for node in nodes),
        )
