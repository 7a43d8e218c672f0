"""Stage 2: stack hashes become frames. Its cost is bounded by unique stacks, however much was summed.

A segment holds the stacks of its own samples, so the segments that were summed hold every stack in demand.
They are asked in order, and read only while they have a stack that none before them had.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    Lists,
    Words,
    coded,
    integers,
    is_equal,
    one,
    same,
    strings,
    sum_of,
    words,
)
from sidelight_collector.query.query_context import Reading, View
from sidelight_collector.query.windows import (
    Windows,
)
from sidelight_collector.storage.tables import STATES
from sidelight_model.counts import ProfileType
from sidelight_model.frames import without_line
from sidelight_model.tree import Row

MISSING: Final = "(missing stack)"
"""Stands for a stack that samples name and no table holds: its samples are shown, not dropped."""

STATES_OF: Final = {
    ProfileType.WALL: STATES,
    ProfileType.CPU: ("running", "gil"),
    ProfileType.GIL: ("gil",),
}

Wanted: TypeAlias = dict[str, Array]
"""Hashes that have no frames yet, by service."""

Found: TypeAlias = dict[str, list[tuple[Array, int]]]
"""Hashes that have, by service, and the number of the first of them: the others follow."""

SEGMENTS_AT_ONCE: Final = 64
ROWS_BETWEEN_CHECKS: Final = 4096

_NONE: Final = pa.array([], pa.uint64())
_NULL: Final = pa.scalar(None, pa.uint64())


@dataclass(frozen=True, slots=True)
class Weights:
    """Samples of one profile type, above 0, for each (service, h, period), as aligned columns.

    Of a side that was cut into cells each row is of one `cell`.
    """

    service: Words
    h: Array
    samples: Array
    period_ns: Array
    cell: Array | None = None


def weigh(sums: pa.Table, kind: ProfileType, states: Collection[str] = STATES) -> Weights:
    """What sums hold of one profile type, in these states; stacks that have no samples of it are left out.

    A column `cell` comes along.
    """
    samples = sum_of(sums, [state for state in STATES_OF[kind] if state in states])
    has = pc.greater(samples, pa.scalar(0))
    service = words(sums["service"])
    return Weights(
        coded(service.indices.filter(has), service.dictionary),
        one(sums["h"]).filter(has),
        samples.filter(has),
        one(sums["period_ns"]).filter(has),
        one(sums["cell"]).filter(has) if "cell" in sums.column_names else None,
    )


class Pool(Protocol):
    """Where stacks that were found go, numbered in the order in which they come; 0 is MISSING.

    `view` is what it needs to see of a table of stacks.
    """

    view: View

    def __len__(self) -> int: ...

    def take(self, table: pa.Table, rows: Array) -> None:
        """Add these rows of a table of stacks."""


class Spelled:
    """Stacks as tuples of frames (escaped, root first), each text kept once."""

    view: View = "stacks"

    def __init__(self, *, lines: bool) -> None:
        self.stacks: list[Sequence[str]] = [(MISSING,)]
        self._texts = _Texts(None if lines else without_line)

    def __len__(self) -> int:
        return len(self.stacks)

    def take(self, table: pa.Table, rows: Array) -> None:
        frames = cast("Lists", one(table["frames"]).take(rows))
        self.stacks.extend(_spelled(frames, self._texts))


def rows(reading: Reading, windows: Windows, weights: Weights, *, lines: bool) -> Iterator[Row]:
    """(frames, samples, nanoseconds) of each stack; a stack may come more than once."""
    pool = Spelled(lines=lines)
    return pooled(reading, pool, numbers(reading, windows, weights.service, weights.h, pool), weights)


def pooled(reading: Reading, pool: Spelled, stack: Array, weights: Weights) -> Iterator[Row]:
    """The same of stacks that are in a pool, given by their numbers."""
    counted = zip(integers(stack), integers(weights.samples), integers(weights.period_ns), strict=True)
    for row, (number, samples, period_ns) in enumerate(counted):
        if row % ROWS_BETWEEN_CHECKS == 0:
            reading.deadline.remaining()
        # Multiplied here, where whole numbers have no largest: Arrow's would wrap around in silence.
        yield pool.stacks[number], samples, samples * period_ns


def stacks(
    reading: Reading, windows: Windows, service: Words, h: Array, *, lines: bool
) -> list[Sequence[str]]:
    """The frames (escaped, root first) of each (service, h)."""
    pool = Spelled(lines=lines)
    return [pool.stacks[number] for number in integers(numbers(reading, windows, service, h, pool))]


def numbers(reading: Reading, windows: Windows, service: Words, h: Array, pool: Pool) -> Array:
    """The number in the pool of the stack of each (service, h); those that no table has are MISSING."""
    names = strings(service.dictionary)
    wanted = {name: pc.unique(h.filter(is_equal(service.indices, code))) for code, name in enumerate(names)}
    found: Found = {}
    refs = [ref for ref, _ in windows.by_segment()]
    step = 1
    while refs and any(len(hashes) for hashes in wanted.values()):
        here, refs = refs[:step], refs[step:]
        counted = zip(here, reading.counted(here), strict=True)
        needed = [ref for ref, table in counted if _has_any(table, wanted)]
        for table in reading.tables(needed, pool.view):
            wanted = _take(table, wanted, found, pool)
        step = min(step * 2, SEGMENTS_AT_ONCE)
    number = same(0, pa.int32(), len(h))
    for code, name in enumerate(names):
        if parts := found.get(name):
            own = _number_of(h, parts)
            has = pc.and_(own.is_valid(), is_equal(service.indices, code))
            number = cast("Array", pc.if_else(has, own, number))
    return number


def _number_of(h: Array, parts: Sequence[tuple[Array, int]]) -> Array:
    """The number of each hash among those found, null for the others."""
    at = pc.index_in(h, value_set=one(pa.chunked_array([hashes for hashes, _ in parts])))
    numbers = chain.from_iterable(range(first, first + len(hashes)) for hashes, first in parts)
    return pa.array(numbers, pa.int32()).take(at)


class _Texts:
    """Frame texts, each folded once and kept once."""

    def __init__(self, fold: Callable[[str], str] | None) -> None:
        self._fold = fold
        self._known: dict[str, str] = {}

    def of(self, text: str) -> str:
        known = self._known.get(text)
        if known is None:
            folded = self._fold(text) if self._fold else text
            known = self._known[text] = self._known.setdefault(folded, folded)
        return known


def _has_any(table: pa.Table, wanted: Wanted) -> bool:
    return any(
        pc.index_in(hashes, value_set=own).null_count < len(hashes)
        for _, hashes, own in _shared(table, wanted)
    )


def _shared(table: pa.Table, wanted: Wanted) -> Iterator[tuple[str, Array, Array]]:
    """For each service in demand that a table has: its name, the hashes in demand, the table's own hashes."""
    service = words(table["service"])
    names = strings(service.dictionary)
    h = one(table["h"])
    for code, name in enumerate(names):
        if len(hashes := wanted.get(name, _NONE)):
            # Other services' hashes become null, which nothing in demand is, so that positions stay rows.
            own = h if len(names) == 1 else pc.if_else(is_equal(service.indices, code), h, _NULL)
            yield name, hashes, cast("Array", own)


def _take(table: pa.Table, wanted: Wanted, found: Found, pool: Pool) -> Wanted:
    """Move the stacks this table has from `wanted` into the pool; what is still wanted is returned."""
    left = dict(wanted)
    for name, hashes, own in _shared(table, wanted):
        at = pc.index_in(hashes, value_set=own)
        has = at.is_valid()
        left[name] = hashes.filter(pc.invert(has))
        found.setdefault(name, []).append((hashes.filter(has), len(pool)))
        pool.take(table, at.filter(has))
    return left


def _spelled(frames: Lists, texts: _Texts) -> Iterator[Sequence[str]]:
    """Each list as a tuple; a word is made into text once, and only if it occurs."""
    flat = words(frames.flatten())
    occurring = pc.unique(flat.indices)
    spelled = strings(flat.dictionary.take(occurring))
    word = {code: texts.of(text) for code, text in zip(integers(occurring), spelled, strict=True)}
    line = [word[code] for code in integers(flat.indices)]
    end = 0
    for length in integers(frames.value_lengths()):
        start, end = end, end + length
        yield tuple(line[start:end])
