"""The `hours` table: windows without their stacks, rolled up by the hour.

A row stands for the windows of an hour that have the same labels, sampling period and sampler. It has
everything that responses show about windows: their number, samples, times and quality. Only additive values
are added up, so a query for whole hours gets the same result from rows as from windows.

A sidecar may ship a process as several windows with one time span, one for each kind of thread. The same
sampling attempts produced all of them, so process-wide values count only in the first of these windows.
`processes` is the number of windows whose process-wide values count.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    Column,
    combine_chunks,
    dictionary_encode,
    drop_duplicates,
    factorize_rows,
    is_equal_string,
    list_unique_strings,
    repeat_value,
    row_numbers,
    sort_table,
    to_float64,
    to_ints,
)
from sidelight_collector.storage.tables import (
    HOURS,
    MAX_INT,
    compute_day_group_ids,
    compute_group_ids,
    compute_hour_starts,
)
from sidelight_model.counts import STATES

CLIENT_COUNT_COLUMNS: Final = ("truncated", "other")
"""Per-window numbers that are added up as floating point.

Clients may send any 63-bit values.
"""
TASK_SUM_COLUMNS: Final = ("task_readings", "task_failures", "tasks", "ready_tasks")
TASK_MAX_COLUMNS: Final = ("longest_ready_ns", "event_loops")
PROCESS_COLUMNS: Final = (
    *("duration_ns", "covered_ns", "ticking_ns", "stopped_ns", "stopping_ns"),
    *("attempts", "failed", "target_cpu_ns", "paused_ns", "stops"),
)
"""Process-wide numbers, also added up as floating point."""
_WINDOW_SUM_COLUMNS: Final = ("windows", "processes", *STATES, *CLIENT_COUNT_COLUMNS, *TASK_SUM_COLUMNS)
ROW_KEY_COLUMNS: Final = (
    *("service", "version", "namespace", "pod", "container", "node", "process", "thread", "capture"),
    *("period_ns", "mode", "sampler", "python", "reader"),
)
"""Columns that are equal for the windows of one row.

The hour, other labels and missing states are equal too.
"""

_PROCESS_KEY_COLUMNS: Final = (
    *("service", "version", "namespace", "pod", "container", "node", "process", "capture"),
    *("pid", "ts", "duration_ns", "period_ns"),
)
"""Columns that are equal for the windows of one process and time span."""
_PROCESS_WIDE_COLUMNS: Final = (
    *("attempts", "failed", "target_cpu_ns", "paused_ns"),
    *("stops", "stopped_ns", "longest_stop_ns"),
)
"""Process-wide columns of such windows.

A value is the same in each of them, or set in one of them and 0 in the others.
"""
_STOP_COUNTING_MODES: Final = ("gil", "nonblocking")
"""Modes in which 0 stops means none.

