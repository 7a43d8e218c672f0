"""Stage 2: resolve stack hashes to frames.

Its cost is bounded by the number of unique stacks, whatever the number of samples. A segment holds the
stacks of its own samples, so the segments of stage 1 hold every stack that is needed. They are read in
order, and only if they have a stack that no earlier segment has.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias, cast

import numpy as np
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
    to_ints,
    to_strings,
)
from sidelight_collector.query.engine.stack_endpoints import group_stacks, read_endpoints
from sidelight_collector.query.query_context import QueryContext, SegmentView
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.storage.segments import SegmentRef
from sidelight_model.counts import STATES, STATES_BY_TYPE, ProfileType
from sidelight_model.frames import strip_line_number
from sidelight_model.tree import StackRow

MISSING_STACK: Final = "(missing stack)"
"""Stands for a stack that no table holds, so that its samples are shown and not dropped."""

HashesByService: TypeAlias = dict[str, Array]
"""Hashes of stacks by service."""

PooledHashes: TypeAlias = dict[str, list[tuple[Array, int]]]
"""By service, arrays of hashes with the index of their first stack in a pool; indices are consecutive."""

StackView: TypeAlias = SegmentView | Literal["endpoints"]
"""What a pool reads of stacks: columns of their tables, or their endpoints."""

MAX_BATCH_SEGMENTS: Final = 64
ROWS_BETWEEN_CHECKS: Final = 4096

_NO_HASHES: Final = pa.array([], pa.uint64())


@dataclass(frozen=True, slots=True)
class StackWeights:
    """Samples of one profile type for each (service, h, period), as aligned columns.

    Every row has at least one sample. If the side is divided into cells, `cell_ids` has the cell of each
    row.
    """

    service: DictionaryColumn
    hashes: Array
    samples: Array
    period_ns: Array
    cell_ids: Array | None = None


def weigh_stacks(sums: pa.Table, kind: ProfileType, states: Collection[str] = STATES) -> StackWeights:
    """Build the weights of one profile type from `sums`, limited to `states`.

    Rows without samples of the type are dropped. A column `cell` becomes `cell_ids`.
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
    """A pool of stacks, numbered in the order of insertion; 0 is MISSING_STACK.

    `view` names the columns that it needs of a table of stacks.
    """

    @property
    def view(self) -> StackView: ...

    def __len__(self) -> int: ...

    def add_stacks(self, table: pa.Table, rows: Array) -> None:
        """Add these rows of a table of stacks."""


class StackTextPool:
    """Stacks as tuples of frames (escaped, root first) with interned strings."""

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
    """Yield (frames, samples, nanoseconds) of each row; a stack may occur repeatedly."""
    pool = StackTextPool(lines=lines)
    return iter_pool_rows(
        context, pool, resolve_stacks(context, windows, weights.service, weights.hashes, pool), weights
    )


def iter_pool_rows(
    context: QueryContext, pool: StackTextPool, stack_ids: Array, weights: StackWeights
) -> Iterator[StackRow]:
    """Yield (frames, samples, nanoseconds) of stacks that are in a pool already."""
    counted = zip(to_ints(stack_ids), to_ints(weights.samples), to_ints(weights.period_ns), strict=True)
    for row, (number, samples, period_ns) in enumerate(counted):
        if row % ROWS_BETWEEN_CHECKS == 0:
            context.deadline.remaining()
        # Multiplied in Python, because Arrow's 64-bit integers would overflow silently.
        yield pool.stacks[number], samples, samples * period_ns


def read_stacks(
    context: QueryContext,
    windows: SelectedWindows,
    service: DictionaryColumn,
    stack_hashes: Array,
    *,
    lines: bool,
) -> list[Sequence[str]]:
    """Return the frames (escaped, root first) of each (service, h)."""
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
    """Add the stacks of each (service, h) to the pool, and return their indices.

    The index of a stack that no table has is 0, that of MISSING_STACK.
    """
    own_rows = {
        name: (rows, dictionary_encode(_take(stack_hashes, rows)))
        for name, rows in _iter_service_rows(service)
    }
    missing = {name: hashes.dictionary for name, (_, hashes) in own_rows.items()}
    services = windows.services
    pooled_hashes: PooledHashes = {}
    refs = [ref for ref, _ in windows.iter_segments()]
    step = 1
    while refs and any(len(hashes) for hashes in missing.values()):
        here, refs = refs[:step], refs[step:]
        # Cached stacks are searched as fast as their hashes. Grouping them costs more.
        cached = (
            []
            if windows.group_by_endpoint
            else [ref for ref in here if context.is_cached(ref, pool.view, services)]
        )
        for table in _read_stack_tables(context, windows, cached, pool.view, services):
            missing = _add_missing_stacks(table, missing, pooled_hashes, pool)
        uncached = [ref for ref in here if ref not in cached]
        unread = dict(zip(uncached, context.read_hash_tables(uncached, services), strict=True))
        while needed := _plan_stack_reads(unread, missing):
            for table in _read_stack_tables(context, windows, needed, pool.view, services):
                missing = _add_missing_stacks(table, missing, pooled_hashes, pool)
            for ref in needed:
                del unread[ref]
        step = min(step * 2, MAX_BATCH_SEGMENTS)
    stack_ids = np.zeros(len(stack_hashes), np.int32)
    for name, (rows, hashes) in own_rows.items():
        if parts := pooled_hashes.get(name):
            own = _find_stack_ids(hashes.dictionary, parts).fill_null(0).take(hashes.indices).to_numpy()
            stack_ids[slice(None) if rows is None else rows.to_numpy()] = own
    return pa.array(stack_ids)


