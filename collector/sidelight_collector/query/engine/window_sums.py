"""Stage 1: sums by (service, stack hash), the only part of a query that grows with what is stored.

    SELECT service, h, period_ns, sum(idle), sum(running), sum(gil)
    FROM samples WHERE wid IN … GROUP BY service, h, period_ns

Samples are kept apart by sampling period until the end, because a sample stands for its period's time. What
was chosen by the hour, or by whole days, was added up when its block was made, and is taken from there.

First it is said what is to be added up (`plan_scans`), and then that is done: here (`run_scans`), or by
another engine that reads the same objects (`Stage1`).
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
    concat_tables,
    dictionary_encode,
    repeat_value,
    to_ints,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.windows import (
    SelectedWindows,
)
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import SAMPLES, STATES, SegmentPart

MAX_BATCH_ROWS: Final = 500_000
MAX_CACHED_ROWS: Final = 500_000
"""Samples of a block with more are read anew for each query: they would take the place of all others."""
MAX_BATCH_OBJECTS: Final = 256

_KEY_COLUMNS: Final = ("service", "h", "period_ns")
SUM_SCHEMA: Final = pa.schema([SAMPLES.field(name) for name in (*_KEY_COLUMNS, *STATES)])


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of one object that are to be added up: those with one of `keys` in column `key_column`, or all
    (None).
    """

    ref: SegmentRef
    part: SegmentPart
    keys: Array | None = None

    @property
    def key_column(self) -> str:
        """The column that says which windows a row is of."""
        return "wid" if self.part == "samples" else "group"


def sum_stacks(context: QueryContext, windows: SelectedWindows) -> pa.Table:
    """Samples by state of each (service, h, period_ns) over the chosen windows; `service` is words."""
    if context.stage1 is not None:
        return context.stage1.sum_stacks(context, windows)
    return run_scans(context, plan_scans(context, windows))


def plan_scans(context: QueryContext, windows: SelectedWindows, *, use_days: bool = True) -> list[Scan]:
    """What adds up to the samples of the chosen windows, each once; without `use_days` by the hour at
    most.
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
    ref: SegmentRef, chosen: pa.Table, hours: pa.Table, parts: Collection[SegmentPart]
) -> Iterator[Scan]:
    """What adds up to the chosen hours of a block: by the day where all of its hours were chosen."""
    if "daily" in parts:
        of_day, chosen_counts = _count_values(hours["day"]), _count_values(chosen["day"])
        days = [day for day, count in chosen_counts.items() if count == of_day[day]]
        if days:
            whole = pa.array(days, pa.int32())
            yield Scan(ref, "daily", None if len(days) == len(of_day) else whole)
            chosen = chosen.filter(pc.invert(pc.is_in(chosen["day"], value_set=whole)))
    if len(chosen):
        groups = pc.unique(combine_chunks(chosen["group"]))
        yield Scan(ref, "sums", None if len(groups) == pc.count_distinct(hours["group"]).as_py() else groups)


def _count_values(column: Column) -> dict[int, int]:
    """How often each number occurs."""
    return Counter(to_ints(column))


def run_scans(context: QueryContext, scans: Sequence[Scan]) -> pa.Table:
    """The sums of these rows; in this process, piece by piece, bounded in memory."""
    sums: list[pa.Table] = []
    batch: list[pa.Table] = []
    for scan, table in read_scans(context, scans):
        batch.append(_select_scan_rows(table, scan))
        if _count_rows(batch) >= MAX_BATCH_ROWS:
            sums.append(merge_sums(batch))
            batch = []
            if _count_rows(sums) >= MAX_BATCH_ROWS:
                sums = [merge_sums(sums)]
    return merge_sums([*sums, *batch]) if sums or batch else SUM_SCHEMA.empty_table()


def _count_rows(tables: Sequence[pa.Table]) -> int:
    return sum(map(len, tables))


def read_scans(context: QueryContext, scans: Sequence[Scan]) -> Iterator[tuple[Scan, pa.Table]]:
    """What is to be read, many small objects at a time; large ones in pieces that are not kept in memory."""
    large = [scan for scan in scans if scan.part == "samples" and scan.ref.rows > MAX_CACHED_ROWS]
    small = [scan for scan in scans if scan.part != "samples" or scan.ref.rows <= MAX_CACHED_ROWS]
    for start in range(0, len(small), MAX_BATCH_OBJECTS):
        here = small[start : start + MAX_BATCH_OBJECTS]
        tables = context.read_views([(scan.ref, scan.part) for scan in here])
        yield from zip(here, tables, strict=True)
    for scan in large:
        yield from ((scan, table) for table in context.iter_samples(scan.ref))


def _select_scan_rows(table: pa.Table, scan: Scan) -> pa.Table:
    rows = table.select(SUM_SCHEMA.names)
    if scan.keys is None:
        return rows
    own = combine_chunks(table[scan.key_column])
    if isinstance(own, pa.DictionaryArray):
        return rows.filter(pc.is_in(own.dictionary, value_set=scan.keys).take(own.indices))
    return rows.filter(pc.is_in(own, value_set=scan.keys))


def merge_sums(tables: list[pa.Table], *, extra_keys: Sequence[str] = ()) -> pa.Table:
    """The sums of rows with equal keys; a key that is the same in all rows is not grouped by.

    `extra_keys` are further columns of keys, of whole numbers, which come last.
    """
    table = concat_tables(tables)
    service = dictionary_encode(table["service"])
    plain = table.set_column(0, "service", service.indices)
    keys = ("service", "period_ns", *extra_keys)
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
    found = pa.table(columns, schema=SUM_SCHEMA)
    for name in extra_keys:
        found = found.append_column(name, key(name))
    return found
