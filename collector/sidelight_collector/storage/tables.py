"""Columns of the tables in segments and blocks, and conversion of windows to rows.

Segments and blocks have three tables:

- `profiles` has a row for each window.
- `samples` has a row for each stack of each window.
- `stacks` has a row for each distinct stack of a service.

The column `h` identifies a stack: it is the XXH3 64-bit hash (seed 0, https://xxhash.com) of the folded
text in UTF-8. Because stacks are content-addressed, rows of any two segments add up without coordination.
Adding them up needs `samples` alone, so that table repeats service, version, pod and time. Frames are
stored escaped, as in folded text: joined by `;` they give the text that `h` is the hash of.

Blocks may have three more tables, which add up the others:

- `sums` adds up `samples` over groups of windows. The windows of a group have the same hour, sampling
  period, service, version, namespace, process, thread and capture. Their place (pod, node, container) and
  other labels may differ.
- `daily` adds up the hours of the day as well.
- `hours` adds up `profiles` (see storage.rollups.hourly_rollup). Each of its rows has the number of its
  group in `sums` and in `daily`. A query that selects all rows of a group reads the sums of that group
  instead of adding up its samples.

`steps` of a rollup adds up `profiles` over all pods (see storage.rollups.step_rollup).

docs/formats.md describes the stored format and its history.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any, Final, Literal, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Array, combine_chunks, dictionary_encode, factorize_rows
from sidelight_collector.native_kernel import NATIVE
from sidelight_collector.stack_hashing import HashedWindow, hash_window
from sidelight_model.counts import FURTHER_STATES, STATES, TASK_STATES
from sidelight_model.labels import RESERVED_LABELS
from sidelight_model.window import TaskReadings, Window

SegmentPart = Literal["profiles", "samples", "stacks", "hours", "sums", "daily", "steps"]

SEGMENT_PARTS: Final[tuple[SegmentPart, ...]] = ("profiles", "stacks", "samples")
"""The tables of every segment."""
ROLLUP_PARTS: Final[tuple[SegmentPart, ...]] = ("hours", "sums", "daily")
"""The tables that only blocks have; they add up the others."""
BLOCK_PARTS: Final[tuple[SegmentPart, ...]] = (*SEGMENT_PARTS, *ROLLUP_PARTS)

MAX_INT: Final = 2**63 - 1
HOUR_NS: Final = 3_600 * 10**9
DAY_NS: Final = 24 * HOUR_NS
STEP_NS: Final = 600 * 10**9
"""The step of a timeline of a day."""

_DICTIONARY_STRING: Final[pa.DataType] = pa.dictionary(pa.int32(), pa.string())
_STATE_COLUMNS: Final[dict[str, pa.DataType]] = dict.fromkeys(STATES, pa.int64())

_TASK_COLUMNS: Final[dict[str, pa.DataType]] = dict.fromkeys(
    ("task_readings", "task_failures", "tasks", "ready_tasks", "longest_ready_ns", "event_loops"), pa.int64()
)
"""The fields of a window's TaskReadings, in their order."""

_PROFILE_COLUMNS: Final[dict[str, pa.DataType]] = {
    "wid": pa.string(),
    "digest": pa.uint64(),
    "service": _DICTIONARY_STRING,
    "version": _DICTIONARY_STRING,
    "namespace": _DICTIONARY_STRING,
    "pod": _DICTIONARY_STRING,
    "container": _DICTIONARY_STRING,
    "node": _DICTIONARY_STRING,
    "process": _DICTIONARY_STRING,
    "thread": _DICTIONARY_STRING,
    "capture": _DICTIONARY_STRING,
    "labels": pa.map_(pa.string(), pa.string()),
    "ts": pa.int64(),
    "duration_ns": pa.int64(),
    "period_ns": pa.int64(),
    **_STATE_COLUMNS,
    "attempts": pa.int64(),
    "failed": pa.int64(),
    "errors": pa.map_(pa.string(), pa.int64()),
    "late_ns": pa.int64(),
    "nominal_ns": pa.int64(),
    "mode": _DICTIONARY_STRING,
    "sampler": _DICTIONARY_STRING,
    "python": _DICTIONARY_STRING,
    "threads": pa.int64(),
    "truncated": pa.int64(),
    "target_cpu_ns": pa.int64(),
    "sampler_cpu_ns": pa.int64(),
    "paused_ns": pa.int64(),
    "missing_states": pa.list_(pa.string()),
    "pid": pa.int64(),
    "stops": pa.int64(),
    "stopped_ns": pa.int64(),
    "longest_stop_ns": pa.int64(),
    "other": pa.int64(),
    "reader": _DICTIONARY_STRING,
    "reduced": pa.list_(pa.string()),
    **_TASK_COLUMNS,
}

