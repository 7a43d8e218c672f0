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
    firsts,
    floats,
    integers,
    is_word,
    numbered,
    one,
    ordered,
    row_numbers,
    same,
    used,
    words,
)
from sidelight_collector.storage.tables import HOURS, MAX_INT, day_groups, groups, hours

COUNTED: Final = ("idle", "running", "gil")
CLAIMED: Final = ("truncated", "other")
"""Numbers of windows. What clients claim may be any 63 bits: it is added up as floating point."""
OF_PROCESSES: Final = (
    *("duration_ns", "covered_ns", "ticking_ns", "stopped_ns", "stopping_ns"),
    *("attempts", "failed", "target_cpu_ns", "paused_ns", "stops"),
)
"""Numbers of whole processes, likewise."""
ALIKE: Final = (
    *("service", "version", "namespace", "pod", "container", "node", "process", "thread", "capture"),
    *("period_ns", "mode", "sampler", "python", "reader"),
)
"""With labels and missing states what windows of one row have in common besides the hour."""

_PROCESS: Final = (
    *("service", "version", "namespace", "pod", "container", "node", "process", "capture"),
    *("pid", "ts", "duration_ns", "period_ns"),
)
"""What windows of one process and span have in common."""
_ONCE: Final = (
    *("attempts", "failed", "target_cpu_ns", "paused_ns"),
    *("stops", "stopped_ns", "longest_stop_ns"),
)
"""What such windows tell of the whole process: the same in each, or in one of them and 0 in the others."""
_TELLS_STOPS: Final = ("gil", "nonblocking")
"""Modes in which 0 stops means that there were none; a blocking sampler that counts none does not count."""


def by_window(profiles: pa.Table) -> pa.Table:
    """Rows as `by_hour` makes them, but one for each window, with its `wid`; aligned with the windows.

    Windows are at most once among them; those of one process and span must all be there, or none.
    """
    table, first = _processes(profiles)
    duration, ticks = floats(table["duration_ns"]), floats(table["attempts"])
    ticking = pc.greater(ticks, pa.scalar(0.0))
    failed = floats(table["failed"])
    covered = pc.multiply(pc.max_element_wise(pc.subtract(ticks, failed), 0.0), floats(table["period_ns"]))
    tells = pc.greater(one(table["stops"]), pa.scalar(0))
    main = pc.invert(is_word(table["thread"], "other"))
    for mode in _TELLS_STOPS:
        tells = pc.or_(tells, pc.and_(main, is_word(table["mode"], mode)))
    rows = len(table)
    ends = pc.add(table["ts"], table["duration_ns"])
    counts = pc.cast(first, pa.int64())
    columns: dict[str, Any] = {
        **{name: table[name] for name in (*ALIKE, *COUNTED, "wid", "labels", "missing_states", "ts")},
        **{name: table[name] for name in ("longest_stop_ns", "errors", "reduced")},
        **{name: floats(table[name]) for name in (*CLAIMED, "target_cpu_ns", "paused_ns", "stops")},
        "hour": hours(table),
        "group": pa.nulls(rows, pa.int32()),
        "day": pa.nulls(rows, pa.int32()),
        "windows": same(1, pa.int64(), rows),
        "end_ns": ends,
        "longest_ns": table["duration_ns"],
        "processes": counts,
        "starts": _lists(counts, one(table["ts"]).filter(first)),
        "ends": _lists(counts, one(ends).filter(first)),
        "duration_ns": duration,
        "covered_ns": covered,
        "ticking_ns": _where(ticking, duration),
        "stopped_ns": floats(table["stopped_ns"]),
        "stopping_ns": _where(tells, duration),
        "attempts": ticks,
        "failed": _where(ticking, failed),
    }
    return pa.table({name: columns[name] for name in ROWS.names}, schema=ROWS)


def by_hour(profiles: pa.Table) -> pa.Table:
    """The rows that a block keeps of its windows, in the order of their first windows."""
    table = by_window(profiles)
    table = table.set_column(table.schema.get_field_index("group"), HOURS.field("group"), groups(profiles))
    table = table.set_column(table.schema.get_field_index("day"), HOURS.field("day"), day_groups(profiles))
    alike = table.select([*ALIKE, "hour"])
    for name in ("labels", "missing_states"):
        alike = alike.append_column(name, _texts(table[name]))
    number = numbered(alike)
    table = table.append_column("number", number)
    whole = table.filter(pc.greater(table["processes"], pa.scalar(0)))
    counted = table.group_by("number", use_threads=False).aggregate(
        [
            *((name, "sum") for name in ("windows", "processes", *COUNTED, *CLAIMED)),
            *(("ts", "min"), ("end_ns", "max"), ("longest_ns", "max")),
        ]
    )
    watched = whole.group_by("number", use_threads=False).aggregate(
        [*((name, "sum") for name in OF_PROCESSES), ("longest_stop_ns", "max")]
    )
    counted, first = ordered(counted, ["number"]), firsts(table, ["number"])
    at = pc.index_in(one(counted["number"]), value_set=one(watched["number"]))
    listed = _listed(whole, len(counted))
    columns: dict[str, Any] = {
        **{name: first[name] for name in (*ALIKE, "labels", "missing_states", "hour", "group", "day")},
        **{name: counted[f"{name}_sum"] for name in ("windows", "processes", *COUNTED, *CLAIMED)},
        "ts": counted["ts_min"],
        "end_ns": counted["end_ns_max"],
        "longest_ns": counted["longest_ns_max"],
        **{name: _told(watched[f"{name}_sum"], at, 0.0) for name in OF_PROCESSES},
        "longest_stop_ns": _told(watched["longest_stop_ns_max"], at, 0),
        **listed,
    }
    return pa.table({name: columns[name] for name in HOURS.names}, schema=HOURS)


