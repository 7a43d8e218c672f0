"""Windows by the hour: what is known of them without their stacks, a row for all that are alike.

A block keeps a row for the windows of an hour that have the same labels, sampling period and sampler. Such a
row says all that answers tell of windows (how many, how much was sampled, when and how well was watched), and
nothing more is added up than adds up: whoever asks for whole hours gets the same from rows as from windows.

A process may be shipped as several windows of one span, one for each kind of thread. All of them were
watched by the same ticks, so what they tell of the whole process counts in one of them, the first;
`processes` says of how many windows it does.
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

STATE_COLUMNS: Final = ("idle", "running", "gil")
CLIENT_COUNT_COLUMNS: Final = ("truncated", "other")
"""Numbers of windows. What clients claim may be any 63 bits: it is added up as floating point."""
PROCESS_COLUMNS: Final = (
    *("duration_ns", "covered_ns", "ticking_ns", "stopped_ns", "stopping_ns"),
    *("attempts", "failed", "target_cpu_ns", "paused_ns", "stops"),
)
"""Numbers of whole processes, likewise."""
ROW_KEY_COLUMNS: Final = (
    *("service", "version", "namespace", "pod", "container", "node", "process", "thread", "capture"),
    *("period_ns", "mode", "sampler", "python", "reader"),
)
"""With labels and missing states what windows of one row have in common besides the hour."""

_PROCESS_KEY_COLUMNS: Final = (
    *("service", "version", "namespace", "pod", "container", "node", "process", "capture"),
    *("pid", "ts", "duration_ns", "period_ns"),
)
"""What windows of one process and span have in common."""
_PROCESS_WIDE_COLUMNS: Final = (
    *("attempts", "failed", "target_cpu_ns", "paused_ns"),
    *("stops", "stopped_ns", "longest_stop_ns"),
)
"""What such windows tell of the whole process: the same in each, or in one of them and 0 in the others."""
_STOP_COUNTING_MODES: Final = ("gil", "nonblocking")
"""Modes in which 0 stops means that there were none; a blocking sampler that counts none does not count."""


def build_window_rows(profiles: pa.Table) -> pa.Table:
    """Rows as `roll_up_windows` makes them, but one for each window, with its `wid`; aligned with the
    windows.

    Windows are at most once among them; those of one process and span must all be there, or none.
    """
    table, first = _deduplicate_process_columns(profiles)
    duration, ticks = to_float64(table["duration_ns"]), to_float64(table["attempts"])
    ticking = pc.greater(ticks, pa.scalar(0.0))
    failed = to_float64(table["failed"])
    covered = pc.multiply(
        pc.max_element_wise(pc.subtract(ticks, failed), 0.0), to_float64(table["period_ns"])
    )
    tells = pc.greater(combine_chunks(table["stops"]), pa.scalar(0))
    main = pc.invert(is_equal_string(table["thread"], "other"))
    for mode in _STOP_COUNTING_MODES:
        tells = pc.or_(tells, pc.and_(main, is_equal_string(table["mode"], mode)))
    rows = len(table)
    ends = pc.add(table["ts"], table["duration_ns"])
    counts = pc.cast(first, pa.int64())
    columns: dict[str, Any] = {
        **{
            name: table[name]
            for name in (*ROW_KEY_COLUMNS, *STATE_COLUMNS, "wid", "labels", "missing_states", "ts")
        },
        **{name: table[name] for name in ("longest_stop_ns", "errors", "reduced")},
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
        "stopping_ns": _zero_unless(tells, duration),
        "attempts": ticks,
        "failed": _zero_unless(ticking, failed),
    }
    return pa.table({name: columns[name] for name in WINDOW_ROW_SCHEMA.names}, schema=WINDOW_ROW_SCHEMA)


def roll_up_windows(profiles: pa.Table) -> pa.Table:
    """The rows that a block keeps of its windows, in the order of their first windows."""
    table = build_window_rows(profiles)
    table = table.set_column(
        table.schema.get_field_index("group"), HOURS.field("group"), compute_group_ids(profiles)
    )
    table = table.set_column(
        table.schema.get_field_index("day"), HOURS.field("day"), compute_day_group_ids(profiles)
    )
    alike = table.select([*ROW_KEY_COLUMNS, "hour"])
    for name in ("labels", "missing_states"):
        alike = alike.append_column(name, _encode_as_json(table[name]))
    number = factorize_rows(alike)
    table = table.append_column("number", number)
    whole = table.filter(pc.greater(table["processes"], pa.scalar(0)))
    counted = table.group_by("number", use_threads=False).aggregate(
        [
            *((name, "sum") for name in ("windows", "processes", *STATE_COLUMNS, *CLIENT_COUNT_COLUMNS)),
            *(("ts", "min"), ("end_ns", "max"), ("longest_ns", "max")),
        ]
    )
    watched = whole.group_by("number", use_threads=False).aggregate(
        [*((name, "sum") for name in PROCESS_COLUMNS), ("longest_stop_ns", "max")]
    )
    counted, first = sort_table(counted, ["number"]), drop_duplicates(table, ["number"])
    at = pc.index_in(combine_chunks(counted["number"]), value_set=combine_chunks(watched["number"]))
    listed = _build_list_columns(whole, len(counted))
    columns: dict[str, Any] = {
        **{
            name: first[name]
            for name in (*ROW_KEY_COLUMNS, "labels", "missing_states", "hour", "group", "day")
        },
        **{
            name: counted[f"{name}_sum"]
            for name in ("windows", "processes", *STATE_COLUMNS, *CLIENT_COUNT_COLUMNS)
        },
        "ts": counted["ts_min"],
        "end_ns": counted["end_ns_max"],
        "longest_ns": counted["longest_ns_max"],
        **{name: _take_or_default(watched[f"{name}_sum"], at, 0.0) for name in PROCESS_COLUMNS},
        "longest_stop_ns": _take_or_default(watched["longest_stop_ns_max"], at, 0),
        **listed,
    }
    return pa.table({name: columns[name] for name in HOURS.names}, schema=HOURS)


def merge_intervals(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """The time that at least one of these spans (start, end) covers, as spans; they are in order of start."""
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
"""Of windows or of hours of them; `group` and `day` are null of windows, `wid` of hours."""


def _deduplicate_process_columns(profiles: pa.Table) -> tuple[pa.Table, Array]:
    """The windows, with process-wide numbers in the first of each process and span, and which those are."""
    every = repeat_value(1, pa.int64(), len(profiles)).cast(pa.bool_())
    if not any(list_unique_strings(profiles["thread"])):
        return profiles, every
    rows = row_numbers(len(profiles))
    # That of other threads comes last, whatever its id: process-wide numbers stand in the first.
    behind = pc.multiply(pc.cast(is_equal_string(profiles["thread"], "other"), pa.int64()), len(profiles))
    apart = pc.if_else(is_equal_string(profiles["thread"], ""), rows, pa.scalar(-1))
    added = (
        profiles.select([*_PROCESS_KEY_COLUMNS, *_PROCESS_WIDE_COLUMNS])
        .append_column("apart", apart)
        .append_column("row", pc.add(rows, behind))
        .group_by([*_PROCESS_KEY_COLUMNS, "apart"], use_threads=False)
        .aggregate([("row", "min"), *((name, "max") for name in _PROCESS_WIDE_COLUMNS)])
    )
    firsts_at = pa.array([row % len(profiles) for row in to_ints(added["row_min"])], pa.int64())
    at = pc.index_in(rows, value_set=firsts_at)
    table = profiles
    for name in _PROCESS_WIDE_COLUMNS:
        told = _take_or_default(added[f"{name}_max"], at, 0)
        table = table.set_column(table.schema.get_field_index(name), name, told)
    return table, at.is_valid()


def _take_or_default(column: Column, indices: Array, default: float) -> Array:
    """The values at these places, and nothing where there is no place."""
    values = combine_chunks(column).take(indices)
    return combine_chunks(pc.if_else(values.is_valid(), values, pa.scalar(default, values.type)))


def _zero_unless(mask: Array, numbers: Array) -> Array:
    """Numbers where the mask says so, and 0 elsewhere."""
    return combine_chunks(pc.if_else(mask, numbers, pa.scalar(0.0)))


def _build_lists(lengths: Array, values: Array) -> Array:
    """Lists of so many of the values each."""
    ends = combine_chunks(pc.cumulative_sum(lengths)).cast(pa.int32())
    offsets = cast("pa.Int32Array", pa.concat_arrays([pa.array([0], pa.int32()), ends]))
    return cast("Array", pa.ListArray.from_arrays(offsets, values))


def _encode_as_json(column: pa.ChunkedArray[Any]) -> Array:
    """Lists and maps as text: the same for the same."""
    return dictionary_encode(pa.array([json.dumps(value) for value in column.to_pylist()], pa.string()))


def _build_list_columns(process_rows: pa.Table, rows: int) -> dict[str, Array]:
    """Spans, errors and reasons of the processes of each row."""
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
        "errors": pa.array([sorted(each.items()) for each in errors], HOURS.field("errors").type),
        "reduced": pa.array([sorted(each) for each in reduced], HOURS.field("reduced").type),
    }