In blocking mode, 0 means that the sampler does not count stops.
"""


def build_window_rows(profiles: pa.Table) -> pa.Table:
    """Build rows like those of `roll_up_windows`, one for each window.

    The rows have WINDOW_ROW_SCHEMA and the order of `profiles`, in which each window occurs at most once.
    Either all windows of one process and time span must be included, or none.
    """
    table, first = _deduplicate_process_columns(profiles)
    duration, ticks = to_float64(table["duration_ns"]), to_float64(table["attempts"])
    ticking = pc.greater(ticks, pa.scalar(0.0))
    failed = to_float64(table["failed"])
    covered = pc.multiply(
        pc.max_element_wise(pc.subtract(ticks, failed), 0.0), to_float64(table["period_ns"])
    )
    counts_stops = pc.greater(combine_chunks(table["stops"]), pa.scalar(0))
    is_main_window = pc.invert(is_equal_string(table["thread"], "other"))
    for mode in _STOP_COUNTING_MODES:
        counts_stops = pc.or_(counts_stops, pc.and_(is_main_window, is_equal_string(table["mode"], mode)))
    rows = len(table)
    ends = pc.add(table["ts"], table["duration_ns"])
    counts = pc.cast(first, pa.int64())
    columns: dict[str, Any] = {
        **{
            name: table[name] for name in (*ROW_KEY_COLUMNS, *STATES, "wid", "labels", "missing_states", "ts")
        },
        **{name: table[name] for name in ("longest_stop_ns", "errors", "reduced")},
        **{name: table[name] for name in (*TASK_SUM_COLUMNS, *TASK_MAX_COLUMNS)},
        **{
            name: to_float64(table[name])
            for name in (*CLIENT_COUNT_COLUMNS, "target_cpu_ns", "paused_ns", "stops")
        },
        "hour": compute_hour_starts(table),
        "group": pa.nulls(rows, pa.int32()),
        "day": pa.nulls(rows, pa.int32()),
        "windows": repeat_value(1, pa.int64(), rows),
        "end_ns": ends,
        "longest_ns": table["duration_ns"],
        "processes": counts,
        "starts": _build_lists(counts, combine_chunks(table["ts"]).filter(first)),
        "ends": _build_lists(counts, combine_chunks(ends).filter(first)),
        "duration_ns": duration,
        "covered_ns": covered,
        "ticking_ns": _zero_unless(ticking, duration),
        "stopped_ns": to_float64(table["stopped_ns"]),
        "stopping_ns": _zero_unless(counts_stops, duration),
        "attempts": ticks,
        "failed": _zero_unless(ticking, failed),
    }
    return pa.table({name: columns[name] for name in WINDOW_ROW_SCHEMA.names}, schema=WINDOW_ROW_SCHEMA)


def roll_up_windows(profiles: pa.Table) -> pa.Table:
    """Build the `hours` table of a block, ordered by the first window of each row."""
    table = build_window_rows(profiles)
    table = table.set_column(
        table.schema.get_field_index("group"), HOURS.field("group"), compute_group_ids(profiles)
    )
    table = table.set_column(
        table.schema.get_field_index("day"), HOURS.field("day"), compute_day_group_ids(profiles)
    )
    row_keys = table.select([*ROW_KEY_COLUMNS, "hour"])
    for name in ("labels", "missing_states"):
        row_keys = row_keys.append_column(name, _encode_as_json(table[name]))
    columns = add_up_rows(table.append_column("number", factorize_rows(row_keys)))
    return pa.table({name: columns[name] for name in HOURS.names}, schema=HOURS)


def add_up_rows(table: pa.Table) -> dict[str, Any]:
    """Add up rows with the same `number` (from 0) to the columns of `hours`."""
    process_rows = table.filter(pc.greater(table["processes"], pa.scalar(0)))
    window_sums = table.group_by("number", use_threads=False).aggregate(
        [
            *((name, "sum") for name in _WINDOW_SUM_COLUMNS),
            *(("ts", "min"), ("end_ns", "max"), ("longest_ns", "max")),
            *((name, "max") for name in TASK_MAX_COLUMNS),
        ]
    )
    process_sums = process_rows.group_by("number", use_threads=False).aggregate(
        [*((name, "sum") for name in PROCESS_COLUMNS), ("longest_stop_ns", "max")]
    )
    window_sums, first_windows = sort_table(window_sums, ["number"]), drop_duplicates(table, ["number"])
    at = pc.index_in(combine_chunks(window_sums["number"]), value_set=combine_chunks(process_sums["number"]))
    list_columns = _build_list_columns(process_rows, len(window_sums))
    return {
        **{
            name: first_windows[name]
            for name in (*ROW_KEY_COLUMNS, "labels", "missing_states", "hour", "group", "day")
        },
        **{name: window_sums[f"{name}_sum"] for name in _WINDOW_SUM_COLUMNS},
        **{name: window_sums[f"{name}_max"] for name in TASK_MAX_COLUMNS},
        "ts": window_sums["ts_min"],
        "end_ns": window_sums["end_ns_max"],
        "longest_ns": window_sums["longest_ns_max"],
        **{name: _take_or_default(process_sums[f"{name}_sum"], at, 0.0) for name in PROCESS_COLUMNS},
        "longest_stop_ns": _take_or_default(process_sums["longest_stop_ns_max"], at, 0),
        **list_columns,
    }


def merge_intervals(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Merge overlapping (start, end) intervals, given in order of start."""
    begun, ended = None, 0
    for start, end in spans:
        if begun is None:
            begun, ended = start, end
        elif start > ended:
            yield begun, ended
            begun, ended = start, end
        else:
            ended = max(ended, end)
    if begun is not None:
        yield begun, ended


WINDOW_ROW_SCHEMA: Final = pa.schema([pa.field("wid", pa.string()), *HOURS])
"""The schema of rows for windows or hours.

`group` and `day` are null for windows, `wid` is null for hours.
"""


