"""The call tree that is drawn: built and pruned natively or by the reference, with one result.

The reference is `sidelight.stacks.tree`. The native kernel works on the codes and words of Arrow's columns:
no frame becomes a text before the tree is done. It adds up in 63 bits, and leaves to the reference what does
not fit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import pyarrow as pa

from sidelight.collector.columns import Array, Lists, one, words
from sidelight.collector.kernel import NATIVE
from sidelight.collector.query.frames import MISSING, Pool, Spelled, Weights, numbers, pooled
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.windows import Windows
from sidelight.stacks.tree import build, prune


@dataclass(frozen=True, slots=True)
class Drawn:
    """A call tree in pre-order (see `sidelight.stacks.tree`), frames escaped, pruned if it had to be.

    Names are numbered as nodes use them: equal trees give equal answers, and pruned names are left out.
    `samples[side][node]` and `microseconds[side][node]` are what ended exactly there. Of `whole` nodes there
    were, `dropped` became part of an `(other)`.
    """

    names: Sequence[str]
    level: Sequence[int]
    name: Sequence[int]
    samples: Sequence[Sequence[int]]
    microseconds: Sequence[Sequence[int]]
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
    for canvas in _canvases(native, lines=lines):
        numbered = [
            (numbers(reading, windows, weights.service, weights.h, canvas), weights)
            for windows, weights in sides
        ]
        reading.deadline.remaining()
        if tree := canvas.draw(reading, numbered, most):
            return tree
    raise AssertionError("the reference draws everything")


class Canvas(Pool, Protocol):
    """A pool that can draw what is in it."""

    def draw(self, reading: Reading, sides: Sequence[tuple[Array, Weights]], most: int) -> Drawn | None:
        """The tree of sides, given as numbers of stacks and their weights; None if that is too much."""


def _canvases(native: Any | None, *, lines: bool) -> Iterator[Canvas]:
    if native is not None:
        yield NativeCanvas(native, lines=lines)
    yield ReferenceCanvas(lines=lines)


class ReferenceCanvas(Spelled):
    """Draws anything."""

    def draw(self, reading: Reading, sides: Sequence[tuple[Array, Weights]], most: int) -> Drawn:
        whole = build([pooled(reading, self, stack, weights) for stack, weights in sides])
        tree, dropped = prune(whole, most)
        codes = {code: number for number, code in enumerate(dict.fromkeys(tree.name))}
        return Drawn(
            [tree.names[code] for code in codes],
            tree.level,
            [codes[code] for code in tree.name],
            tree.self_samples,
            [list(map(_microseconds, ns)) for ns in tree.self_ns],
            len(whole),
            dropped,
        )


class NativeCanvas:
    """Draws what adds up to at most 63 bits, with the extension."""

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

    def draw(self, reading: Reading, sides: Sequence[tuple[Array, Weights]], most: int) -> Drawn | None:
        columns = [
            (_column(stack, "i"), _column(weights.samples, "q"), _column(weights.period_ns, "q"))
            for stack, weights in sides
        ]
        found = self._pool.draw(columns, most)
        return None if found is None else Drawn(*found)


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
