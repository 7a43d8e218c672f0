"""What stacks add up to, natively or by the reference, with one result: the tree that is drawn, and costs.

The reference is `sidelight_model.tree` and `sums`. The native kernel works on the codes and words of Arrow's
columns: no frame becomes a text before the tree is done. It adds up in 63 bits, and leaves to the reference
what does not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sidelight_collector.arrow_ops import Array, Lists, coded, integers, one, words
from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.query.engine.stack_text import MISSING, Pool, Spelled, Weights, numbers, pooled
from sidelight_collector.query.query_context import Reading, View
from sidelight_collector.query.windows import (
    Windows,
)
from sidelight_model.aggregate import Cost, top
from sidelight_model.tree import build, ends, prune_to

F64: TypeAlias = NDArray[np.float64]
I32: TypeAlias = NDArray[np.int32]
Flags: TypeAlias = NDArray[np.bool_]

Side: TypeAlias = tuple[Array, Weights]
"""The number of the stack of each row, and its weights."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A call tree in pre-order (see `sidelight_model.tree`), frames escaped, pruned if it had to be.

    Names are numbered as nodes use them: equal trees give equal answers, and pruned names are left out.
    `samples[side][node]` and `microseconds[side][node]` are what ended exactly there; `node` is where each
    stack of the pool ends, -1 if no side has it. Of `whole` nodes there were, `dropped` became part of an
    `(other)`.
    """

    names: Sequence[str]
    level: Sequence[int]
    name: Sequence[int]
    samples: Sequence[Sequence[int]]
    microseconds: Sequence[Sequence[int]]
    node: Sequence[int]
    whole: int
    dropped: int


def drawn(
    reading: Reading,
    sides: Sequence[tuple[Windows, Weights]],
    *,
    lines: bool,
    most: int,
    native: Any | None = NATIVE,
) -> Drawn:
    """The tree of these sides, of about its `most` heaviest nodes."""
    return painted(reading, sides, lines=lines, most=most, native=native)[0]


def painted(
    reading: Reading,
    sides: Sequence[tuple[Windows, Weights]],
    *,
    lines: bool,
    most: int,
    native: Any | None = NATIVE,
) -> tuple[Drawn, Pooled]:
    """The same, and the stacks that it was drawn from."""
    if native is not None:
        canvas = NativeCanvas(native, lines=lines)
        stacks = _numbered(reading, sides, canvas)
        if tree := canvas.draw(stacks, most):
            return tree, Pooled(canvas, stacks)
    reference = ReferenceCanvas(reading, lines=lines)
    stacks = _numbered(reading, sides, reference)
    return reference.draw(stacks, most), Pooled(reference, stacks)


def repainted(
    reading: Reading, sides: Sequence[tuple[Windows, Weights]], pooled: Pooled, *, most: int
) -> tuple[Drawn, Pooled]:
    """The same of other weights on the same sides: stacks that the pool has are not read again."""
    stacks = [
        (_also(reading, windows, weights, known, pooled.canvas), weights)
        for (windows, weights), known in zip(sides, pooled.sides, strict=True)
    ]
    if tree := pooled.canvas.draw(stacks, most):
        return tree, Pooled(pooled.canvas, stacks)
    return painted(reading, sides, lines=False, most=most, native=None)


def _also(reading: Reading, windows: Windows, weights: Weights, known: Side, pool: Pool) -> Array:
    """The numbers of stacks of which the pool has some already."""
    numbered, of = known
    if len(weights.service.dictionary) > 1 or not weights.service.dictionary.equals(of.service.dictionary):
        return numbers(reading, windows, weights.service, weights.h, pool)
    found = numbered.take(pc.index_in(weights.h, value_set=of.h))
    new = found.is_null()
    if not pc.any(new).as_py():
        return found
    here = coded(weights.service.indices.filter(new), weights.service.dictionary)
    read = numbers(reading, windows, here, weights.h.filter(new), pool)
    return cast("Array", pc.replace_with_mask(found, new, read))


def pooled_stacks(
    reading: Reading, sides: Sequence[tuple[Windows, Weights]], *, native: Any | None = NATIVE
) -> Pooled:
    """The stacks of these sides, lines folded away, and no tree of them."""
    canvas = ReferenceCanvas(reading, lines=False) if native is None else NativeCanvas(native, lines=False)
    return Pooled(canvas, _numbered(reading, sides, canvas))


def costs(
    reading: Reading,
    sides: Sequence[tuple[Windows, Weights]],
    *,
    lines: bool = False,
    begin: str = "",
    native: Any | None = NATIVE,
) -> Mapping[str, Sequence[Cost]]:
    """What each function (or each of its lines) cost on each of these sides; frames escaped, in no order.

    Only those that begin with `begin`.
    """
    if native is not None:
        canvas = NativeCanvas(native, lines=lines)
        found = canvas.costs(_numbered(reading, sides, canvas), begin)
        if found is not None:
            return found
    reference = ReferenceCanvas(reading, lines=lines)
    return reference.costs(_numbered(reading, sides, reference), begin)


def _numbered(reading: Reading, sides: Sequence[tuple[Windows, Weights]], pool: Pool) -> list[Side]:
    """These sides as the numbers that their stacks have in the pool, where they now are."""
    numbered = [
        (numbers(reading, windows, weights.service, weights.h, pool), weights) for windows, weights in sides
    ]
    reading.deadline.remaining()
    return numbered


class Canvas(Pool, Protocol):
    """A pool that tells what its stacks are made of; `words` are the frames that they may have, escaped."""

    def words(self) -> Sequence[str]: ...

    def draw(self, sides: Sequence[Side], most: int) -> Drawn | None:
        """The tree of sides whose stacks it has; None if they are too heavy."""

    def depths(self) -> I32:
        """The frames of each stack."""

    def holding(self, wanted: Flags) -> tuple[Flags, Flags]:
        """For each stack whether it has any of the words that are wanted, and whether it ends with one."""

    def spread(self, rows: tuple[I32, I32, F64], place: I32, cells: int) -> tuple[F64, F64]:
        """What words weigh in each cell, from rows of a stack's number, a cell and a weight.

        The tables have a row for each word that has a `place` of 0 or more, those without a gap. The first
        has the stacks that end with the word, the second those that have it, each stack once.
        """


@dataclass(frozen=True, slots=True)
class Pooled:
    """Stacks in a pool, and for each side their numbers with what they weigh."""

    canvas: Canvas
    sides: Sequence[Side]


class ReferenceCanvas(Spelled):
    """Draws and adds up anything, until the query's time is up."""

    def __init__(self, reading: Reading, *, lines: bool) -> None:
        super().__init__(lines=lines)
        self._reading = reading

    def draw(self, sides: Sequence[Side], most: int) -> Drawn:
        """The tree of sides."""
        whole = build([pooled(self._reading, self, *side) for side in sides])
        tree, dropped, moved = prune_to(whole, most)
        seen = sorted({number for stack, _ in sides for number in integers(pc.unique(stack))})
        node = [-1] * len(self.stacks)
        for number, end in zip(seen, ends(whole, [self.stacks[number] for number in seen]), strict=True):
            node[number] = moved[end]
        codes = {code: number for number, code in enumerate(dict.fromkeys(tree.name))}
        return Drawn(
            [tree.names[code] for code in codes],
            tree.level,
            [codes[code] for code in tree.name],
            tree.self_samples,
            [list(map(_microseconds, ns)) for ns in tree.self_ns],
            node,
            len(whole),
            dropped,
        )

    def costs(self, sides: Sequence[Side], begin: str = "") -> Mapping[str, Sequence[Cost]]:
        """What frames cost on sides."""
        found = top([pooled(self._reading, self, *side) for side in sides])
        return {text: own for text, own in found.items() if text.startswith(begin)}

    def words(self) -> Sequence[str]:
        return list(dict.fromkeys(chain.from_iterable(self.stacks)))

    def depths(self) -> I32:
        return np.array([len(frames) for frames in self.stacks], np.int32)

    def holding(self, wanted: Flags) -> tuple[Flags, Flags]:
        texts = {word for word, is_wanted in zip(self.words(), wanted, strict=True) if is_wanted}
        any_of = [not texts.isdisjoint(frames) for frames in self.stacks]
        last = [bool(frames) and frames[-1] in texts for frames in self.stacks]
        return np.array(any_of, bool), np.array(last, bool)

    def spread(self, rows: tuple[I32, I32, F64], place: I32, cells: int) -> tuple[F64, F64]:
        at = dict(zip(self.words(), place.tolist(), strict=True))
        own, whole = np.zeros((2, int(place.max(initial=-1)) + 1, cells))
        for stack, cell, weight in zip(*(column.tolist() for column in rows), strict=True):
            frames = self.stacks[stack]
            for word in set(frames):
                if at[word] >= 0:
                    whole[at[word], cell] += weight
            if frames and at[frames[-1]] >= 0:
                own[at[frames[-1]], cell] += weight
        return own, whole


