"""Stage 1: sums by (service, stack hash), the only part of a query that grows with what is stored.

    SELECT service, h, period_ns, sum(idle), sum(running), sum(gil)
    FROM samples WHERE wid IN … GROUP BY service, h, period_ns

Samples are kept apart by sampling period until the end, because a sample stands for its period's time. What
was chosen by the hour, or by whole days, was added up when its block was made, and is taken from there.

First it is said what is to be added up (`plan`), and then that is done: here (`added_up`), or by another
engine that reads the same objects (`Stage1`).
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Array, Column, coded, integers, one, same, stacked, words
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.windows import (
    Windows,
)
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import SAMPLES, STATES, Part

ROWS_AT_ONCE: Final = 500_000
LARGE_ROWS: Final = 500_000
"""Samples of a block with more are read anew for each query: they would take the place of all others."""
OBJECTS_AT_ONCE: Final = 256

_KEYS: Final = ("service", "h", "period_ns")
ROWS: Final = pa.schema([SAMPLES.field(name) for name in (*_KEYS, *STATES)])


@dataclass(frozen=True, slots=True)
class Scan:
    """Rows of one object that are to be added up: those with one of `only` in column `by`, or all (None)."""

    ref: SegmentRef
    part: Part
    only: Array | None = None

    @property
    def by(self) -> str:
        """The column that says which windows a row is of."""
        return "wid" if self.part == "samples" else "group"


def sums(reading: Reading, windows: Windows) -> pa.Table:
    """Samples by state of each (service, h, period_ns) over the chosen windows; `service` is words."""
    if reading.stage1 is not None:
        return reading.stage1.sums(reading, windows)
    return added_up(reading, plan(reading, windows))


def plan(reading: Reading, windows: Windows, *, daily: bool = True) -> list[Scan]:
    """What adds up to the samples of the chosen windows, each once; without `daily` by the hour at most."""
    scans: list[Scan] = []
    for ref, rows in windows.by_segment():
        is_hour = one(rows["group"]).is_valid()
        wids = one(rows["wid"]).filter(pc.invert(is_hour))
        if len(wids):
            scans.append(Scan(ref, "samples", None if len(wids) == windows.stored[ref] else wids))
        if len(wids) < len(rows):
            parts = reading.readable(ref)
            parts = parts if daily or "sums" not in parts else parts - {"daily"}
            scans += _summed(ref, rows.filter(is_hour), windows.hours[ref], parts)
    return scans


def _summed(ref: SegmentRef, chosen: pa.Table, hours: pa.Table, parts: Collection[Part]) -> Iterator[Scan]:
    """What adds up to the chosen hours of a block: by the day where all of its hours were chosen."""
    if "daily" in parts:
        of_day, taken = _counts(hours["day"]), _counts(chosen["day"])
        days = [day for day, count in taken.items() if count == of_day[day]]
        if days:
            whole = pa.array(days, pa.int32())
            yield Scan(ref, "daily", None if len(days) == len(of_day) else whole)
            chosen = chosen.filter(pc.invert(pc.is_in(chosen["day"], value_set=whole)))
    if len(chosen):
        groups = pc.unique(one(chosen["group"]))
        yield Scan(ref, "sums", None if len(groups) == pc.count_distinct(hours["group"]).as_py() else groups)


def _counts(column: Column) -> dict[int, int]:
    """How often each number occurs."""
    return Counter(integers(column))


def added_up(reading: Reading, scans: Sequence[Scan]) -> pa.Table:
    """The sums of these rows; in this process, piece by piece, bounded in memory."""
    sums: list[pa.Table] = []
    batch: list[pa.Table] = []
    for scan, table in pieces(reading, scans):
        batch.append(_picked(table, scan))
        if _rows(batch) >= ROWS_AT_ONCE:
            sums.append(combined(batch))
            batch = []
            if _rows(sums) >= ROWS_AT_ONCE:
                sums = [combined(sums)]
    return combined([*sums, *batch]) if sums or batch else ROWS.empty_table()


def _rows(tables: Sequence[pa.Table]) -> int:
    return sum(map(len, tables))


def pieces(reading: Reading, scans: Sequence[Scan]) -> Iterator[tuple[Scan, pa.Table]]:
    """What is to be read, many small objects at a time; large ones in pieces that are not kept in memory."""
    large = [scan for scan in scans if scan.part == "samples" and scan.ref.rows > LARGE_ROWS]
    small = [scan for scan in scans if scan.part != "samples" or scan.ref.rows <= LARGE_ROWS]
    for start in range(0, len(small), OBJECTS_AT_ONCE):
        here = small[start : start + OBJECTS_AT_ONCE]
        tables = reading.parts([(scan.ref, scan.part) for scan in here])
        yield from zip(here, tables, strict=True)
    for scan in large:
        yield from ((scan, table) for table in reading.pieces(scan.ref))


def _picked(table: pa.Table, scan: Scan) -> pa.Table:
    rows = table.select(ROWS.names)
    if scan.only is None:
        return rows
    own = one(table[scan.by])
    if isinstance(own, pa.DictionaryArray):
        return rows.filter(pc.is_in(own.dictionary, value_set=scan.only).take(own.indices))
    return rows.filter(pc.is_in(own, value_set=scan.only))


def combined(tables: list[pa.Table], *, more: Sequence[str] = ()) -> pa.Table:
    """The sums of rows with equal keys; a key that is the same in all rows is not grouped by.

    `more` are further columns of keys, of whole numbers, which come last.
    """
    table = stacked(tables)
    service = words(table["service"])
    plain = table.set_column(0, "service", service.indices)
    keys = ("service", "period_ns", *more)
    varying = [name for name in keys if pc.count_distinct(plain[name]).as_py() > 1]
    added = plain.group_by(["h", *varying]).aggregate([(state, "sum") for state in STATES])

    def key(name: str) -> Array:
        if name in varying or not len(added):
            return one(added[name] if name in varying else plain[name])
        return same(plain[name][0].as_py(), plain.schema.field(name).type, len(added))

    columns = [
        coded(key("service"), service.dictionary),
        one(added["h"]),
        key("period_ns"),
        *(one(added[f"{state}_sum"]) for state in STATES),
    ]
    found = pa.table(columns, schema=ROWS)
    for name in more:
        found = found.append_column(name, key(name))
    return found
