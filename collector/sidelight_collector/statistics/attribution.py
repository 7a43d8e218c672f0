"""The few call paths that a change comes from.

`main` got slower by all of the change, and that explains nothing; a leaf explains much, but there may be a
hundred of them. What is looked for is the smallest set of call paths, each standing for its whole subtree and
none inside another, that accounts for `TARGET_SHARE` of the change, out of paths that say something:

- only what is outside noise (the caller's mask) may be chosen, what changed in the whole's direction, and by
  at least `MIN_SHARE` of it;
- a path is *vague*, and never chosen, if a few paths inside it, none of them vague, carry `VAGUE_SHARE` all
of its
  change, or account for the whole by themselves, as far as that is asked for: a trunk that carries all of the
  change says nothing that its branches do not. How few depends on its weight: a path that carries all of the
  change gives way to `limit` others, one that carries a tenth only to a tenth of that. So a path gives way
  only to paths that carry about 1/limit of the change each, and what is lost on the way down is lost once:
  those that it gives way to are chosen themselves;
- the root is the whole, and never chosen.

Sets without nesting are antichains of the tree, and the best of at most k nodes in a subtree is its own node
or the best of its children's together: a knapsack on the tree, solved exactly from the leaves up with tables
of `limit` numbers. Of the smallest sets the one that accounts for most is taken, of equal ones the deeper.

What went the other way is allowed for: it hid as much of the growth (or of the saving), so the set has to
account for the change and what was hid of it, and shares may add up to more than 100 %. The paths that went
the other way are told with negative shares, and the shares of all that is told are what the explanation
accounts for.
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
"""What lies on a limit lies on it in any unit of time, however it is rounded."""
VAGUE_SHARE: Final = 0.9
MIN_SHARE: Final = 0.01
MAX_PATHS: Final = 10


@dataclass(frozen=True, slots=True)
class ChangePath:
    """A call path that was chosen: its node, frames from below the root on, and its part of the change."""

    node: int
    names: tuple[str, ...]
    delta: float
    share: float


@dataclass(frozen=True, slots=True)
class SelfTimeChange:
    """A function whose own time changed, by its place in what `explain_self_time` was given."""

    index: int
    delta: float
    share: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """What accounts for a change. `share` is None where the whole did not change.

    Shares are parts of the change; where the whole did not change, of all that moved, both ways added.
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
    """The smallest set of call paths that accounts for `share` of what changed.

    The tree is in pre-order; `delta` is the change of each node's total, node 0 the whole. `is_changed` says
    whether the whole is outside noise: if not, there is no direction, and the paths that moved either way are
    told. No more than `limit` paths are told of each direction, even if that accounts for less.
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
    chosen = ups.drop_below(MIN_SHARE * whole).select_smallest(share * target, target, limit)
    rest = mask & ~_mark_related(depth, chosen)
    opposite_forest = _Forest.build(ends, change * -sign, rest).drop_below(MIN_SHARE * whole)
    opposite_change = opposite_forest.compute_max_gain()
    # Less than what the explanation leaves out anyway is not worth a line.
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
        for group in (chosen, others)
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
    """The fewest functions whose own time accounts for `share` of the change `total_change`, largest first.

    Own times do not overlap, so the largest first are the fewest. Functions that went the other way hid as
    much of the change; the largest of them are told too, as far as one of them is more than what may be left
    out.
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
    """The nodes that may be chosen, in pre-order, each with its nearest such ancestor (-1: none) and gain."""

    nodes: list[int]
    parents: list[int]
    gains: list[float]

    @classmethod
    def build(cls, ends: Sequence[int], gain: F64, mask: npt.NDArray[np.bool_]) -> _Forest:
        node = np.flatnonzero(mask & (gain > 0)).tolist()
        above: list[int] = []
        path: list[int] = []
        for at, each in enumerate(node):
            while path and each >= ends[node[path[-1]]]:
                path.pop()
            above.append(path[-1] if path else -1)
            path.append(at)
        return cls(node, above, gain[node].tolist())

    def drop_below(self, min_gain: float) -> _Forest:
        """Without the nodes that gain less."""
        at: dict[int, int] = {-1: -1}
        kept: list[int] = []
        for one, above in enumerate(self.parents):
            if self.gains[one] >= min_gain * (1 - _TOLERANCE):
                at[one] = len(kept)
                kept.append(one)
            else:
                at[one] = at[above]
        return _Forest(
            [self.nodes[one] for one in kept],
            [at[self.parents[one]] for one in kept],
            [self.gains[one] for one in kept],
        )

    def compute_max_gain(self) -> float:
        """The most that nodes outside each other can gain."""
        below = [0.0] * (len(self.nodes) + 1)
        for at in reversed(range(len(self.nodes))):
            below[self.parents[at]] += max(below[at], self.gains[at])
        return below[-1]

    def select_smallest(self, target: float, total_gain: float, max_nodes: int) -> list[int]:
        """The fewest nodes that gain `target`, or of at most `max_nodes` nodes those that gain most.

        `total_gain` is what a path is measured by when it is said to be vague.
        """
        tables: list[_BestSets] = [[_EMPTY_SET] for _ in range(len(self.nodes) + 1)]
        for at in reversed(range(len(self.nodes))):
            gain, best = self.gains[at], tables[at]
            few = min(max(1, int(max_nodes * gain / total_gain * (1 + _TOLERANCE))), len(best) - 1)
            if best[few].gain < min(VAGUE_SHARE * gain, target) * (1 - _TOLERANCE):
                # Of equal ones the deeper.
                best = [
                    best[0],
                    *(max(one, _BestSet(gain, at), key=_gain_of) for one in best[1:] or [_EMPTY_SET]),
                ]
            tables[self.parents[at]] = _merge_subtrees(best, tables[self.parents[at]], max_nodes)
            tables[at] = []
        best = tables[-1]
        most = max(one.gain for one in best)
        goal = min(target * (1 - _TOLERANCE), most)
        return sorted(self.nodes[at] for at in _flatten(next(one.nodes for one in best if one.gain >= goal)))


