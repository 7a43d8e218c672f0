"""Stage 1: sums by (service, stack hash), the only part of a query that grows with what is stored.

    SELECT service, h, period_ns, sum(idle), sum(running), sum(gil)
    FROM samples WHERE wid IN … GROUP BY service, h, period_ns

Samples are kept apart by sampling period until the end, because a sample stands for its period's time. Of a
block that has sums, the groups of which all windows were chosen are not added up again.
"""

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import Array, coded, one, same, stacked, words
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.windows import Windows
from sidelight.collector.store.tables import SAMPLES, STATES, groups

ROWS_AT_ONCE: Final = 2_000_000
SEGMENTS_AT_ONCE: Final = 256

_KEYS: Final = ("service", "h", "period_ns")
_NONE: Final = pa.array([], pa.string())
_ROWS: Final = pa.schema([SAMPLES.field(name) for name in (*_KEYS, *STATES)])


def sums(reading: Reading, windows: Windows) -> pa.Table:
    """Samples by state of each (service, h, period_ns) over the chosen windows; `service` is words."""
    parts: list[pa.Table] = []
    batch: list[pa.Table] = []
    rows = 0
    for table in _tables(reading, windows):
        batch.append(table)
        rows += len(table)
        if rows >= ROWS_AT_ONCE:
            parts.append(_added(batch))
            batch, rows = [], 0
    return _added([*parts, *batch]) if parts or batch else _ROWS.empty_table()


def _tables(reading: Reading, windows: Windows) -> Iterator[pa.Table]:
    """Rows that add up to the samples of the chosen windows."""
    chosen = list(windows.by_segment())
    for start in range(0, len(chosen), SEGMENTS_AT_ONCE):
        here = chosen[start : start + SEGMENTS_AT_ONCE]
        plain = [(ref, wids) for ref, wids in here if not ref.sums]
        summed = [(ref, wids) for ref, wids in here if ref.sums]
        refs = [ref for ref, _ in summed]
        profiles = reading.tables(refs, "profiles")
        for (ref, wids), table, of in zip(summed, reading.tables(refs, "sums"), profiles, strict=True):
            whole, rest = _whole(table, of, wids)
            yield whole.select(_ROWS.names)
            if len(rest):
                plain.append((ref, rest))
        for (_, wids), table in zip(plain, reading.tables([ref for ref, _ in plain], "samples"), strict=True):
            yield _picked(table, wids)


def _whole(sums: pa.Table, profiles: pa.Table, wids: Array | None) -> tuple[pa.Table, Array]:
    """The sums of those groups of which all windows were chosen, and the chosen windows of the others."""
    if wids is None:
        return sums, _NONE
    group, own = groups(profiles), one(profiles["wid"])
    chosen = pc.is_in(own, value_set=wids)
    partly = pc.unique(group.filter(pc.invert(chosen)))
    rest = own.filter(pc.and_(chosen, pc.is_in(group, value_set=partly)))
    return sums.filter(pc.invert(pc.is_in(sums["group"], value_set=partly))), rest


def _picked(samples: pa.Table, wids: Array | None) -> pa.Table:
    rows = samples.select(_ROWS.names)
    if wids is None:
        return rows
    own = words(samples["wid"])
    return rows.filter(pc.is_in(own.dictionary, value_set=wids).take(own.indices))


def _added(tables: list[pa.Table]) -> pa.Table:
    """The sums of rows with equal keys; a key that is the same in all rows is not grouped by."""
    table = stacked(tables)
    service = words(table["service"])
    plain = table.set_column(0, "service", service.indices)
    varying = [name for name in ("service", "period_ns") if pc.count_distinct(plain[name]).as_py() > 1]
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
    return pa.table(columns, schema=_ROWS)
