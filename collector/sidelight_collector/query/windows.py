"""Values: a query for windows, and the windows that it selects."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sidelight_collector.arrow_ops import list_unique_strings, sort_table, to_int64_numpy
from sidelight_collector.storage.segments import SegmentRef
from sidelight_model.selectors import ENDPOINT_LABEL, Matcher, Selector


@dataclass(frozen=True, slots=True)
class WindowQuery:
    """A query for windows by labels and by start time (Unix ns, `until_ns` excluded).

    With `by_window` it reads single windows even where there are rollups. Matchers on `endpoint` select
    stacks and not windows. With `group_by_endpoint` each stack begins with a frame for its endpoint.
    """

    selector: Selector
    from_ns: int
    until_ns: int
    by_window: bool = False
    group_by_endpoint: bool = False

    @property
    def endpoint_matchers(self) -> tuple[Matcher, ...]:
        """The matchers that select stacks by their endpoint."""
        return tuple(matcher for matcher in self.selector.matchers if matcher.name == ENDPOINT_LABEL)

    def drop_endpoints(self) -> WindowQuery:
        """Return the query for the same windows, whatever their stacks."""
        rest = tuple(matcher for matcher in self.selector.matchers if matcher.name != ENDPOINT_LABEL)
        return replace(self, selector=Selector(rest), group_by_endpoint=False)


@dataclass(frozen=True, slots=True)
class SelectedWindows:
    """Selected windows, as single windows or as hourly rows.

    table: rows of WINDOW_ROW_SCHEMA with a column `segment`, an index into `segments`. process_windows: all
    windows of the same processes, whatever threads the query selects. segment_window_counts: the number of
    all windows of each segment from which single windows were read. block_hours: all hourly rows of each
    block from which hourly rows were read. unresolved_windows: the number of matching windows that are
    missing here, because the store has them only summed together with windows that do not match.
    endpoint_matchers and group_by_endpoint are those of the query, for its stacks.
    """

    table: pa.Table
    process_windows: pa.Table
    segments: Sequence[SegmentRef]
    segment_window_counts: Mapping[SegmentRef, int]
    block_hours: Mapping[SegmentRef, pa.Table]
    unresolved_windows: int = 0
    endpoint_matchers: tuple[Matcher, ...] = ()
    group_by_endpoint: bool = False

    @property
    def services(self) -> list[str]:
        """The services of the windows, sorted."""
        return list_unique_strings(self.table["service"])

    def resolution_of(self, ref: SegmentRef) -> str:
        """Return the resolution of a block's rollups: `hour`, or `day` if none is finer."""
        return "hour" if ref not in self.block_hours or {"sums", "profiles"} & ref.parts else "day"

    def iter_segments(self) -> Iterator[tuple[SegmentRef, pa.Table]]:
        """Yield each segment with selected windows, and a table of their keys.

        The table has the columns `wid`, `group` and `day`.
        """
        rows = sort_table(self.table.select(["segment", "wid", "group", "day"]), ["segment"])
        places, starts, counts = np.unique(
            to_int64_numpy(rows["segment"]), return_index=True, return_counts=True
        )
        for at, start, count in zip(places.tolist(), starts.tolist(), counts.tolist(), strict=True):
            yield self.segments[at], rows.slice(start, count)
