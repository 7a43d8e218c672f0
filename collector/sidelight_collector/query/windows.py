"""Values: a query for windows, and the windows that it selects."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from sidelight_collector.arrow_ops import sort_table, to_ints
from sidelight_collector.storage.segments import SegmentRef
from sidelight_model.selectors import Selector


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """A query for windows by labels and by start time (Unix ns, `until_ns` excluded).

    With `by_window` it reads single windows even where there are rollups.
    """

    selector: Selector
    from_ns: int
    until_ns: int
    by_window: bool = False


@dataclass(frozen=True, slots=True)
class SelectedWindows:
    """Selected windows, as single windows or as hourly rows.

    table: rows of WINDOW_ROW_SCHEMA with a column `segment`, an index into `segments`. process_windows: all
    windows of the same processes, whatever threads the query selects. segment_window_counts: the number of
    all windows of each segment from which single windows were read. block_hours: all hourly rows of each
    block from which hourly rows were read. unresolved_windows: the number of matching windows that are
    missing here, because the store has them only summed together with windows that do not match.
    """

    table: pa.Table
    process_windows: pa.Table
    segments: Sequence[SegmentRef]
    segment_window_counts: Mapping[SegmentRef, int]
    block_hours: Mapping[SegmentRef, pa.Table]
    unresolved_windows: int = 0

    def resolution_of(self, ref: SegmentRef) -> str:
        """Return the resolution of a block's rollups: `hour`, or `day` if none is finer."""
        return "hour" if ref not in self.block_hours or {"sums", "profiles"} & ref.parts else "day"

    def iter_segments(self) -> Iterator[tuple[SegmentRef, pa.Table]]:
        """Yield each segment with selected windows, and a table of their keys.

        The table has the columns `wid`, `group` and `day`.
        """
        rows = sort_table(self.table.select(["segment", "wid", "group", "day"]), ["segment"])
        start = 0
        for at, run in groupby(to_ints(rows["segment"])):
            length = sum(1 for _ in run)
            yield self.segments[at], rows.slice(start, length)
            start += length
