"""Stage 1 by cell: a number of each window, such as its place in a matrix."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import I64, Array, combine_chunks, to_int64_numpy
from sidelight_collector.query.engine.window_sums import (
    MAX_BATCH_ROWS,
    SUM_SCHEMA,
    Scan,
    merge_sums,
    plan_scans,
    read_scans,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.windows import SelectedWindows

_CELL_COLUMN: Final = "cell"


def sum_window_cells(
    context: QueryContext, windows: SelectedWindows, cells: Array, *, use_days: bool
) -> pa.Table:
    """Sum the samples by state of each (service, h, period_ns) in each `cell`.

    `cells` has the cell (int32) of each row of the windows' table. A key may occur more than once.
    """
    parts: list[pa.Table] = []
    rows = 0
    lookup = CellLookup(windows, cells)
    scans = plan_scans(context, windows, use_days=use_days)
    for scan, table in read_scans(context, scans, windows.services):
        cell = lookup.find_cells(scan, table)
        keyed = table.select(SUM_SCHEMA.names).append_column(_CELL_COLUMN, cell)
        parts.append(keyed.filter(cell.is_valid()) if cell.null_count else keyed)
        rows += len(parts[-1])
        if rows >= MAX_BATCH_ROWS:
            parts = [merge_sums(parts, extra_keys=[_CELL_COLUMN])]
            rows = len(parts[0])
            context.deadline.remaining()
    if not parts:
        return SUM_SCHEMA.empty_table().append_column(_CELL_COLUMN, pa.array([], pa.int32()))
    # In chunks: most columns are of states that are only added up.
    return pa.concat_tables(parts).unify_dictionaries()


class CellLookup:
    """Finds the cell of rows of samples by the key of their windows.

    `cells` has the cell of each row of the windows' table. Rows whose stacks are stored summed together have
    the least of their cells.
    """

    def __init__(self, windows: SelectedWindows, cells: Array) -> None:
        self._keys = windows.table.select(["segment", "wid", "group", "day"]).append_column(
            _CELL_COLUMN, cells
        )
        self._segment_indexes = {ref: at for at, ref in enumerate(windows.segments)}
        self._tables: dict[str, tuple[I64, Array, Array]] = {}

    def find_cells(self, scan: Scan, table: pa.Table) -> Array:
        """Return the cell of each row, null if its window is not selected."""
        by = {"samples": "wid", "sums": "group", "daily": "day"}[scan.part]
        keys, cells = self._segment_cells(self._segment_indexes[scan.ref], by)
        own = combine_chunks(table[scan.key_column])
        if scan.keys is not None:
            keys, cells = _filter_cells(keys, cells, scan.keys)
        if isinstance(own, pa.DictionaryArray):
            return cells.take(pc.index_in(own.dictionary, value_set=keys)).take(own.indices)
        return cells.take(pc.index_in(own, value_set=keys))

    def _segment_cells(self, segment: int, by: str) -> tuple[Array, Array]:
        """Return the distinct keys of a segment and the cell of each."""
        if by not in self._tables:
            is_hour = combine_chunks(self._keys["group"]).is_valid()
            rows = self._keys.filter(pc.invert(is_hour) if by == "wid" else is_hour)
            firsts = rows.group_by(["segment", by], use_threads=False).aggregate([(_CELL_COLUMN, "min")])
            segments = to_int64_numpy(firsts["segment"])
            order = np.argsort(segments, kind="stable")
            keys, cells = (combine_chunks(firsts[name]).take(order) for name in (by, f"{_CELL_COLUMN}_min"))
            self._tables[by] = segments[order], keys, cells
        segments, keys, cells = self._tables[by]
        first, end = np.searchsorted(segments, (segment, segment + 1)).tolist()
        return keys.slice(first, end - first), cells.slice(first, end - first)


def _filter_cells(keys: Array, cells: Array, selected_keys: Array) -> tuple[Array, Array]:
    has = pc.is_in(keys, value_set=selected_keys)
    return keys.filter(has), cells.filter(has)
