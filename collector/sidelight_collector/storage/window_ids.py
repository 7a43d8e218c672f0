"""The time in window ids, which says where else a window with the same id may be.

An id is a ULID (https://github.com/ulid/spec): its first ten characters are a time. Sidecars make ids with
the time of the start, and others at the end of a window. The start is therefore nearly always in the hour of
that time, or shortly before it. An id is stray if it is not: a client sent an arbitrary id, or an id of
another window. Repeated ids are recognized within the UTC day of the start.

Of two windows with one id, both are in the hours of the id, or one of them is stray. Manifests have the
first and the last time in the ids of a block, so whoever looks for duplicates of a window reads few blocks;
of blocks without these times, those of the hours, and all that have stray ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, cast

import numpy as np
import pyarrow as pa

from sidelight_collector.arrow_ops import I64, Column, combine_chunks, to_int64_numpy
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import HOUR_NS

MAX_ID_DELAY_NS: Final = 300 * 10**9
"""Longest time from the start of a window to its id for which both are always in the hours of the id."""

_ALPHABET: Final = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ID_LENGTH: Final = 26
_MAX_NS: Final = 2**63 - 1
_TIME_LENGTH: Final = 10
_VALUES: Final = np.zeros(256, np.int64)
_VALUES[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(len(_ALPHABET))
_WEIGHTS: Final = 32 ** np.arange(_TIME_LENGTH - 1, -1, -1, dtype=np.int64)


class SegmentWindows:
    """The ids and starts of the windows of segments.

    `hours` has the starts (Unix ns) of the hours in which windows with these ids may begin, stray ids aside.
    """

    def __init__(self, segments: Sequence[tuple[SegmentRef, pa.Table]]) -> None:
        """`segments` come with their `profiles`."""
        refs, tables = zip(*segments, strict=True) if segments else ((), ())
        self._ids = _sort([_parse_times(table["wid"]) for table in tables])
        self._starts = _sort([to_int64_numpy(table["ts"]) for table in tables])
        self.hours = {
            *(hour for ref in refs for hour in ref.list_hour_starts()),
            *np.unique((self._ids - MAX_ID_DELAY_NS) // HOUR_NS * HOUR_NS).tolist(),
            *np.unique(self._ids // HOUR_NS * HOUR_NS).tolist(),
        }

    def may_share(self, block: SegmentRef) -> bool:
        """Return whether a block may have one of these ids, or an equal start."""
        if block.id_span_ms is None or (len(self._ids) and not self._ids[0]):
            return block.has_stray_ids or not self.hours.isdisjoint(block.list_hour_starts())
        return _has_any(self._ids, *block.id_span_ms) or _has_any(
            self._starts, block.min_start_ms, block.max_start_ms
        )


def find_id_span(profiles: pa.Table) -> tuple[int, int] | None:
    """Return the first and last time (Unix ms) in ids; None if one is no ULID."""
    times = _parse_times(profiles["wid"]) // 10**6
    return (int(times.min()), int(times.max())) if len(times) and times.min() > 0 else None


def has_stray_ids(profiles: pa.Table) -> bool:
    """Return whether a window began in another hour than those of its id."""
    last, hours = _parse_times(profiles["wid"]), to_int64_numpy(profiles["ts"]) // HOUR_NS
    return bool(np.any((hours > last // HOUR_NS) | (hours < (last - MAX_ID_DELAY_NS) // HOUR_NS)))


def _sort(times: Iterable[I64]) -> I64:
    return np.sort(np.concatenate([np.zeros(0, np.int64), *times]))


def _has_any(sorted_ns: I64, first_ms: int, last_ms: int) -> bool:
    """Return whether a time is between two others, both inclusive."""
    at = int(np.searchsorted(sorted_ns, first_ms * 10**6))
    return at < len(sorted_ns) and int(sorted_ns[at]) < (last_ms + 1) * 10**6


def _parse_times(wids: Column) -> I64:
    """Return the time (Unix ns) of each id; 0 for all of them if one is no ULID."""
    text = combine_chunks(wids)
    if isinstance(text, pa.DictionaryArray):
        return _parse_times(text.dictionary)[to_int64_numpy(text.indices)]
    try:
        ids = text.cast(pa.binary()).cast(pa.binary(_ID_LENGTH))
    except pa.ArrowInvalid:
        return np.zeros(len(text), np.int64)
    content = cast("bytes", ids.buffers()[1]) if len(ids) else b""
    first, last = ids.offset * _ID_LENGTH, (ids.offset + len(ids)) * _ID_LENGTH
    characters = np.frombuffer(content, np.uint8)[first:last].reshape(-1, _ID_LENGTH)
    milliseconds: I64 = _VALUES[characters[:, :_TIME_LENGTH]] @ _WEIGHTS
    return np.minimum(milliseconds, _MAX_NS // 10**6) * 10**6
