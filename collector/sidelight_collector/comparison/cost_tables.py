"""What functions and call paths took in each cell of both sides: the tables that verdicts are made from.

What too few samples were seen of is left out, because no test could ever find it changed: fewer than
`FEWEST_SAMPLES` on both sides together scatter by more than they are. So is what is not among the heaviest,
beyond as many as are to be tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.arrow_ops import (
    F64,
    I64,
    float64_array,
    int64_array,
)
from sidelight_collector.comparison.matrix import (
    Cut,
)
from sidelight_collector.query.call_tree import I32, Drawn, Flags, Pooled, Side
from sidelight_collector.times import SECOND_NS

FEWEST_SAMPLES: Final = 6
_EXACT: Final = 2.0**62


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of one side: the number of a stack, the cell, samples and ns of each; `shape` is that of cells."""

    stack: I32
    cell: I32
    samples: F64
    ns: F64
    shape: tuple[int, int]

    @classmethod
    def of(cls, side: Side, cut: Cut) -> Rows:
        numbers, weights = side
        if weights.cell is None:
            raise ValueError("this side was not cut into cells")
        samples = float64_array(weights.samples)
        cell = int64_array(weights.cell).astype(np.int32)
        return cls(
            int64_array(numbers).astype(np.int32),
            cell,
            samples,
            samples * float64_array(weights.period_ns),
            cut.shape,
        )

    @property
    def cells(self) -> int:
        return self.shape[0] * self.shape[1]

    def by_stack(self, stacks: int) -> F64:
        """Samples of each stack."""
        return _floats(np.bincount(self.stack, self.samples, stacks))

    def seconds(self, wanted: Flags | None = None) -> F64:
        """Seconds in each cell, (P, T), of all stacks or those that are wanted."""
        ns = self.ns if wanted is None else np.where(wanted[self.stack], self.ns, 0.0)
        return _floats(np.bincount(self.cell, ns, self.cells)).reshape(self.shape) / SECOND_NS

    def counted(self, wanted: Flags) -> float:
        """Samples of stacks that are wanted."""
        return float(self.samples[wanted[self.stack]].sum())

    def weighed(self, value: F64) -> F64:
        """In each cell, (P, T), samples times the value of their stacks."""
        return _floats(np.bincount(self.cell, self.samples * value[self.stack], self.cells)).reshape(
            self.shape
        )

    def table(self, of: I64, count: int) -> F64:
        """Samples in each cell by a number that each stack has, (count, P, T)."""
        at = of[self.stack] * self.cells + self.cell
        return _floats(np.bincount(at, self.samples, count * self.cells)).reshape(count, *self.shape)


@dataclass(frozen=True, slots=True)
class Table:
    """Seconds of K things in the cells of each side, (K, P, T), and their samples on each, (K,)."""

    a: F64
    b: F64
    samples_a: F64
    samples_b: F64

    def take(self, at: I64) -> Table:
        """Some of them."""
        return Table(self.a[at], self.b[at], self.samples_a[at], self.samples_b[at])


@dataclass(frozen=True, slots=True)
class Functions:
    """Functions (escaped frames without lines) with their own time and that in whose stacks they are."""

    names: Sequence[str]
    own: Table
    total: Table
    in_all: int


@dataclass(frozen=True, slots=True)
class Nodes:
    """The nodes of a drawn tree that can be tested, in pre-order: `at` are their numbers there."""

    at: I64
    level: I32
    name: I32
    total: Table


def functions(pooled: Pooled, a: Rows, b: Rows, most: int) -> Functions:
    """The functions of both sides, at most so many."""
    canvas = pooled.canvas
    words, stacks = canvas.words(), len(canvas)
    every = np.arange(len(words), dtype=np.int32)
    # First by stack, which are far fewer than the rows, to see what is worth more.
    (own_a, all_a), (own_b, all_b) = (
        (own[:, 0], total[:, 0])
        for rows in (a, b)
        for own, total in [canvas.spread(_by_stack(rows, stacks), every, 1)]
    )
    kept = np.sort(_heaviest(all_a, all_b, most))
    place = np.full(len(words), -1, np.int32)
    place[kept] = np.arange(len(kept))
    (own_of_a, total_of_a), (own_of_b, total_of_b) = (
        tuple(
            table.reshape(len(kept), *rows.shape) / SECOND_NS
            for table in canvas.spread((rows.stack, rows.cell, rows.ns), place, rows.cells)
        )
        for rows in (a, b)
    )
    return Functions(
        [words[at] for at in kept.tolist()],
        Table(own_of_a, own_of_b, own_a[kept], own_b[kept]),
        Table(total_of_a, total_of_b, all_a[kept], all_b[kept]),
        int(((all_a > 0) | (all_b > 0)).sum()),
    )


