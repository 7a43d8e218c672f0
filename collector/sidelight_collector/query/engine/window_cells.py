"""Stage 1 by cell: a number of each window, such as its place in a matrix."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Array, combine_chunks
from sidelight_collector.query.engine.window_sums import Scan
from sidelight_collector.query.windows import SelectedWindows

_CELL_COLUMN: Final = "cell"


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
        self._cells_by_segment: dict[tuple[int, str], tuple[Array, Array]] = {}

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
        cells = self._cells_by_segment.get((segment, by))
        if cells is None:
            of_segment = pc.equal(self._keys["segment"], pa.scalar(segment, pa.int32()))
            rows = self._keys.filter(of_segment)
            is_hour = combine_chunks(rows["group"]).is_valid()
            rows = rows.filter(pc.invert(is_hour) if by == "wid" else is_hour)
            firsts = rows.group_by(by, use_threads=False).aggregate([(_CELL_COLUMN, "min")])
            cells = self._cells_by_segment[segment, by] = (
                combine_chunks(firsts[by]),
                combine_chunks(firsts[f"{_CELL_COLUMN}_min"]),
            )
        return cells


def _filter_cells(keys: Array, cells: Array, selected_keys: Array) -> tuple[Array, Array]:
    has = pc.is_in(keys, value_set=selected_keys)
    return keys.filter(has), cells.filter(has)
