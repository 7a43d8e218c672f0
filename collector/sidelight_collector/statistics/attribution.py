"""Find the few call paths that a change comes from.

The root accounts for the whole change and explains nothing. A leaf explains much, but there may be a
hundred of them. `explain_change` finds the smallest set of call paths that accounts for `TARGET_SHARE` of
the change. Each path stands for its whole subtree, and no path is inside another. Only some paths qualify:

- A path qualifies only if its change is outside noise (the caller's mask), has the direction of the whole
  change, and is at least `MIN_SHARE` of it.
- A *vague* path is never selected. A path is vague if a few paths inside it, none of them vague, carry
  `VAGUE_SHARE` of its change, or reach the target for the whole by themselves: a trunk that carries the
  whole change says nothing that its branches do not. Their number is limited by the weight of the path. A
  path that carries the whole change gives way to `limit` others, a path that carries a tenth only to a
  tenth of that. A path therefore gives way only to paths that carry about 1/`limit` of the change each. The
  part lost on the way down is lost only once, because the paths that replace it are selected themselves.
- The root is the whole and is never selected.

Sets without nesting are antichains of the tree. The best set of at most k nodes in a subtree is its root
alone, or the best sets of its children together: a knapsack on the tree. It is solved exactly from the
leaves up, with tables of `limit` numbers. Of the smallest sets, the set that accounts for most is selected;
of equal sets, the deeper one.

Changes in the opposite direction hid as much of the growth (or of the saving). The set has to account for
the change and for its hidden part, so shares may add up to more than 100 %. Paths that changed in the
opposite direction are reported with negative shares. The explanation accounts for the sum of all reported
shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from sidelight_collector.statistics.inference.fdr import compute_parents_and_ends

F64: TypeAlias = npt.NDArray[np.float64]
IntSequence: TypeAlias = Sequence[int] | npt.NDArray[np.integer]

TARGET_SHARE: Final = 0.8
_TOLERANCE: Final = 1e-9
"""Relative tolerance of limits: rounding and the unit of time must not decide."""
VAGUE_SHARE: Final = 0.9
MIN_SHARE: Final = 0.01
MAX_PATHS: Final = 10


@dataclass(frozen=True, slots=True)
class ChangePath:
    """A selected call path and its part of the change.

    `node` is its node in the tree. `names` are its frames, starting below the root.
    """

    node: int
    names: tuple[str, ...]
    delta: float
    share: float


@dataclass(frozen=True, slots=True)
class SelfTimeChange:
    """A function whose self time changed.

    `index` is its position in the arrays that `explain_self_time` received.
    """

    index: int
    delta: float
    share: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Call paths that account for a change.

    `share` is None if the whole did not change. The shares of paths are parts of the change. If the whole
    did not change, they are parts of the sum of all changes in both directions.
    """

    share: float | None
    paths: tuple[ChangePath, ...]