def _by_stack(rows: Rows, stacks: int) -> tuple[I32, I32, F64]:
    samples = rows.by_stack(stacks)
    seen = np.flatnonzero(samples).astype(np.int32)
    return seen, np.zeros_like(seen), samples[seen]


def nodes(tree: Drawn, a: Rows, b: Rows, most: int) -> Nodes:
    """The nodes of the tree of both sides, at most so many; a node comes with all that are above it."""
    level = np.array(tree.level, np.int32)
    above, end = spans(level)
    samples_a, samples_b = (_below(np.array(own, np.int64), end) for own in tree.samples[:2])
    at = np.union1d(_heaviest(_floats(samples_a), _floats(samples_b), most), [0])
    kept = np.zeros(len(level), bool)
    kept[at] = True
    number = np.cumsum(kept) - 1
    nearest = np.where(kept, number, -1)
    for of_level in _levels(level)[1:]:
        nearest[of_level] = np.where(kept[of_level], nearest[of_level], nearest[above[of_level]])
    # A subtree of those that are kept ends after as many of them as there are before its end.
    ends_at = np.append(0, np.cumsum(kept))[end[at]]
    where = np.array(tree.node, np.int64)

    def seconds(rows: Rows) -> F64:
        place = nearest[where[rows.stack]] * rows.cells + rows.cell
        ns = _floats(np.bincount(place, rows.ns, len(at) * rows.cells)).reshape(len(at), rows.cells)
        return _floats(_below(_whole(ns), ends_at)).reshape(len(at), *rows.shape) / SECOND_NS

    total = Table(seconds(a), seconds(b), _floats(samples_a[at]), _floats(samples_b[at]))
    return Nodes(at, level[at], np.array(tree.name, np.int32)[at], total)


def spans(level: I32) -> tuple[I64, I64]:
    """For each node of a pre-order tree the one above it (of the root itself), and where its subtree ends."""
    above = np.zeros(len(level), np.int64)
    end = np.full(len(level), len(level), np.int64)
    before = np.zeros(1, np.int64)
    for of_level in _levels(level)[1:]:
        above[of_level] = before[np.searchsorted(before, of_level) - 1]
        following = np.append(of_level[1:], len(level))
        end[of_level] = np.minimum(following, end[above[of_level]])
        before = of_level
    return above, end


def _levels(level: I32) -> list[I64]:
    """The nodes of each level, in their order."""
    order = np.argsort(level, kind="stable")
    return np.split(order, np.cumsum(np.bincount(level))[:-1])


def _below(own: NDArray[Any], end: I64) -> NDArray[Any]:
    """Sums of each node and all below it: its subtree is the run of nodes up to `end`."""
    sums = np.concatenate([np.zeros((1, *own.shape[1:]), own.dtype), np.cumsum(own, axis=0)])
    below: NDArray[Any] = sums[end] - sums[:-1]
    return below


def _whole(ns: F64) -> NDArray[Any]:
    """As whole numbers, whose differences are exact, if all of them together fit."""
    return np.rint(ns).astype(np.int64) if ns.sum() < _EXACT else ns


def _heaviest(a: F64, b: F64, most: int) -> I64:
    """What was seen often enough, the largest by their share of either side."""
    share = np.maximum(a / max(float(a.max(initial=0)), 1), b / max(float(b.max(initial=0)), 1))
    order = np.argsort(-share, kind="stable")
    return order[(a + b)[order] >= FEWEST_SAMPLES][:most]


def _floats(values: NDArray[Any]) -> F64:
    floating: F64 = values.astype(np.float64, copy=False)
    return floating