class NativeCanvas:
    """Draws and adds up what fits 63 bits, with the extension."""

    view: View = "stacks"

    def __init__(self, native: Any, *, lines: bool) -> None:
        self._pool = native.Pool(MISSING, lines=lines)

    def __len__(self) -> int:
        return len(self._pool)

    def take(self, table: pa.Table, rows: Array) -> None:
        frames = cast("Lists", one(table["frames"]))
        flat = words(frames.values)
        offsets, text = _texts(flat.dictionary)
        self._pool.take(
            _column(frames.offsets, "i"), _column(flat.indices, "i"), offsets, text, _column(rows, "i")
        )

    def draw(self, sides: Sequence[Side], most: int) -> Drawn | None:
        """The tree of sides; None if they are too heavy."""
        found = self._pool.draw(_columns(sides), most)
        return None if found is None else Drawn(*found)

    def costs(self, sides: Sequence[Side], begin: str = "") -> Mapping[str, Sequence[Cost]] | None:
        """What frames cost on sides; None if they are too heavy."""
        found = self._pool.costs(_columns(sides))
        if found is None:
            return None
        return {text: tuple(Cost(*one) for one in own) for text, own in found if text.startswith(begin)}

    def words(self) -> Sequence[str]:
        found: list[str] = self._pool.words()
        return found

    def depths(self) -> I32:
        return np.frombuffer(self._pool.depths(), np.int32)

    def holding(self, wanted: Flags) -> tuple[Flags, Flags]:
        any_of, last = self._pool.holding(wanted.astype(np.uint8))
        return np.frombuffer(any_of, bool), np.frombuffer(last, bool)

    def spread(self, rows: tuple[I32, I32, F64], place: I32, cells: int) -> tuple[F64, F64]:
        own, whole = self._pool.spread(rows, place, cells)
        return np.frombuffer(own).reshape(-1, cells), np.frombuffer(whole).reshape(-1, cells)


def _columns(sides: Sequence[Side]) -> list[tuple[memoryview, memoryview, memoryview]]:
    return [
        (_column(stack, "i"), _column(weights.samples, "q"), _column(weights.period_ns, "q"))
        for stack, weights in sides
    ]


def _column(array: Array, code: str) -> memoryview:
    """The numbers of a column without nulls, where they lie."""
    numbers = array.buffers()[1]
    if numbers is None or not len(array):
        return memoryview(b"").cast(cast("Any", code))
    return memoryview(numbers).cast(cast("Any", code))[array.offset : array.offset + len(array)]


def _texts(column: Array) -> tuple[memoryview, memoryview]:
    """A column of text as where each begins and ends, and the text of all."""
    _, offsets, text = column.buffers()
    if offsets is None or not len(column):
        return memoryview(b"").cast("i"), memoryview(b"")
    bounds = memoryview(offsets).cast("i")[column.offset : column.offset + len(column) + 1]
    return bounds, memoryview(text or b"").cast("B")


def _microseconds(ns: int) -> int:
    """Rounded, halves to the even one."""
    whole, rest = divmod(ns, 1000)
    return whole + (rest > 500 or (rest == 500 and whole % 2 == 1))
