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
    DictionaryColumn,
    ListColumn,
    add_columns,
    build_dictionary_array,
    combine_chunks,
    dictionary_encode,
    is_equal,
    repeat_value,
    to_ints,
    to_strings,
)
from sidelight_collector.query.query_context import QueryContext, SegmentView
from sidelight_collector.query.windows import (
    SelectedWindows,
)
from sidelight_collector.storage.tables import STATES
from sidelight_model.counts import ProfileType
from sidelight_model.frames import strip_line_number
from sidelight_model.tree import StackRow

MISSING_STACK: Final = "(missing stack)"
"""Stands for a stack that samples name and no table holds: its samples are shown, not dropped."""

STATES_BY_TYPE: Final = {
    ProfileType.WALL: STATES,
    ProfileType.CPU: ("running", "gil"),
    ProfileType.GIL: ("gil",),
}

HashesByService: TypeAlias = dict[str, Array]
"""Hashes that have no frames yet, by service."""

PooledHashes: TypeAlias = dict[str, list[tuple[Array, int]]]
"""Hashes that have, by service, and the number of the first of them: the others follow."""

MAX_BATCH_SEGMENTS: Final = 64
ROWS_BETWEEN_CHECKS: Final = 4096

_NO_HASHES: Final = pa.array([], pa.uint64())
_NULL_HASH: Final = pa.scalar(None, pa.uint64())


@dataclass(frozen=True, slots=True)
class StackWeights:
    """Samples of one profile type, above 0, for each (service, h, period), as aligned columns.

    Of a side that was cut into cells each row is of one `cell_ids`.
    """

    service: DictionaryColumn
    hashes: Array
    samples: Array
    period_ns: Array
    cell_ids: Array | None = None


def weigh_stacks(sums: pa.Table, kind: ProfileType, states: Collection[str] = STATES) -> StackWeights:
    """What sums hold of one profile type, in these states; stacks that have no samples of it are left out.

    A column `cell` comes along.
    """
    samples = add_columns(sums, [state for state in STATES_BY_TYPE[kind] if state in states])
    has = pc.greater(samples, pa.scalar(0))
    service = dictionary_encode(sums["service"])
    return StackWeights(
        build_dictionary_array(service.indices.filter(has), service.dictionary),
        combine_chunks(sums["h"]).filter(has),
        samples.filter(has),
        combine_chunks(sums["period_ns"]).filter(has),
        combine_chunks(sums["cell"]).filter(has) if "cell" in sums.column_names else None,
    )


class StackPool(Protocol):
    """Where stacks that were found go, numbered in the order in which they come; 0 is MISSING.

    `view` is what it needs to see of a table of stacks.
    """

    view: SegmentView

    def __len__(self) -> int: ...

    def add_stacks(self, table: pa.Table, rows: Array) -> None:
        """Add these rows of a table of stacks."""


class StackTextPool:
    """Stacks as tuples of frames (escaped, root first), each text kept once."""

    view: SegmentView = "stacks"

    def __init__(self, *, lines: bool) -> None:
        self.stacks: list[Sequence[str]] = [(MISSING_STACK,)]
        self._frame_texts = _FrameInterner(None if lines else strip_line_number)

    def __len__(self) -> int:
        return len(self.stacks)

    def add_stacks(self, table: pa.Table, rows: Array) -> None:
        frames = cast("ListColumn", combine_chunks(table["frames"]).take(rows))
        self.stacks.extend(_decode_stacks(frames, self._frame_texts))


def iter_stack_rows(
    context: QueryContext, windows: SelectedWindows, weights: StackWeights, *, lines: bool
) -> Iterator[StackRow]:
    """(frames, samples, nanoseconds) of each stack; a stack may come more than once."""
    pool = StackTextPool(lines=lines)
    return iter_pool_rows(
        context, pool, resolve_stacks(context, windows, weights.service, weights.hashes, pool), weights
    )


def iter_pool_rows(
    context: QueryContext, pool: StackTextPool, stack_ids: Array, weights: StackWeights
) -> Iterator[StackRow]:
    """The same of stacks that are in a pool, given by their numbers."""
    counted = zip(to_ints(stack_ids), to_ints(weights.samples), to_ints(weights.period_ns), strict=True)
    for row, (number, samples, period_ns) in enumerate(counted):
        if row % ROWS_BETWEEN_CHECKS == 0:
            context.deadline.remaining()
        # Multiplied here, where whole numbers have no largest: Arrow's would wrap around in silence.
        yield pool.stacks[number], samples, samples * period_ns