def explain_change(
    names: Sequence[str],
    level: IntSequence,
    name: IntSequence,
    delta: F64 | Sequence[float],
    is_significant: Sequence[bool] | npt.NDArray[np.bool_],
    *,
    is_changed: bool = True,
    share: float = TARGET_SHARE,
    limit: int = MAX_PATHS,
) -> Explanation:
    """Find the smallest set of call paths that accounts for `share` of a change.

    The tree is in pre-order: `level` is the depth of each node, `name` its index in `names`, and `delta`
    the change of its total. Node 0 is the whole. `is_significant` marks the nodes that are outside noise.
    `is_changed` tells whether the whole is outside noise; if not, there is no direction, and paths that
    changed in either direction are reported. At most `limit` paths are reported for each direction, even if
    they account for less.
    """
    change = np.asarray(delta, np.float64)
    mask = np.asarray(is_significant, np.bool_).copy()
    if not len(change):
        return Explanation(None, ())
    mask[0] = False
    depth = np.asarray(level, np.int64)
    ends = compute_parents_and_ends(depth)[1].tolist()
    sign = -1.0 if is_changed and change[0] < 0 else 1.0
    ups, downs = _Forest.build(ends, change * sign, mask), _Forest.build(ends, change * -sign, mask)
    hidden_change = downs.compute_max_gain()
    whole = abs(float(change[0])) if is_changed else ups.compute_max_gain() + hidden_change
    if not whole:
        return Explanation(None, ())
    target = whole + hidden_change if is_changed else ups.compute_max_gain()
    selected = ups.drop_below(MIN_SHARE * whole).select_smallest(share * target, target, limit)
    rest = mask & ~_mark_related(depth, selected)
    opposite_forest = _Forest.build(ends, change * -sign, rest).drop_below(MIN_SHARE * whole)
    opposite_change = opposite_forest.compute_max_gain()
    # A change smaller than what the explanation may leave out is not worth a line.
    has_opposite_paths = opposite_change > (1 - share) * whole * (1 + _TOLERANCE)
    others = (
        opposite_forest.select_smallest(share * opposite_change, opposite_change, limit)
        if has_opposite_paths
        else []
    )
    code = np.asarray(name, np.int64)
    unit = whole * sign
    paths = [
        ChangePath(
            node, _build_path_names(names, depth, code, node), float(change[node]), float(change[node]) / unit
        )
        for group in (selected, others)
        for node in sorted(group, key=lambda node: (-abs(change[node]), node))
    ]
    return Explanation(sum(path.share for path in paths) if is_changed else None, tuple(paths))


def explain_self_time(
    delta: F64 | Sequence[float],
    is_significant: Sequence[bool] | npt.NDArray[np.bool_],
    total_change: float,
    *,
    share: float = TARGET_SHARE,
    limit: int = MAX_PATHS,
) -> tuple[SelfTimeChange, ...]:
    """Find the fewest functions whose self time accounts for `share` of a change.

    `delta` is the change of each function's self time, and `total_change` the change to account for. The
    result starts with the largest. Self times do not overlap, so the largest functions are also the fewest.
    Functions that changed in the opposite direction hid as much of the change. The largest of them are
    reported too, if a single one exceeds the part that may remain unexplained.
    """
    if not total_change:
        return ()
    part = np.where(np.asarray(is_significant, np.bool_), np.asarray(delta, np.float64), 0.0) / total_change
    order = [int(at) for at in np.argsort(-part, kind="stable")]
    hidden_share = -float(part[part < 0].sum())
    selected: list[int] = []
    accounted = 0.0
    for at in order[:limit]:
        if part[at] < MIN_SHARE or accounted >= share * (1 + hidden_share):
            break
        selected.append(at)
        accounted += float(part[at])
    against = [at for at in reversed(order[-limit:]) if part[at] < share - 1]
    return tuple(
        SelfTimeChange(at, float(part[at]) * total_change, float(part[at])) for at in [*selected, *against]
    )