def _iter_service_rows(service: DictionaryColumn) -> Iterator[tuple[str, Array | None]]:
    """Yield each service that has rows, and their numbers.

    Numbers ascend; None stands for all rows.
    """
    codes = service.indices.to_numpy(zero_copy_only=False)
    own, counts = np.unique(codes, return_counts=True)
    names = to_strings(service.dictionary.take(pa.array(own)))
    if len(names) == 1:
        yield names[0], None
        return
    order, ends = pa.array(np.argsort(codes, kind="stable")), np.cumsum(counts)
    for name, end, count in zip(names, ends, counts, strict=True):
        yield name, order.slice(end - count, count)


def _take(column: Array, rows: Array | None) -> Array:
    return column if rows is None else column.take(rows)


def _read_stack_tables(
    context: QueryContext,
    windows: SelectedWindows,
    refs: Sequence[SegmentRef],
    view: StackView,
    services: Collection[str],
) -> Iterable[pa.Table]:
    if view == "endpoints":
        return read_endpoints(context, refs, services)
    tables = context.read_tables(refs, view, services)
    if view == "stacks" and windows.group_by_endpoint:
        return (group_stacks(context, table, services) for table in tables)
    return tables


def _find_stack_ids(stack_hashes: Array, parts: Sequence[tuple[Array, int]]) -> Array:
    """Return the index of each hash in the pool, or null if the pool does not have it."""
    at = pc.index_in(
        stack_hashes, value_set=combine_chunks(pa.chunked_array([hashes for hashes, _ in parts]))
    )
    numbers = [np.arange(first, first + len(hashes), dtype=np.int32) for hashes, first in parts]
    return pa.array(np.concatenate(numbers)).take(at)


class _FrameInterner:
    """Interned frame texts, each normalized once."""

    def __init__(self, normalize: Callable[[str], str] | None) -> None:
        self._normalize = normalize
        self._texts: dict[str, str] = {}

    def intern(self, text: str) -> str:
        interned = self._texts.get(text)
        if interned is None:
            normalized = self._normalize(text) if self._normalize else text
            interned = self._texts[text] = self._texts.setdefault(normalized, normalized)
        return interned


def _plan_stack_reads(tables: Mapping[SegmentRef, pa.Table], missing: HashesByService) -> list[SegmentRef]:
    """Select the segments with missing stacks that no segment before them has.

    `tables` have the hashes of all stacks of each segment.
    """
    needed: list[SegmentRef] = []
    for ref, table in tables.items():
        still_missing = dict(missing)
        for name, hashes, own, _ in _iter_missing_services(table, missing):
            still_missing[name] = hashes.filter(pc.invert(pc.is_in(hashes, value_set=own)))
        if any(len(still_missing[name]) < len(hashes) for name, hashes in missing.items()):
            needed.append(ref)
            missing = still_missing
    return needed


def _iter_missing_services(
    table: pa.Table, missing: HashesByService
) -> Iterator[tuple[str, Array, Array, Array | None]]:
    """Yield each service of a table with missing stacks.

    Yields the name, the missing hashes, the hashes of the service in the table, and their row numbers.
    """
    h = combine_chunks(table["h"])
    for name, rows in _iter_service_rows(dictionary_encode(table["service"])):
        if len(hashes := missing.get(name, _NO_HASHES)):
            yield name, hashes, _take(h, rows), rows


def _add_missing_stacks(
    table: pa.Table, missing: HashesByService, pooled_hashes: PooledHashes, pool: StackPool
) -> HashesByService:
    """Add missing stacks from this table to the pool; return those still missing."""
    still_missing = dict(missing)
    for name, hashes, own, rows in _iter_missing_services(table, missing):
        at = pc.index_in(hashes, value_set=own)
        has = at.is_valid()
        still_missing[name] = hashes.filter(pc.invert(has))
        pooled_hashes.setdefault(name, []).append((hashes.filter(has), len(pool)))
        found = at.filter(has)
        # Pools take row numbers of 32 bits.
        pool.add_stacks(table, found if rows is None else rows.take(found).cast(pa.int32()))
    return still_missing


def _decode_stacks(frames: ListColumn, interner: _FrameInterner) -> Iterator[Sequence[str]]:
    """Yield each list as a tuple; only texts that occur are decoded, each once."""
    flat = dictionary_encode(frames.flatten())
    codes = pc.unique(flat.indices)
    texts = to_strings(flat.dictionary.take(codes))
    text_by_code = {code: interner.intern(text) for code, text in zip(to_ints(codes), texts, strict=True)}
    all_frames = [text_by_code[code] for code in to_ints(flat.indices)]
    end = 0
    for length in to_ints(frames.value_lengths()):
        start, end = end, end + length
        yield tuple(all_frames[start:end])