_OPTIONAL_COLUMNS: Final = frozenset(
    (
        *("thread", "stops", "stopped_ns", "longest_stop_ns", "other", "reader", "reduced"),
        *(*FURTHER_STATES, *TASK_STATES, *_TASK_COLUMNS),
    )
)
"""Columns that older segments and blocks lack: those of `profiles`, and states of any table.

The values are unknown for the windows of such a segment.
"""

PROFILES: Final = pa.schema(_PROFILE_COLUMNS)
SAMPLES: Final = pa.schema(
    [
        ("service", _DICTIONARY_STRING),
        ("version", _DICTIONARY_STRING),
        ("pod", _DICTIONARY_STRING),
        ("ts", pa.int64()),
        ("wid", _DICTIONARY_STRING),
        ("period_ns", pa.int64()),
        ("h", pa.uint64()),
        *_STATE_COLUMNS.items(),
    ]
)

STACKS: Final = pa.schema(
    [
        ("service", _DICTIONARY_STRING),
        ("h", pa.uint64()),
        ("depth", pa.int32()),
        ("frames", pa.list_(_DICTIONARY_STRING)),
    ]
)

GROUP_COLUMNS: Final = (
    "service",
    "version",
    "namespace",
    "process",
    "thread",
    "capture",
    "hour",
    "period_ns",
)
DAY_GROUP_COLUMNS: Final = tuple(name for name in GROUP_COLUMNS if name != "hour")

SUMS: Final = pa.schema(
    [
        *((name, _DICTIONARY_STRING) for name in GROUP_COLUMNS[:6]),
        ("hour", pa.int64()),
        ("period_ns", pa.int64()),
        ("group", pa.int32()),
        ("h", pa.uint64()),
        *_STATE_COLUMNS.items(),
    ]
)
DAILY: Final = SUMS.remove(SUMS.get_field_index("hour"))

_STRING_LIST: Final = pa.list_(pa.string())
_HOUR_COLUMNS: Final[dict[str, pa.DataType]] = {
    **{name: _PROFILE_COLUMNS[name] for name in (*RESERVED_LABELS, "labels")},
    "hour": pa.int64(),
    "period_ns": pa.int64(),
    "group": pa.int32(),
    "day": pa.int32(),
    "windows": pa.int64(),
    "ts": pa.int64(),
    "end_ns": pa.int64(),
    "longest_ns": pa.int64(),
    **_STATE_COLUMNS,
    "truncated": pa.float64(),
    "other": pa.float64(),
    "processes": pa.int64(),
    "starts": pa.list_(pa.int64()),
    "ends": pa.list_(pa.int64()),
    "duration_ns": pa.float64(),
    "covered_ns": pa.float64(),
    "ticking_ns": pa.float64(),
    "stopped_ns": pa.float64(),
    "stopping_ns": pa.float64(),
    "attempts": pa.float64(),
    "failed": pa.float64(),
    "target_cpu_ns": pa.float64(),
    "paused_ns": pa.float64(),
    "stops": pa.float64(),
    "longest_stop_ns": pa.int64(),
    "errors": _PROFILE_COLUMNS["errors"],
    "mode": _DICTIONARY_STRING,
    "sampler": _DICTIONARY_STRING,
    "python": _DICTIONARY_STRING,
    "reader": _DICTIONARY_STRING,
    "missing_states": _STRING_LIST,
    "reduced": _STRING_LIST,
    **_TASK_COLUMNS,
}
HOURS: Final = pa.schema(_HOUR_COLUMNS)

STEP_KEY_COLUMNS: Final = (
    *("service", "version", "namespace", "capture", "period_ns", "mode", "reader"),
    "labels",
)
STEPS: Final = pa.schema(
    [
        *(HOURS.field(name) for name in STEP_KEY_COLUMNS),
        *(
            HOURS.field(name)
            for name in ("ts", "end_ns", "longest_ns", "windows", "processes", *STATES, "other")
        ),
        *(HOURS.field(name) for name in ("covered_ns", "ticking_ns", "stopped_ns", "stopping_ns")),
        *(HOURS.field(name) for name in ("attempts", "failed", "paused_ns", "stops", "longest_stop_ns")),
        *(HOURS.field(name) for name in ("errors", "reduced", "task_readings", "longest_ready_ns")),
        pa.field("pods", pa.list_(_DICTIONARY_STRING)),
        pa.field("pod_count", pa.int64()),
        pa.field("pod_seconds", pa.float64()),
    ]
)

SCHEMAS: Final[dict[SegmentPart, pa.Schema]] = {
    "profiles": PROFILES,
    "stacks": STACKS,
    "samples": SAMPLES,
    "hours": HOURS,
    "sums": SUMS,
    "daily": DAILY,
    "steps": STEPS,
}


