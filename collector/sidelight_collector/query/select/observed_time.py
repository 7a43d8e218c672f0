"""When versions and sides were observed, from windows without their stacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    I64,
    combine_chunks,
    drop_duplicates,
    factorize_rows,
    to_int64_numpy,
    to_strings,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.windows import SelectedWindows, WindowQuery
from sidelight_collector.times import SECOND_NS, ObservedSpan

_VERSION_COLUMNS: Final = ["namespace", "service", "version"]


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """A time in which a version had windows, without a pause of a given length."""

    namespace: str
    service: str
    version: str
    span: ObservedSpan


def list_version_spans(
    reading: QueryContext, question: WindowQuery, pause_seconds: float = inf
) -> list[VersionSpan]:
    """List the spans of all versions in a time range, earliest first.

    A version that pauses for `pause_seconds` has several spans.
    """
    table = select_windows(reading, question.drop_endpoints(), with_stacks=False).table
    if not len(table):
        return []
    distinct = drop_duplicates(table, _VERSION_COLUMNS)
    names = list(zip(*(to_strings(distinct[key]) for key in _VERSION_COLUMNS), strict=True))
    number, start, end = (
        to_int64_numpy(factorize_rows(table.select(_VERSION_COLUMNS))),
        to_int64_numpy(table["ts"]),
        to_int64_numpy(table["end_ns"]),
    )
    order = np.lexsort((start, number))
    spans = []
    for (namespace, service, version), rows in zip(
        names, np.split(order, np.flatnonzero(np.diff(number[order])) + 1), strict=True
    ):
        ends = np.maximum.accumulate(end[rows])
        resumed = np.flatnonzero(start[rows][1:] - ends[:-1] >= pause_seconds * SECOND_NS) + 1
        first, last = start[rows][np.append(0, resumed)], ends[np.append(resumed - 1, len(rows) - 1)]
        spans += [
            VersionSpan(namespace, service, version, ObservedSpan(begin / SECOND_NS, until / SECOND_NS))
            for begin, until in zip(first.tolist(), last.tolist(), strict=True)
        ]
    return sorted(spans, key=lambda span: (span.span.first, span.namespace, span.service, span.version))


def find_previous_version(
    versions: Mapping[str, ObservedSpan], first_seen: float, absent_seconds: float
) -> str | None:
    """Return the version before one that appears; None if there is none.

    It is the youngest of the versions still present, or else the one seen last. A version that appeared at
    about the same time, or later, runs beside it and does not precede it.
    """
    earlier = {name: span for name, span in versions.items() if span.first < first_seen}
    if not earlier:
        return None
    present = [name for name, span in earlier.items() if span.last > first_seen - absent_seconds]
    if present:
        return max(present, key=lambda name: (earlier[name].first, name))
    return max(earlier, key=lambda name: (earlier[name].last, earlier[name].first, name))


def list_observed_intervals(windows: SelectedWindows) -> I64:
    """List when at least one process was profiled: rows of start and end (Unix ns).

    The rows are in order, and neither overlap nor touch.
    """
    rows = windows.process_windows
    starts, ends = (
        to_int64_numpy(pc.list_flatten(combine_chunks(rows[name]))) for name in ("starts", "ends")
    )
    return merge_pauses(np.column_stack([starts, ends]))


def merge_pauses(intervals: I64, max_pause_ns: int = 0) -> I64:
    """Merge rows of start and end that overlap or are at most `max_pause_ns` apart."""
    if not len(intervals):
        return intervals
    ordered = intervals[np.argsort(intervals[:, 0], kind="stable")]
    ends = np.maximum.accumulate(ordered[:, 1])
    resumed = np.flatnonzero(ordered[1:, 0] - ends[:-1] > max_pause_ns) + 1
    return np.column_stack([ordered[np.append(0, resumed), 0], ends[np.append(resumed - 1, len(ends) - 1)]])


def intersect_intervals(first: I64, second: I64) -> I64:
    """Return the rows of start and end in which both are observed.

    Each argument is in order and without overlaps.
    """
    times = np.concatenate([first[:, 0], second[:, 0], first[:, 1], second[:, 1]])
    steps = np.repeat([1, -1], len(first) + len(second))
    order = np.lexsort((steps, times))
    times, both = times[order], np.flatnonzero(np.cumsum(steps[order]) == 2)
    return np.column_stack([times[both], times[both + 1]])