def read_stacks(
    context: QueryContext,
    windows: SelectedWindows,
    service: DictionaryColumn,
    stack_hashes: Array,
    *,
    lines: bool,
) -> list[Sequence[str]]:
    """The frames (escaped, root first) of each (service, h)."""
    pool = StackTextPool(lines=lines)
    return [
        pool.stacks[number]
        for number in to_ints(resolve_stacks(context, windows, service, stack_hashes, pool))
    ]


def resolve_stacks(
    context: QueryContext,
    windows: SelectedWindows,
    service: DictionaryColumn,
    stack_hashes: Array,
    pool: StackPool,
) -> Array:
    """The number in the pool of the stack of each (service, h); those that no table has are MISSING."""
    names = to_strings(service.dictionary)
    missing = {
        name: pc.unique(stack_hashes.filter(is_equal(service.indices, code)))
        for code, name in enumerate(names)
    }
    pooled_hashes: PooledHashes = {}
    refs = [ref for ref, _ in windows.iter_segments()]
    step = 1
    while refs and any(len(hashes) for hashes in missing.values()):
        here, refs = refs[:step], refs[step:]
        counted = zip(here, context.read_hash_tables(here), strict=True)
        needed = [ref for ref, table in counted if _has_missing_stack(table, missing)]
        for table in context.read_tables(needed, pool.view):
            missing = _add_missing_stacks(table, missing, pooled_hashes, pool)
        step = min(step * 2, MAX_BATCH_SEGMENTS)
    number = repeat_value(0, pa.int32(), len(stack_hashes))
    for code, name in enumerate(names):
        if parts := pooled_hashes.get(name):
            own = _find_stack_ids(stack_hashes, parts)
            has = pc.and_(own.is_valid(), is_equal(service.indices, code))
            number = cast("Array", pc.if_else(has, own, number))
    return number


def _find_stack_ids(stack_hashes: Array, parts: Sequence[tuple[Array, int]]) -> Array:
    """The number of each hash among those found, null for the others."""
    at = pc.index_in(
        stack_hashes, value_set=combine_chunks(pa.chunked_array([hashes for hashes, _ in parts]))
    )
    numbers = chain.from_iterable(range(first, first + len(hashes)) for hashes, first in parts)
    return pa.array(numbers, pa.int32()).take(at)


class _FrameInterner:
    """Frame texts, each folded once and kept once."""

    def __init__(self, normalize: Callable[[str], str] | None) -> None:
        self._normalize = normalize
        self._texts: dict[str, str] = {}

    def intern(self, text: str) -> str:
        known = self._texts.get(text)
        if known is None:
            folded = self._normalize(text) if self._normalize else text
            known = self._texts[text] = self._texts.setdefault(folded, folded)
        return known


def _has_missing_stack(table: pa.Table, missing: HashesByService) -> bool:
    return any(
        pc.index_in(hashes, value_set=own).null_count < len(hashes)
        for _, hashes, own in _iter_missing_services(table, missing)
    )


def _iter_missing_services(table: pa.Table, missing: HashesByService) -> Iterator[tuple[str, Array, Array]]:
    """For each service in demand that a table has: its name, the hashes in demand, the table's own hashes."""
    service = dictionary_encode(table["service"])
    names = to_strings(service.dictionary)
    h = combine_chunks(table["h"])
    for code, name in enumerate(names):
        if len(hashes := missing.get(name, _NO_HASHES)):
            # Other services' hashes become null, which nothing in demand is, so that positions stay rows.
            own = h if len(names) == 1 else pc.if_else(is_equal(service.indices, code), h, _NULL_HASH)
            yield name, hashes, cast("Array", own)


def _add_missing_stacks(
    table: pa.Table, missing: HashesByService, pooled_hashes: PooledHashes, pool: StackPool
) -> HashesByService:
    """Move the stacks this table has from `missing` into the pool; what is still wanted is returned."""
    left = dict(missing)
    for name, hashes, own in _iter_missing_services(table, missing):
        at = pc.index_in(hashes, value_set=own)
        has = at.is_valid()
        left[name] = hashes.filter(pc.invert(has))
        pooled_hashes.setdefault(name, []).append((hashes.filter(has), len(pool)))
        pool.add_stacks(table, at.filter(has))
    return left


def _decode_stacks(frames: ListColumn, interner: _FrameInterner) -> Iterator[Sequence[str]]:
    """Each list as a tuple; a word is made into text once, and only if it occurs."""
    flat = dictionary_encode(frames.flatten())
    occurring = pc.unique(flat.indices)
    spelled = to_strings(flat.dictionary.take(occurring))
    word = {code: interner.intern(text) for code, text in zip(to_ints(occurring), spelled, strict=True)}
    line = [word[code] for code in to_ints(flat.indices)]
    end = 0
    for length in to_ints(frames.value_lengths()):
        start, end = end, end + length
        yield tuple(line[start:end])