def united(spans: Iterable[tuple[int, int]]) -> Iterator[tuple[int, int]]:
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


ROWS: Final = pa.schema([pa.field("wid", pa.string()), *HOURS])
"""Of windows or of hours of them; `group` and `day` are null of windows, `wid` of hours."""


def _processes(profiles: pa.Table) -> tuple[pa.Table, Array]:
    """The windows, with process-wide numbers in the first of each process and span, and which those are."""
    every = same(1, pa.int64(), len(profiles)).cast(pa.bool_())
    if not any(used(profiles["thread"])):
        return profiles, every
    rows = row_numbers(len(profiles))
    # That of other threads comes last, whatever its id: process-wide numbers stand in the first.
    behind = pc.multiply(pc.cast(is_word(profiles["thread"], "other"), pa.int64()), len(profiles))
    apart = pc.if_else(is_word(profiles["thread"], ""), rows, pa.scalar(-1))
    added = (
        profiles.select([*_PROCESS, *_ONCE])
        .append_column("apart", apart)
        .append_column("row", pc.add(rows, behind))
        .group_by([*_PROCESS, "apart"], use_threads=False)
        .aggregate([("row", "min"), *((name, "max") for name in _ONCE)])
    )
    firsts_at = pa.array([row % len(profiles) for row in integers(added["row_min"])], pa.int64())
    at = pc.index_in(rows, value_set=firsts_at)
    table = profiles
    for name in _ONCE:
        told = _told(added[f"{name}_max"], at, 0)
        table = table.set_column(table.schema.get_field_index(name), name, told)
    return table, at.is_valid()


def _told(column: Column, at: Array, nothing: float) -> Array:
    """The values at these places, and nothing where there is no place."""
    values = one(column).take(at)
    return one(pc.if_else(values.is_valid(), values, pa.scalar(nothing, values.type)))


def _where(mask: Array, numbers: Array) -> Array:
    """Numbers where the mask says so, and 0 elsewhere."""
    return one(pc.if_else(mask, numbers, pa.scalar(0.0)))


def _lists(lengths: Array, values: Array) -> Array:
    """Lists of so many of the values each."""
    ends = one(pc.cumulative_sum(lengths)).cast(pa.int32())
    offsets = cast("pa.Int32Array", pa.concat_arrays([pa.array([0], pa.int32()), ends]))
    return cast("Array", pa.ListArray.from_arrays(offsets, values))


def _texts(column: pa.ChunkedArray[Any]) -> Array:
    """Lists and maps as text: the same for the same."""
    return words(pa.array([json.dumps(value) for value in column.to_pylist()], pa.string()))


def _listed(whole: pa.Table, rows: int) -> dict[str, Array]:
    """Spans, errors and reasons of the processes of each row."""
    starts, ends = [[0] * 0 for _ in range(rows)], [[0] * 0 for _ in range(rows)]
    errors: list[Counter[str]] = [Counter() for _ in range(rows)]
    reduced: list[set[str]] = [set() for _ in range(rows)]
    numbers = integers(whole["number"])
    flat = [one(whole["number"]), *(pc.list_flatten(one(whole[name])) for name in ("starts", "ends"))]
    spans = ordered(pa.table(flat, ["number", "start", "end"]), ["number", "start"])
    rows_of_spans = zip(*map(integers, spans.columns), strict=True)
    for number, members in groupby(rows_of_spans, key=itemgetter(0)):
        for start, end in united((start, end) for _, start, end in members):
            starts[number].append(start)
            ends[number].append(end)
    for number, pairs in zip(numbers, whole["errors"].to_pylist(), strict=True):
        for kind, failed in cast("list[tuple[str, int]]", pairs):
            errors[number][kind] = min(errors[number][kind] + failed, MAX_INT)
    for number, reasons in zip(numbers, whole["reduced"].to_pylist(), strict=True):
        reduced[number].update(cast("list[str]", reasons))
    return {
        "starts": pa.array(starts, HOURS.field("starts").type),
        "ends": pa.array(ends, HOURS.field("ends").type),
        "errors": pa.array([sorted(each.items()) for each in errors], HOURS.field("errors").type),
        "reduced": pa.array([sorted(each) for each in reduced], HOURS.field("reduced").type),
    }