@dataclass(frozen=True, slots=True)
class _Forest:
    """The nodes that may be selected, in pre-order.

    `parents` holds for each node the position of its nearest ancestor in `nodes` (-1 if there is none),
    `gains` its part of the change.
    """

    nodes: list[int]
    parents: list[int]
    gains: list[float]

    @classmethod
    def build(cls, ends: Sequence[int], gain: F64, mask: npt.NDArray[np.bool_]) -> _Forest:
        nodes = np.flatnonzero(mask & (gain > 0)).tolist()
        parents: list[int] = []
        path: list[int] = []
        for position, candidate in enumerate(nodes):
            while path and candidate >= ends[nodes[path[-1]]]:
                path.pop()
            parents.append(path[-1] if path else -1)
            path.append(position)
        return cls(nodes, parents, gain[nodes].tolist())

    def drop_below(self, min_gain: float) -> _Forest:
        """Return the forest without the nodes that gain less than `min_gain`."""
        new_positions: dict[int, int] = {-1: -1}
        remaining: list[int] = []
        for position, parent in enumerate(self.parents):
            if self.gains[position] >= min_gain * (1 - _TOLERANCE):
                new_positions[position] = len(remaining)
                remaining.append(position)
            else:
                new_positions[position] = new_positions[parent]
        return _Forest(
            [self.nodes[position] for position in remaining],
            [new_positions[self.parents[position]] for position in remaining],
            [self.gains[position] for position in remaining],
        )

    def compute_max_gain(self) -> float:
        """Return the largest gain of a set of nodes without nesting."""
        below = [0.0] * (len(self.nodes) + 1)
        for at in reversed(range(len(self.nodes))):
            below[self.parents[at]] += max(below[at], self.gains[at])
        return below[-1]

    def select_smallest(self, target: float, total_gain: float, max_nodes: int) -> list[int]:
        """Select the fewest nodes that gain `target`.

        If at most `max_nodes` nodes cannot reach it, select those of them that gain most. `total_gain` is
        the reference for the weight of a path, which decides whether it is vague.
        """
        tables: list[_BestSets] = [[_EMPTY_SET] for _ in range(len(self.nodes) + 1)]
        for at in reversed(range(len(self.nodes))):
            gain, best = self.gains[at], tables[at]
            allowed = min(max(1, int(max_nodes * gain / total_gain * (1 + _TOLERANCE))), len(best) - 1)
            if best[allowed].gain < min(VAGUE_SHARE * gain, target) * (1 - _TOLERANCE):
                # Of equal sets, keep the deeper one.
                best = [
                    best[0],
                    *(max(option, _BestSet(gain, at), key=_gain_of) for option in best[1:] or [_EMPTY_SET]),
                ]
            tables[self.parents[at]] = _merge_subtrees(best, tables[self.parents[at]], max_nodes)
            tables[at] = []
        best = tables[-1]
        max_gain = max(option.gain for option in best)
        goal = min(target * (1 - _TOLERANCE), max_gain)
        return sorted(
            self.nodes[at] for at in _flatten(next(option.nodes for option in best if option.gain >= goal))
        )


_NestedNodes: TypeAlias = "int | tuple[_NestedNodes, _NestedNodes] | None"


class _BestSet(NamedTuple):
    """The gain of a set of nodes, and its nodes."""

    gain: float
    nodes: _NestedNodes


_BestSets: TypeAlias = list[_BestSet]
"""At index k the best set of at most k nodes."""

_EMPTY_SET: Final = _BestSet(0.0, None)


def _gain_of(best: _BestSet) -> float:
    return best.gain


def _merge_subtrees(first: _BestSets, second: _BestSets, limit: int) -> _BestSets:
    """Return the best sets of two subtrees together."""
    if len(second) == 1:
        return first
    merged: _BestSets = []
    for count in range(min(len(first) + len(second) - 2, limit) + 1):
        counts = range(max(0, count - len(second) + 1), min(count, len(first) - 1) + 1)
        own = max(counts, key=lambda own: first[own].gain + second[count - own].gain)
        left, right = first[own], second[count - own]
        merged.append(_BestSet(left.gain + right.gain, (left.nodes, right.nodes)))
    return merged


def _flatten(nested: _NestedNodes) -> list[int]:
    nodes: list[int] = []
    pending = [nested]
    while pending:
        item = pending.pop()
        if isinstance(item, tuple):
            pending.extend(item)
        elif item is not None:
            nodes.append(item)
    return nodes


def _mark_related(level: npt.NDArray[np.int64], selected: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Mark the selected nodes, their descendants and their ancestors."""
    related = np.zeros(len(level), np.bool_)
    for node in selected:
        deeper = np.flatnonzero(level[node + 1 :] <= level[node])
        related[node : node + 1 + int(deeper[0]) if len(deeper) else len(level)] = True
        related[_list_ancestors(level, node)] = True
    return related


def _list_ancestors(level: npt.NDArray[np.int64], node: int) -> list[int]:
    """List the ancestors of a node, starting with the root."""
    levels = level[: node + 1].tolist()
    ancestors: list[int] = []
    next_level = levels[-1] - 1
    for at in range(node - 1, -1, -1):
        if levels[at] == next_level:
            ancestors.append(at)
            next_level -= 1
    return ancestors[::-1]


def _build_path_names(
    names: Sequence[str], level: npt.NDArray[np.int64], name: npt.NDArray[np.int64], node: int
) -> tuple[str, ...]:
    return tuple(names[name[at]] for at in [*_list_ancestors(level, node)[1:], node])