_NestedNodes: TypeAlias = "int | tuple[_NestedNodes, _NestedNodes] | None"


class _BestSet(NamedTuple):
    """What some nodes gain together, and which these are."""

    gain: float
    nodes: _NestedNodes


_BestSets: TypeAlias = list[_BestSet]
"""At each k the best of at most k nodes."""

_EMPTY_SET: Final = _BestSet(0.0, None)


def _gain_of(best: _BestSet) -> float:
    return best.gain


def _merge_subtrees(first: _BestSets, second: _BestSets, limit: int) -> _BestSets:
    """The best of two subtrees side by side."""
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
    found: list[int] = []
    waiting = [nested]
    while waiting:
        one = waiting.pop()
        if isinstance(one, tuple):
            waiting.extend(one)
        elif one is not None:
            found.append(one)
    return found


def _mark_related(level: npt.NDArray[np.int64], chosen: Sequence[int]) -> npt.NDArray[np.bool_]:
    """The chosen nodes, what is inside them and what they are inside of."""
    related = np.zeros(len(level), np.bool_)
    for node in chosen:
        deeper = np.flatnonzero(level[node + 1 :] <= level[node])
        related[node : node + 1 + int(deeper[0]) if len(deeper) else len(level)] = True
        related[_list_ancestors(level, node)] = True
    return related


def _list_ancestors(level: npt.NDArray[np.int64], node: int) -> list[int]:
    """The nodes that a node is inside of, the root first."""
    before = level[: node + 1].tolist()
    above: list[int] = []
    wanted = before[-1] - 1
    for at in range(node - 1, -1, -1):
        if before[at] == wanted:
            above.append(at)
            wanted -= 1
    return above[::-1]


def _build_path_names(
    names: Sequence[str], level: npt.NDArray[np.int64], name: npt.NDArray[np.int64], node: int
) -> tuple[str, ...]:
    return tuple(names[name[at]] for at in [*_list_ancestors(level, node)[1:], node])
