"""Which windows a query asks for, and those that were chosen: values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from sidelight_collector.arrow_ops import sort_table, to_ints
from sidelight_collector.storage.segments import SegmentRef
from sidelight_model.selectors import Selector


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """One side of a query: which windows, by labels and by when they began (Unix ns, until excluded).

    With `by_window` answers are made of windows one by one even where they were added up.
    """

    selector: Selector
    from_ns: int
    until_ns: int
    by_window: bool = False


@dataclass(frozen=True, slots=True)
class SelectedWindows:
    """Chosen windows, one by one or by the hour: rows of ROWS with `segment`, an index into `segments`.

    `process_windows` has all windows of the processes that they are of, whatever kind of thread was asked
    for. `segment_window_counts` says how many windows a segment holds, chosen or not, if any were taken one
    by one, and `block_hours` has all hours of a block, if any were taken as a whole. `unresolved_windows`
    windows were to be chosen and are not here: they are not kept apart from others any longer.
    """

    table: pa.Table
    process_windows: pa.Table
    segments: Sequence[SegmentRef]
    segment_window_counts: Mapping[SegmentRef, int]
    block_hours: Mapping[SegmentRef, pa.Table]
    unresolved_windows: int = 0

    def resolution_of(self, ref: SegmentRef) -> str:
        """What is taken of a block if not windows one by one: `hour`, or `day` if it has nothing finer."""
        return "hour" if ref not in self.block_hours or {"sums", "profiles"} & ref.parts else "day"

    def iter_segments(self) -> Iterator[tuple[SegmentRef, pa.Table]]:
        """Each segment with chosen windows, and what tells which of its rows are wanted."""
        rows = sort_table(self.table.select(["segment", "wid", "group", "day"]), ["segment"])
        start = 0
        for at, run in groupby(to_ints(rows["segment"])):
            length = sum(1 for _ in run)
            yield self.segments[at], rows.slice(start, length)
            start += length
