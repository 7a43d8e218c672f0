"""Reading some row groups of a large Parquet file, instead of the whole object.

A block of an open day has windows of all services, and a query of one needs few of its row groups. Two ranges
are requested: the end of the file, which says where they are, and the row groups. Both are checked by the
hashes that `checksum` describes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from mmap import mmap
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from sidelight_collector.storage.checksum import (
    is_row_group_intact,
    measure_checked_end,
    read_row_group_digests,
)
from sidelight_collector.storage.objects import ObjectStore

MIN_PRUNED_ROWS: Final = 1 << 15
"""Rows of a file from which on the rows of some services are read alone."""
MIN_FILE_BYTES: Final = 1 << 20
"""Size of a file from which on row groups are requested alone."""
MAX_SHARE: Final = 0.5
"""Share of a file above which all of it is requested."""
TAIL_BYTES: Final = 1 << 17
"""Bytes at the end of a file that are requested first; a longer footer takes one more request."""


def locate_row_group(file: pq.ParquetFile, at: int) -> range:
    """Return the offsets of a row group in bytes."""
    group = file.metadata.row_group(at)
    columns = [group.column(place) for place in range(group.num_columns)]
    starts = [column.dictionary_page_offset or column.data_page_offset for column in columns]
    ends = [start + column.total_compressed_size for start, column in zip(starts, columns, strict=True)]
    return range(min(starts), max(ends))


def find_row_groups(file: pq.ParquetFile, services: Collection[str] | None) -> Sequence[int]:
    """Find the row groups that may have rows of these services; the first if none has."""
    every = range(file.num_row_groups)
    columns = file.metadata.schema.names
    if services is None or "service" not in columns:
        return every
    column = columns.index("service")

    def may_have(at: int) -> bool:
        known = file.metadata.row_group(at).column(column).statistics
        if known is None or not known.has_min_max:
            return True
        first, last = str(known.min), str(known.max)
        return any(first <= service <= last for service in services)

    return [at for at in every if may_have(at)] or every[:1]


def open_row_groups(
    store: ObjectStore, key: str, size: int, services: Collection[str]
) -> pq.ParquetFile | None:
    """Open a file of `size` bytes with the row groups of these services.

    Others must not be read. Returns None if the whole file has to be read: it has no hashes of row groups,
    most of it would be requested, or something is damaged. Raises StoreError.
    """
    tail = store.get_range(key, max(size - TAIL_BYTES, 0), size)
    end = measure_checked_end(tail)
    if len(tail) < end <= size * MAX_SHARE:
        tail = store.get_range(key, size - end, size)
    digests = read_row_group_digests(tail)
    if not digests or len(tail) > size:
        return None
    # Its pages take no memory until something is written to them.
    content = mmap(-1, size)
    content[size - len(tail) :] = tail
    try:
        file = pq.ParquetFile(pa.BufferReader(pa.py_buffer(content)))
        selected = find_row_groups(file, services)
        offsets = {at: locate_row_group(file, at) for at in selected}
    except (pa.ArrowException, OSError, ValueError):
        return None
    if file.num_row_groups != len(digests) or file.metadata.num_rows < MIN_PRUNED_ROWS:
        return None
    if sum(map(len, offsets.values())) > size * MAX_SHARE:
        return None
    for run in _join_neighbours(selected):
        start = offsets[run.start].start
        received = store.get_range(key, start, offsets[run.stop - 1].stop)
        for at in run:
            own = received[offsets[at].start - start : offsets[at].stop - start]
            if not is_row_group_intact(own, digests[at]):
                return None
            content[offsets[at].start : offsets[at].stop] = own
    return file


def _join_neighbours(selected: Sequence[int]) -> Iterator[range]:
    """Yield runs of numbers that follow each other; the numbers ascend."""
    start = 0
    for at in range(1, len(selected) + 1):
        if at == len(selected) or selected[at] != selected[at - 1] + 1:
            yield range(selected[start], selected[at - 1] + 1)
            start = at