def _deduplicate_process_columns(profiles: pa.Table) -> tuple[pa.Table, Array]:
    """Keep process-wide numbers only in the first window of each process and span.

    Returns the windows, and a mask of the first windows.
    """
    all_windows = repeat_value(1, pa.int64(), len(profiles)).cast(pa.bool_())
    if not any(list_unique_strings(profiles["thread"])):
        return profiles, all_windows
    rows = row_numbers(len(profiles))
    # The window of other threads sorts last, whatever its id: it must not carry process-wide numbers.
    behind = pc.multiply(pc.cast(is_equal_string(profiles["thread"], "other"), pa.int64()), len(profiles))
    apart = pc.if_else(is_equal_string(profiles["thread"], ""), rows, pa.scalar(-1))
    aggregated = (
        profiles.select([*_PROCESS_KEY_COLUMNS, *_PROCESS_WIDE_COLUMNS])
        .append_column("apart", apart)
        .append_column("row", pc.add(rows, behind))
        .group_by([*_PROCESS_KEY_COLUMNS, "apart"], use_threads=False)
        .aggregate([("row", "min"), *((name, "max") for name in _PROCESS_WIDE_COLUMNS)])
    )
    firsts_at = pa.array([row % len(profiles) for row in to_ints(aggregated["row_min"])], pa.int64())
    at = pc.index_in(rows, value_set=firsts_at)
    table = profiles
    for name in _PROCESS_WIDE_COLUMNS:
        values = _take_or_default(aggregated[f"{name}_max"], at, 0)
        table = table.set_column(table.schema.get_field_index(name), name, values)
    return table, at.is_valid()


def _take_or_default(column: Column, indices: Array, default: float) -> Array:
    """Return the values at `indices`, and `default` where an index is null."""
    values = combine_chunks(column).take(indices)
    return combine_chunks(pc.if_else(values.is_valid(), values, pa.scalar(default, values.type)))


def _zero_unless(mask: Array, numbers: Array) -> Array:
    """Return `numbers` where `mask` is true, and 0 elsewhere."""
    return combine_chunks(pc.if_else(mask, numbers, pa.scalar(0.0)))


def _build_lists(lengths: Array, values: Array) -> Array:
    """Split `values` into consecutive lists of these lengths."""
    ends = combine_chunks(pc.cumulative_sum(lengths)).cast(pa.int32())
    offsets = cast("pa.Int32Array", pa.concat_arrays([pa.array([0], pa.int32()), ends]))
    return cast("Array", pa.ListArray.from_arrays(offsets, values))


def _encode_as_json(column: pa.ChunkedArray[Any]) -> Array:
    """Encode lists or maps as text, so that equal values have equal codes."""
    return dictionary_encode(pa.array([json.dumps(value) for value in column.to_pylist()], pa.string()))


def _build_list_columns(process_rows: pa.Table, rows: int) -> dict[str, Array]:
    """Build the list columns: starts, ends, errors and `reduced` of each row."""
    starts, ends = [[0] * 0 for _ in range(rows)], [[0] * 0 for _ in range(rows)]
    errors: list[Counter[str]] = [Counter() for _ in range(rows)]
    reduced: list[set[str]] = [set() for _ in range(rows)]
    numbers = to_ints(process_rows["number"])
    flat = [
        combine_chunks(process_rows["number"]),
        *(pc.list_flatten(combine_chunks(process_rows[name])) for name in ("starts", "ends")),
    ]
    spans = sort_table(pa.table(flat, ["number", "start", "end"]), ["number", "start"])
    rows_of_spans = zip(*map(to_ints, spans.columns), strict=True)
    for number, members in groupby(rows_of_spans, key=itemgetter(0)):
        for start, end in merge_intervals((start, end) for _, start, end in members):
            starts[number].append(start)
            ends[number].append(end)
    for number, pairs in zip(numbers, process_rows["errors"].to_pylist(), strict=True):
        for kind, failed in cast("list[tuple[str, int]]", pairs):
            errors[number][kind] = min(errors[number][kind] + failed, MAX_INT)
    for number, reasons in zip(numbers, process_rows["reduced"].to_pylist(), strict=True):
        reduced[number].update(cast("list[str]", reasons))
    return {
        "starts": pa.array(starts, HOURS.field("starts").type),
        "ends": pa.array(ends, HOURS.field("ends").type),
        "errors": pa.array([sorted(value.items()) for value in errors], HOURS.field("errors").type),
        "reduced": pa.array([sorted(value) for value in reduced], HOURS.field("reduced").type),
    }
