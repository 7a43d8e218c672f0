"""Segments, which hold acknowledged windows until compaction merges them.

A segment holds windows that began on one day (UTC, event time), as three objects. Their key prefix has the
start of the first and of the last window (Unix milliseconds), and a hash of the content:

    v1/l0/2026-11-21/1795252800000-1795252859000-0123456789abcdef/{profiles,stacks,samples}.parquet

Ingest writes `samples` last, and only if it is absent. This object commits the segment: without it, the
other two do not count. Equal windows give equal keys, so a repeated write after a lost response changes
nothing.
"""

from __future__ import annotations

import io
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

from sidelight_collector.arrow_ops import repeat_value
from sidelight_collector.stack_hashing import HashedWindow, hash_window
from sidelight_collector.storage.checksum import add_checksum, is_intact
from sidelight_collector.storage.objects import ObjectDamaged, ObjectExists, ObjectStore, put_all
from sidelight_collector.storage.row_groups import (
    MIN_FILE_BYTES,
    MIN_PRUNED_ROWS,
    find_row_groups,
    locate_row_group,
    open_row_groups,
)
from sidelight_collector.storage.tables import (
    HOUR_NS,
    SCHEMAS,
    SEGMENT_PARTS,
    SegmentPart,
    add_missing_columns,
    build_hashed_segment_tables,
    filter_services,
)
from sidelight_model.counts import STATES
from sidelight_model.window import Window

ROOT: Final = "v1/l0/"
ROWS_PER_GROUP: Final = 1 << 19
"""The most rows of a row group."""
SHARED_ROWS_PER_GROUP: Final = 1 << 15
"""The same for tables of several services, of which a query of one decodes few row groups."""
ROWS_PER_PIECE: Final = 1 << 17
"""The most rows of `samples` that are decoded at once.

Row groups of this size would be a third larger.
"""
ZSTD_LEVEL: Final = 3
MAX_SNAPPY_ROWS: Final = 1 << 10
"""Rows up to which a table is compressed with Snappy: it is read in half the time for some 5 % more bytes."""
MIN_ZERO_ROWS: Final = 1 << 16
"""Rows from which on columns of states without samples are not decoded."""

_LAST_NS: Final = 9_999_999_999_999 * 10**6  # 13 digits of milliseconds end in the year 2286
_COMMIT_KEY_PATTERN: Final = re.compile(
    r"v1/l0/(?P<day>\d{4}-\d\d-\d\d)/(?P<first>\d{13})-(?P<last>\d{13})-(?P<name>[0-9a-f]{16})/samples\.parquet"
)


