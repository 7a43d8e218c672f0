"""Select the windows of a timeline, by steps where a closed day has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, time
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    combine_chunks,
    concat_tables,
    filter_rows,
    is_equal_string,
    list_unique_strings,
    repeat_value,
    to_strings,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.matchers import filter_by_selector
from sidelight_collector.query.select.window_query import ROW_SCHEMA, select_by_service, select_windows
from sidelight_collector.query.windows import SelectedWindows, WindowQuery
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import DAY_NS, STEP_NS, STEPS
from sidelight_model.selectors import Op

_NAMES: Final = [name for name in STEPS.names if name in ROW_SCHEMA.names]
_COLUMNS: Final = [*_NAMES, "pod", "group", "segment"]


def select_steps(context: QueryContext, query: WindowQuery) -> tuple[SelectedWindows, pa.Table] | None:
    """Select windows for steps of STEP_NS, rolled up where that gives the same answer.

    Returns the windows and, for those that are rolled up, their rows of STEPS. The table of the windows has
    all of them in the columns of both, with the number of segments as `segment` where they are rolled up;
    `process_windows` has the others. None if nothing is rolled up.
    """
    matchers = query.selector.matchers
    is_one_service = any(matcher.name == "service" and matcher.op is Op.EQUAL for matcher in matchers)
    has_others = any(matcher.name not in ("service", "namespace") for matcher in matchers)
    if query.by_window or has_others or not is_one_service:
        return None
    tables, ranges, position = [], [], query.from_ns
    for ref, start, end in _iter_usable(context, query):
        if start >= position:
            (table,) = context.read_tables([ref], "steps")
            starts = table["ts"]
            inside = pc.and_(pc.greater_equal(starts, pa.scalar(start)), pc.less(starts, pa.scalar(end)))
            tables.append(filter_by_selector(filter_rows(table, inside), query.selector))
            ranges.append((position, start))
            position = end
    if not tables:
        return None
    rest = [
        select_windows(
            context, replace(query, from_ns=start, until_ns=end), with_stacks=False, step_ns=STEP_NS
        )
        for start, end in [*ranges, (position, query.until_ns)]
        if start < end
    ]
    refs = [ref for windows in rest for ref in windows.segments]
    steps = concat_tables(tables)
    own = steps.select(_NAMES)
    for name, value in (("pod", ""), ("group", None)):
        field = ROW_SCHEMA.field(name)
        own = own.append_column(field, pa.array([value] * len(own), field.type))
    own = own.append_column(ROW_SCHEMA.field("segment"), repeat_value(len(refs), pa.int32(), len(own)))
    table = concat_tables([*(_number_segments(windows, refs) for windows in rest), own])
    process_windows = concat_tables(
        [ROW_SCHEMA.empty_table(), *(windows.process_windows for windows in rest)]
    )
    counts = {ref: count for windows in rest for ref, count in windows.segment_window_counts.items()}
    hours = {ref: hours for windows in rest for ref, hours in windows.block_hours.items()}
    return SelectedWindows(table, process_windows, refs, counts, hours), steps


def _iter_usable(context: QueryContext, query: WindowQuery) -> Iterator[tuple[SegmentRef, int, int]]:
    """Yield rollups that replace windows, with the range of their steps, by time."""
    refs = select_by_service(context.list_segments(query.from_ns, query.until_ns), query.selector)
    rollups = select_by_service(context.list_rollups(query.from_ns, query.until_ns), query.selector)
    for rollup in sorted(rollups, key=lambda ref: ref.min_start_ms):
        first = int(datetime.combine(rollup.day, time(), UTC).timestamp()) * 10**9
        start = max(-(-query.from_ns // STEP_NS) * STEP_NS, first)
        end = min(query.until_ns // STEP_NS * STEP_NS, first + DAY_NS)
        of_day = {ref.key_prefix for ref in refs if ref.day == rollup.day}
        if "steps" in rollup.parts and of_day <= rollup.covered and start < end:
            yield rollup, start, end


def _number_segments(windows: SelectedWindows, refs: list[SegmentRef]) -> pa.Table:
    """Return the common columns, with `segment` as an index into `refs`."""
    place_of = {ref: place for place, ref in enumerate(refs)}
    places = pa.array([place_of[ref] for ref in windows.segments], pa.int32())
    rows = windows.table.select(_COLUMNS)
    segments = places.take(combine_chunks(rows["segment"]))
    return rows.set_column(rows.schema.get_field_index("segment"), ROW_SCHEMA.field("segment"), segments)


def list_step_pods(steps: pa.Table) -> pa.Table:
    """Return a row for each pod of each row of STEPS, with a column `pod`."""
    lists = combine_chunks(steps["pods"])
    names = [name for name in ("step", "namespace", "labels") if name in steps.column_names]
    return (
        steps.select(names).take(pc.list_parent_indices(lists)).append_column("pod", pc.list_flatten(lists))
    )


def count_step_pods(rows: pa.Table, steps: pa.Table) -> int:
    """Count the distinct pods of rows of windows and of rows of STEPS."""
    pods = set(zip(to_strings(rows["namespace"]), to_strings(rows["pod"]), strict=True))
    for namespace in list_unique_strings(steps["namespace"]):
        lists = combine_chunks(steps.filter(is_equal_string(steps["namespace"], namespace))["pods"])
        pods |= {(namespace, pod) for pod in list_unique_strings(pc.list_flatten(lists))}
    return len(pods)
