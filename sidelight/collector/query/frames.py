"""Stage 2: stack hashes become frames. Its cost is bounded by unique stacks, however much was summed.

A segment holds the stacks of its own samples, so the segments that were summed hold every stack in demand.
They are asked in order, and read only while they have a stack that none before them had.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import (
    Array,
    Lists,
    Words,
    coded,
    integers,
    is_equal,
    one,
    strings,
    sum_of,
    words,
)
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.windows import Windows
from sidelight.collector.store.tables import STATES
from sidelight.stacks.counts import ProfileType
from sidelight.stacks.frames import without_line
from sidelight.stacks.tree import Row

MISSING: Final = "(missing stack)"
"""Stands for a stack that samples name and no table holds: its samples are shown, not dropped."""

STATES_OF: Final = {
    ProfileType.WALL: STATES,
    ProfileType.CPU: ("running", "gil"),
    ProfileType.GIL: ("gil",),
}

Wanted: TypeAlias = dict[str, Array]
"""Hashes that have no frames yet, by service."""

SEGMENTS_AT_ONCE: Final = 64
ROWS_BETWEEN_CHECKS: Final = 4096

_NONE: Final = pa.array([], pa.uint64())
_NULL: Final = pa.scalar(None, pa.uint64())


@dataclass(frozen=True, slots=True)
class Weights:
    """Samples of one profile type, above 0, for each (service, h, period), as aligned columns."""

    service: Words
    h: Array
    samples: Array
    period_ns: Array


def weigh(sums: pa.Table, kind: ProfileType) -> Weights:
    """What sums hold of one profile type; stacks that have no samples of it are left out."""
    samples = sum_of(sums, STATES_OF[kind])
    has = pc.greater(samples, pa.scalar(0))
    service = words(sums["service"])
    return Weights(
        coded(service.indices.filter(has), service.dictionary),
        one(sums["h"]).filter(has),
        samples.filter(has),
        one(sums["period_ns"]).filter(has),
    )


def rows(reading: Reading, windows: Windows, weights: Weights, *, lines: bool) -> Iterator[Row]:
    """(frames, samples, nanoseconds) of each stack; a stack may come more than once."""
    frames = stacks(reading, windows, weights.service, weights.h, lines=lines)
    counted = zip(frames, integers(weights.samples), integers(weights.period_ns), strict=True)
    for number, (stack, samples, period_ns) in enumerate(counted):
        if number % ROWS_BETWEEN_CHECKS == 0:
            reading.deadline.remaining()
        # Multiplied here, where whole numbers have no largest: Arrow's would wrap around in silence.
        yield stack, samples, samples * period_ns


def stacks(
    reading: Reading, windows: Windows, service: Words, h: Array, *, lines: bool
) -> list[Sequence[str]]:
    """The frames (escaped, root first) of each (service, h)."""
    found: dict[tuple[str, int], Sequence[str]] = {}
    texts = _Texts(None if lines else without_line)
    names = strings(service.dictionary)
    wanted = {name: pc.unique(h.filter(is_equal(service.indices, code))) for code, name in enumerate(names)}
    refs = [ref for ref, _ in windows.by_segment()]
    step = 1
    while refs and any(len(hashes) for hashes in wanted.values()):
        here, refs = refs[:step], refs[step:]
        counted = zip(here, reading.counted(here), strict=True)
        needed = [ref for ref, table in counted if _has_any(table, wanted)]
        for table in reading.tables(needed, "stacks"):
            wanted = _take(table, wanted, found, texts)
        step = min(step * 2, SEGMENTS_AT_ONCE)
    missing = (MISSING,)
    keys = zip(integers(service.indices), integers(h), strict=True)
    return [found.get((names[code], key), missing) for code, key in keys]


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


def _take(
    table: pa.Table, wanted: Wanted, found: dict[tuple[str, int], Sequence[str]], texts: _Texts
) -> Wanted:
    """Move the stacks this table has from `wanted` to `found`; what is still wanted is returned."""
    left = dict(wanted)
    frames = one(table["frames"])
    for name, hashes, own in _shared(table, wanted):
        at = pc.index_in(hashes, value_set=own)
        has = at.is_valid()
        left[name] = hashes.filter(pc.invert(has))
        taken = _spelled(cast("Lists", frames.take(at.filter(has))), texts)
        for key, stack in zip(integers(hashes.filter(has)), taken, strict=True):
            found[name, key] = stack
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