@dataclass(frozen=True, slots=True, order=True)
class SegmentRef:
    """A committed segment or block.

    `key_prefix` ends with `/`. The windows began between `min_start_ms` and `max_start_ms`, both inclusive
    Unix milliseconds. `parts` are its tables: a block may have more than a segment, or fewer when it is
    old. `rows` is the number of rows in `samples` of a block; 0 if unknown. `has_stray_ids`
    is whether a block has any, `id_span_ms` the first and last time in its ids (Unix milliseconds), None if
    unknown; see `window_ids`. `services` are those of a block; empty if unknown.
    `covered` has the key prefixes of the blocks that a rollup sums; empty for segments and blocks.
    `sizes` has the bytes of the tables of a block; empty if unknown.
    """

    key_prefix: str
    min_start_ms: int
    max_start_ms: int
    parts: frozenset[SegmentPart] = frozenset(SEGMENT_PARTS)
    rows: int = field(default=0, compare=False)
    has_stray_ids: bool = field(default=False, compare=False)
    id_span_ms: tuple[int, int] | None = field(default=None, compare=False)
    services: tuple[str, ...] = field(default=(), compare=False)
    covered: frozenset[str] = field(default=frozenset(), compare=False)
    sizes: Mapping[SegmentPart, int] = field(default_factory=dict, compare=False)

    def key(self, part: SegmentPart) -> str:
        """Return the key of one of its tables."""
        return f"{self.key_prefix}{part}.parquet"

    @property
    def is_segment(self) -> bool:
        """Whether this is a segment, which counts without a manifest."""
        return self.key_prefix.startswith(ROOT)

    @property
    def day(self) -> date:
        """The day of its windows."""
        return event_day(self.min_start_ms // 1000 * 10**9)

    @property
    def is_raw(self) -> bool:
        """Whether its windows are stored individually."""
        return self.parts.issuperset(SEGMENT_PARTS)

    def list_hour_starts(self) -> range:
        """List the starts (Unix ns) of the hours in which its windows may begin."""
        return range(self.min_start_ms * 10**6 // HOUR_NS * HOUR_NS, self.max_start_ms * 10**6 + 1, HOUR_NS)


def event_day(start_ns: int) -> date:
    """Return the day (UTC) that a window belongs to: the day of its start."""
    return datetime.fromtimestamp(start_ns // 10**9, UTC).date()


def write_segment(store: ObjectStore, windows: Iterable[Window]) -> SegmentRef:
    """Write windows of one day as one segment.

    The windows are durable and may be acknowledged once this returns. Raises ValueError unless there is at
    least one window, all began on the same day, and their ids are distinct. Raises StoreError.
    """
    return write_hashed_segment(store, [hash_window(window) for window in windows])


def write_hashed_segment(store: ObjectStore, windows: Sequence[HashedWindow]) -> SegmentRef:
    """Write hashed windows as one segment, as `write_segment` does."""
    ref = build_segment_ref(windows)
    tables = build_hashed_segment_tables(windows)
    contents = {ref.key(part): encode_parquet(tables.get_part(part)) for part in SEGMENT_PARTS}
    # The key has a hash of the content: if it exists, an earlier attempt whose response was lost wrote it.
    with suppress(ObjectExists):
        put_all(store, contents, last_if_absent=True)
    return ref


def build_segment_ref(windows: Sequence[HashedWindow]) -> SegmentRef:
    """Build the reference to the segment that holds exactly these windows.

    Raises ValueError unless all of them began on the same day.
    """
    days = {event_day(row.window.start_ns) for row in windows}
    if len(days) != 1:
        raise ValueError(f"a segment holds windows of one day, not of {len(days)}")
    starts = [row.window.start_ns // 10**6 for row in windows]
    name = compute_segment_name((row.window.id, row.digest) for row in windows)
    prefix = f"{ROOT}{days.pop().isoformat()}/{min(starts):013d}-{max(starts):013d}-{name}/"
    return SegmentRef(prefix, min(starts), max(starts))


def compute_segment_name(windows: Iterable[tuple[str, int]]) -> str:
    """Compute the name of a segment from (id, digest) of its windows, in any order."""
    content = "".join(sorted(f"{window_id} {digest:016x}\n" for window_id, digest in windows))
    return xxhash.xxh3_64_hexdigest(content.encode())


def parse_segment_key(key: str) -> SegmentRef | None:
    """Return the segment that the object with this key commits, or None."""
    match = _COMMIT_KEY_PATTERN.fullmatch(key)
    if match is None:
        return None
    return SegmentRef(key.removesuffix("samples.parquet"), int(match["first"]), int(match["last"]))


def list_segments(store: ObjectStore, from_ns: int, until_ns: int) -> list[SegmentRef]:
    """List committed segments that may hold windows of a range, in order of key.

    The range is `from_ns` <= start < `until_ns` (Unix ns). If two of them have the same window, the first
    counts.
    """
    if until_ns <= from_ns:
        return []
    segments = list_segments_of_days(store, *days_of(from_ns, until_ns))
    return [
        ref
        for ref in segments
        if ref.min_start_ms * 10**6 < until_ns and (ref.max_start_ms + 1) * 10**6 > from_ns
    ]


def days_of(from_ns: int, until_ns: int) -> tuple[date, date]:
    """Return the first and the last day of a range that is not empty."""
    return event_day(max(from_ns, 0)), event_day(min(until_ns, _LAST_NS) - 1)


def list_segments_of_days(store: ObjectStore, first: date, last: date) -> list[SegmentRef]:
    """List the committed segments of these days, in order of key."""
    segments: list[SegmentRef] = []
    beyond_key = f"{ROOT}{last.isoformat()}0"  # "0" follows "/"
    for entry in store.list(ROOT, start_after=f"{ROOT}{first.isoformat()}/"):
        if entry.key >= beyond_key:
            break
        if ref := parse_segment_key(entry.key):
            segments.append(ref)
    return segments


def list_days(store: ObjectStore, root: str = ROOT) -> Iterator[date]:
    """Iterate over the days that have objects below `root`, in order.

    By default these are the days of segments, incomplete ones included.
    """
    after = ""
    while entry := next(iter(store.list(root, start_after=after)), None):
        folder = entry.key[: entry.key.find("/", len(root)) + 1]
        with suppress(ValueError):
            yield date.fromisoformat(folder[len(root) : -1])
        after = f"{folder.removesuffix('/')}0" if folder else entry.key  # "0" follows "/"


def read_segment(
    store: ObjectStore, ref: SegmentRef, part: SegmentPart, columns: Sequence[str] | None = None
) -> pa.Table:
    """Read one table of a segment or block, or some of its columns.

    Optional columns that it was written without are added with default values. Raises ObjectMissing if
    retention or compaction has deleted it, and ObjectDamaged.
    """
    return read_service_rows(store, ref, part, columns, None)[0]


def read_service_rows(
    store: ObjectStore,
    ref: SegmentRef,
    part: SegmentPart,
    columns: Sequence[str] | None,
    services: Collection[str] | None,
) -> tuple[pa.Table, bool]:
    """Read a table as `read_segment` does, or its rows of some services.

    Returns also whether these are all rows. A table of fewer than MIN_PRUNED_ROWS rows is read whole.
    `columns` has `service`.
    """
    key = ref.key(part)
    file = _open_part(store, ref, part, services)
    rows = file.metadata.num_rows
    # One row group at a time: each has its own dictionaries, and Arrow cannot read lists of dictionary
    # values across several.
    pieces = list(_read_pieces(file, key, part, columns, services if rows >= MIN_PRUNED_ROWS else None))
    table = pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces)
    return table, len(table) == rows


def read_row_groups(
    store: ObjectStore,
    ref: SegmentRef,
    part: SegmentPart,
    columns: Sequence[str] | None = None,
    services: Collection[str] | None = None,
) -> Iterator[pa.Table]:
    """Read a table as `read_segment` does, in pieces.

    Those of `samples` have at most ROWS_PER_PIECE rows. Yields at least one piece, with the rows of
    `services` if they are given. Damage that no checksum detects may raise ObjectDamaged after some pieces.
    """
    key = ref.key(part)
    max_rows = ROWS_PER_PIECE if part == "samples" else None
    file = _open_part(store, ref, part, services)
    yield from _read_pieces(file, key, part, columns, services, max_rows)


def _open_part(
    store: ObjectStore, ref: SegmentRef, part: SegmentPart, services: Collection[str] | None
) -> pq.ParquetFile:
    """Open a table of which only rows of `services` are read, or all (None)."""
    key, size = ref.key(part), ref.sizes.get(part, 0)
    if services is not None and size >= MIN_FILE_BYTES and len(ref.services) > len(services):
        file = open_row_groups(store, key, size, services)
        if file is not None:
            return file
    try:
        return _open_parquet(store.get(key), key)
    except ObjectDamaged:
        return _open_parquet(store.get(key), key)  # the damage may have happened in transit


def _read_pieces(
    file: pq.ParquetFile,
    key: str,
    part: SegmentPart,
    columns: Sequence[str] | None,
    services: Collection[str] | None,
    max_rows: int | None = None,
) -> Iterator[pa.Table]:
    names = SCHEMAS[part].names if columns is None else list(columns)
    try:
        if file.num_row_groups <= 1 and file.metadata.num_rows < MIN_ZERO_ROWS:
            pieces: Iterable[pa.Table] = (file.read(columns=names, use_threads=False),)
        else:
            groups = find_row_groups(file, services)
            pieces = (piece for at in groups for piece in _read_row_group(file, at, names, max_rows))
        for piece in pieces:
            table = _require_columns(piece, names, key)
            yield table if services is None else filter_services(table, services)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ObjectDamaged(key, str(error)) from error


def _read_row_group(
    file: pq.ParquetFile, at: int, names: Sequence[str], max_rows: int | None
) -> Iterator[pa.Table]:
    """Read a row group; columns of states that are 0 in all rows share one array."""
    group = file.metadata.row_group(at)
    columns = [group.column(place) for place in range(group.num_columns)]
    zeros = {
        column.path_in_schema
        for column in columns
        if column.path_in_schema in STATES
        and (known := column.statistics)
        and known.has_min_max
        and known.min == known.max == 0
        and known.null_count == 0
    }.intersection(names)
    decoded = [name for name in names if name not in zeros]
    if max_rows is None or group.num_rows <= max_rows:
        pieces: Iterable[pa.Table] = (file.read_row_group(at, decoded, use_threads=False),)
    else:
        batches = file.iter_batches(max_rows, [at], decoded, use_threads=False)
        pieces = (pa.Table.from_batches([batch]) for batch in batches)
    for table in pieces:
        shared = repeat_value(0, pa.int64(), len(table))
        for name in zeros:
            table = table.append_column(name, shared)
        stored = frozenset(table.column_names)
        yield table.select([name for name in names if name in stored])


def _open_parquet(content: bytes, key: str) -> pq.ParquetFile:
    if not is_intact(content):
        raise ObjectDamaged(key, "its checksum is that of other bytes")
    try:
        # ParquetFile opens a file in half the time of read_table, which dominates for small segments.
        return pq.ParquetFile(pa.BufferReader(content))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ObjectDamaged(key, str(error)) from error


def _require_columns(table: pa.Table, names: list[str], key: str) -> pa.Table:
    completed = add_missing_columns(table, names)
    stored = frozenset(completed.column_names)
    absent = [name for name in names if name not in stored]
    if absent:
        raise ObjectDamaged(key, f"it has no column {', '.join(absent)}")
    return completed


def _has_one_service(table: pa.Table) -> bool:
    if "service" not in table.column_names or not len(table):
        return True
    service = table["service"]
    return bool(service[0].as_py() == service[-1].as_py())  # tables are sorted by service


def encode_parquet(table: pa.Table) -> bytes:
    """Encode a table as a Parquet file with a checksum; equal tables give equal bytes.

    No query uses statistics of lists; those of frames would take half of the time.
    """
    flat = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    is_small = len(table) <= MAX_SNAPPY_ROWS
    rows_per_group = ROWS_PER_GROUP if _has_one_service(table) else SHARED_ROWS_PER_GROUP
    sink = io.BytesIO()
    pq.write_table(
        table,
        sink,
        row_group_size=rows_per_group,
        compression="snappy" if is_small else "zstd",
        compression_level=None if is_small else ZSTD_LEVEL,
        write_statistics=flat,
    )
    content = sink.getvalue()
    if len(table) <= rows_per_group or len(content) < MIN_FILE_BYTES:
        return add_checksum(content)
    file = pq.ParquetFile(pa.BufferReader(content))
    return add_checksum(content, [locate_row_group(file, at) for at in range(file.num_row_groups)])