def compute_hour_starts(profiles: pa.Table) -> Array:
    """Return the start of each window's hour, in Unix nanoseconds."""
    hour = pa.scalar(HOUR_NS)
    return combine_chunks(pc.multiply(pc.divide(profiles["ts"], hour), hour))


def compute_group_ids(profiles: pa.Table) -> Array:
    """Return each window's group number, from 0; windows are grouped by hour.

    `profiles` needs `ts` and GROUP_COLUMNS, except `hour`.
    """
    return factorize_rows(
        profiles.append_column("hour", compute_hour_starts(profiles)).select(list(GROUP_COLUMNS))
    )


def compute_day_group_ids(profiles: pa.Table) -> Array:
    """Return each window's group number, from 0, where a group spans the whole day."""
    return factorize_rows(profiles.select(list(DAY_GROUP_COLUMNS)))


def add_missing_columns(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Add the optional columns among `names` that a stored table was written without.

    The added columns hold 0, an empty list or an empty string, and `missing_states` names the added states.
    The result has the columns `names` in this order, except those that are neither stored nor optional.
    """
    stored = frozenset(table.column_names)
    absent = [name for name in names if name in _OPTIONAL_COLUMNS and name not in stored]
    if not absent:
        return table
    for name in absent:
        kind = PROFILES.field(name).type
        default = 0 if kind == pa.int64() else [] if pa.types.is_list(kind) else ""
        table = table.append_column(PROFILES.field(name), pa.array([default] * len(table), kind))
    states = [name for name in absent if name in FURTHER_STATES]
    if states and "missing_states" in table.column_names:
        missing = [
            [*value, *states] for value in cast("list[list[str]]", table["missing_states"].to_pylist())
        ]
        at = table.column_names.index("missing_states")
        table = table.set_column(at, table.field(at), pa.array(missing, table.field(at).type))
    return table.select([name for name in names if name in table.column_names])


@dataclass(frozen=True, slots=True)
class SegmentTables:
    """The tables of one segment, each with its exact schema and in stored order."""

    profiles: pa.Table
    stacks: pa.Table
    samples: pa.Table

    def get_part(self, part: SegmentPart) -> pa.Table:
        """Return one table by name."""
        return {"profiles": self.profiles, "stacks": self.stacks, "samples": self.samples}[part]


def build_segment_tables(windows: Iterable[Window]) -> SegmentTables:
    """Build the tables of a segment. Raises ValueError unless window ids are distinct."""
    return build_hashed_segment_tables([hash_window(window) for window in windows])


def build_hashed_segment_tables(windows: Iterable[HashedWindow]) -> SegmentTables:
    """Build the tables of a segment from hashed windows.

    Raises ValueError unless window ids are distinct.
    """
    rows = sorted(windows, key=_storage_sort_key)
    if len({row.window.id for row in rows}) != len(rows):
        raise ValueError("a segment holds each window once")
    return SegmentTables(_build_profiles(rows), build_stacks(rows), _build_samples(rows))


def filter_services(table: pa.Table, services: Collection[str]) -> pa.Table:
    """Return the rows of these services."""
    encoded = dictionary_encode(table["service"])
    is_selected = pc.is_in(encoded.dictionary, value_set=pa.array(sorted(services), pa.string()))
    return table.filter(is_selected.take(encoded.indices))


def _storage_sort_key(row: HashedWindow) -> tuple[str, int, str, int, str]:
    window = row.window
    labels = window.labels
    return (labels["service"], window.start_ns // HOUR_NS, labels.get("pod", ""), window.start_ns, window.id)


def _build_profiles(rows: Sequence[HashedWindow]) -> pa.Table:
    qualities = [row.window.quality for row in rows]
    columns: dict[str, list[object]] = {
        "wid": [row.window.id for row in rows],
        "digest": [row.digest for row in rows],
        **{name: [row.window.labels.get(name, "") for row in rows] for name in RESERVED_LABELS},
        "labels": [
            [pair for pair in row.window.labels.items() if pair[0] not in RESERVED_LABELS] for row in rows
        ],
        "ts": [row.window.start_ns for row in rows],
        "duration_ns": [row.window.duration_ns for row in rows],
        "period_ns": [row.window.period_ns for row in rows],
        **{state: [sum(row.counts[at]) for row in rows] for at, state in enumerate(STATES)},
        "failed": [min(quality.failed_attempts, MAX_INT) for quality in qualities],
        "errors": [sorted(quality.errors.items()) for quality in qualities],
        "missing_states": [list(quality.missing_states) for quality in qualities],
        "reduced": [list(quality.reduced) for quality in qualities],
    }
    task_readings = [astuple(row.window.tasks or TaskReadings()) for row in rows]
    columns |= {name: [values[at] for values in task_readings] for at, name in enumerate(_TASK_COLUMNS)}
    for name in PROFILES.names:
        if name not in columns:
            columns[name] = [getattr(quality, name) for quality in qualities]
    return pa.table({name: columns[name] for name in PROFILES.names}, schema=PROFILES)


def _build_samples(rows: Sequence[HashedWindow]) -> pa.Table:
    lengths = [len(row.hashes) for row in rows]

    def dictionary_encode(values: Sequence[str]) -> pa.DictionaryArray[Any, Any]:
        codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
        indices = _repeat_values("i", [codes[value] for value in values], lengths)
        return pa.DictionaryArray.from_arrays(_to_arrow(pa.int32(), indices), pa.array(codes, pa.string()))

    columns = {
        "service": dictionary_encode([row.window.labels["service"] for row in rows]),
        "version": dictionary_encode([row.window.labels.get("version", "") for row in rows]),
        "pod": dictionary_encode([row.window.labels.get("pod", "") for row in rows]),
        "ts": _to_arrow(pa.int64(), _repeat_values("q", [row.window.start_ns for row in rows], lengths)),
        "wid": dictionary_encode([row.window.id for row in rows]),
        "period_ns": _to_arrow(
            pa.int64(), _repeat_values("q", [row.window.period_ns for row in rows], lengths)
        ),
        "h": _to_arrow(pa.uint64(), _concat_arrays("Q", [row.hashes for row in rows])),
        **{
            state: _to_arrow(pa.int64(), _concat_arrays("q", [row.counts[at] for row in rows]))
            for at, state in enumerate(STATES)
        },
    }
    return pa.table(columns, schema=SAMPLES)


def build_stacks(rows: Sequence[HashedWindow], native: Any | None = NATIVE) -> pa.Table:
    """Build `stacks` from windows in stored order.

    Of stacks with the same hash the last counts. There are two implementations with identical results: the
    native kernel and the Python reference.
    """
    if native is not None:
        return _build_stacks_native(rows, native)
    by_service: dict[str, dict[int, str]] = {}
    for row in rows:
        stacks = by_service.setdefault(row.window.labels["service"], {})
        stacks.update(zip(row.hashes, row.stacks, strict=True))
    services: list[str] = []
    hashes = array("Q")
    texts: list[str] = []
    for service, stacks in by_service.items():
        ordered = sorted(stacks)
        services += [service] * len(ordered)
        hashes.extend(ordered)
        texts += [stacks[h] for h in ordered]
    split = pc.split_pattern(pa.array(texts, pa.string()), ";")
    columns = {
        "service": pa.array(services, _DICTIONARY_STRING),
        "h": _to_arrow(pa.uint64(), hashes),
        "depth": pc.list_value_length(split),
        "frames": pa.ListArray.from_arrays(split.offsets, split.values.dictionary_encode()),
    }
    return pa.table(columns, schema=STACKS)


def _build_stacks_native(rows: Sequence[HashedWindow], native: Any) -> pa.Table:
    numbers: dict[str, int] = {}
    services, hashes, depths, stacks = native.build_segment_stacks(
        [
            (
                numbers.setdefault(row.window.labels["service"], len(numbers)),
                row.hashes.tobytes(),
                row.stacks.columns,
            )
            for row in rows
            if row.hashes
        ]
    )
    offsets, frames, text_offsets, texts = stacks
    names = pa.array(numbers, pa.string())
    words = pa.StringArray.from_buffers(
        len(text_offsets) // 4 - 1, pa.py_buffer(text_offsets), pa.py_buffer(texts)
    )
    columns: dict[str, Array] = {
        "service": pa.DictionaryArray.from_arrays(_to_arrow(pa.int32(), services), names),
        "h": _to_arrow(pa.uint64(), hashes),
        "depth": _to_arrow(pa.int32(), depths),
        "frames": pa.ListArray.from_arrays(
            cast("pa.Int32Array", _to_arrow(pa.int32(), offsets)),
            pa.DictionaryArray.from_arrays(_to_arrow(pa.int32(), frames), words),
        ),
    }
    return pa.table(columns, schema=STACKS)


def _repeat_values(code: str, values: Sequence[int], lengths: Sequence[int]) -> array[int]:
    repeated = array(code)
    for value, length in zip(values, lengths, strict=True):
        repeated.extend(array(code, [value]) * length)
    return repeated


def _concat_arrays(code: str, parts: Iterable[array[int]]) -> array[int]:
    chained = array(code)
    for part in parts:
        chained.extend(part)
    return chained


def _to_arrow(kind: pa.DataType, numbers: array[int] | bytes) -> pa.Array[Any]:
    buffer = pa.py_buffer(numbers)
    return pa.Array.from_buffers(kind, buffer.size * 8 // kind.bit_width, [None, buffer])
