"""Stage 1: sum samples by service and stack hash.

This is the only part of a query whose cost grows with the stored data.

    SELECT service, h, period_ns, sum(idle), sum(running), sum(gil)
    FROM samples WHERE wid IN … GROUP BY service, h, period_ns

Sums are separate for each sampling period, because a sample stands for the time of its period. For windows
that are selected by whole hours or days, the sums come from the rollups of their block.

`plan_scans` decides which rows to sum. `run_scans` sums them in this process; a `Stage1` sums them in an
external engine that reads the same objects.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    Column,
    build_dictionary_array,
    combine_chunks,
    dictionary_encode,
    repeat_value,
    to_ints,
)
from sidelight_collector.query.query_context import MAX_CACHED_ROWS, QueryContext
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import SAMPLES, SegmentPart
from sidelight_model.counts import STATES

MAX_BATCH_ROWS: Final = 200_000
MAX_BATCH_OBJECTS: Final = 256

_KEY_COLUMNS: Final = ("service", "h", "period_ns")
SUM_SCHEMA: Final = pa.schema([SAMPLES.field(name) for name in (*_KEY_COLUMNS, *STATES)])


@dataclass(frozen=True, slots=True)
class Scan:
    """The rows of one object to sum: those with a key in `keys`, or all (None)."""

    ref: SegmentRef
    part: SegmentPart
    keys: Array | None = None

    @property
    def key_column(self) -> str:
        """The column that identifies the windows of a row."""
        return "wid" if self.part == "samples" else "group"


def sum_stacks(context: QueryContext, windows: SelectedWindows) -> pa.Table:
    """Sum the samples of the selected windows by (service, h, period_ns) and state.

    Returns a table of SUM_SCHEMA.
    """
    if context.stage1 is not None:
        return context.stage1.sum_stacks(context, windows)
    return run_scans(context, plan_scans(context, windows), windows.services)


def plan_scans(context: QueryContext, windows: SelectedWindows, *, use_days: bool = True) -> list[Scan]:
    """Plan the scans that together sum each sample of the selected windows once.

    Without `use_days` no scan reads daily sums, unless the block has no finer ones.
    """
    scans: list[Scan] = []
    for ref, rows in windows.iter_segments():
        is_hour = combine_chunks(rows["group"]).is_valid()
        wids = combine_chunks(rows["wid"]).filter(pc.invert(is_hour))
        if len(wids):
            scans.append(
                Scan(ref, "samples", None if len(wids) == windows.segment_window_counts[ref] else wids)
            )
        if len(wids) < len(rows):
            parts = context.readable_parts(ref)
            parts = parts if use_days or "sums" not in parts else parts - {"daily"}
            scans += _plan_block_scans(ref, rows.filter(is_hour), windows.block_hours[ref], parts)
    return scans


def _plan_block_scans(
    ref: SegmentRef, selected: pa.Table, hours: pa.Table, parts: Collection[SegmentPart]
) -> Iterator[Scan]:
    """Plan the scans of the selected hours of a block; complete days use daily sums."""
    if "daily" in parts:
        hour_counts, selected_counts = _count_values(hours["day"]), _count_values(selected["day"])
        days = [day for day, count in selected_counts.items() if count == hour_counts[day]]
        if days:
            whole_days = pa.array(days, pa.int32())
            yield Scan(ref, "daily", None if len(days) == len(hour_counts) else whole_days)
            selected = selected.filter(pc.invert(pc.is_in(selected["day"], value_set=whole_days)))
    if len(selected):
        groups = pc.unique(combine_chunks(selected["group"]))
        yield Scan(ref, "sums", None if len(groups) == pc.count_distinct(hours["group"]).as_py() else groups)


def _count_values(column: Column) -> dict[int, int]:
    """Count the occurrences of each number."""
    return Counter(to_ints(column))


def run_scans(context: QueryContext, scans: Sequence[Scan], services: Collection[str]) -> pa.Table:
    """Sum the rows of these scans in this process, in batches of bounded memory.

    `services` are those of the selected windows.
    """
    sums: list[pa.Table] = []
    batch: list[pa.Table] = []
    for scan, table in read_scans(context, scans, services):
        batch.append(_select_scan_rows(table, scan))
        if _count_rows(batch) >= MAX_BATCH_ROWS:
            sums.append(merge_sums(batch))
            batch = []
            if _count_rows(sums) >= MAX_BATCH_ROWS:
                sums = [merge_sums(sums)]
    return merge_sums([*sums, *batch]) if sums or batch else SUM_SCHEMA.empty_table()


def _count_rows(tables: Sequence[pa.Table]) -> int:
    return sum(map(len, tables))


def read_scans(
    context: QueryContext, scans: Sequence[Scan], services: Collection[str]
) -> Iterator[tuple[Scan, pa.Table]]:
    """Read the tables of these scans: small ones in batches, large ones in pieces.

    They have at least the rows of `services`.
    """
    large = [scan for scan in scans if scan.part == "samples" and scan.ref.rows > MAX_CACHED_ROWS]
    small = [scan for scan in scans if scan.part != "samples" or scan.ref.rows <= MAX_CACHED_ROWS]
    for start in range(0, len(small), MAX_BATCH_OBJECTS):
        batch = small[start : start + MAX_BATCH_OBJECTS]
        tables = context.read_views([(scan.ref, scan.part) for scan in batch], services)
        yield from zip(batch, tables, strict=True)
    for scan in large:
        yield from ((scan, table) for table in context.iter_samples(scan.ref, services))
        pa.default_memory_pool().release_unused()


def _select_scan_rows(table: pa.Table, scan: Scan) -> pa.Table:
    rows = table.select(SUM_SCHEMA.names)
    if scan.keys is None:
        return rows
    own = combine_chunks(table[scan.key_column])
    if isinstance(own, pa.DictionaryArray):
        return rows.filter(pc.is_in(own.dictionary, value_set=scan.keys).take(own.indices))
    return rows.filter(pc.is_in(own, value_set=scan.keys))


def merge_sums(tables: list[pa.Table], *, extra_keys: Sequence[str] = ()) -> pa.Table:
    """Sum the rows of tables of sums that have equal keys.

    `extra_keys` name further key columns of integers, which come last in the result.
    """
    table = pa.concat_tables(tables).unify_dictionaries()  # in chunks, not copied
    service = dictionary_encode(table["service"])
    plain = table.set_column(0, "service", service.indices)
    keys = ("service", "period_ns", *extra_keys)
    # Grouping by fewer columns is faster: leave out those with a single value.
    varying = [name for name in keys if pc.count_distinct(plain[name]).as_py() > 1]
    added = plain.group_by(["h", *varying]).aggregate([(state, "sum") for state in STATES])

    def key(name: str) -> Array:
        if name in varying or not len(added):
            return combine_chunks(added[name] if name in varying else plain[name])
        return repeat_value(plain[name][0].as_py(), plain.schema.field(name).type, len(added))

    columns = [
        build_dictionary_array(key("service"), service.dictionary),
        combine_chunks(added["h"]),
        key("period_ns"),
        *(combine_chunks(added[f"{state}_sum"]) for state in STATES),
    ]
    sums = pa.table(columns, schema=SUM_SCHEMA)
    for name in extra_keys:
        sums = sums.append_column(name, key(name))
    return sums
