"""The numbers an answer stands on, so that nobody has to guess how much was seen."""

from collections.abc import Sequence
from operator import mul
from typing import Final, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    combine_chunks,
    concat_tables,
    is_equal,
    row_numbers,
    sum_ints,
    to_ints,
)
from sidelight_collector.query.engine.stack_text import STATES_BY_TYPE
from sidelight_collector.query.sampling_quality import (
    QualitySummary,
    list_nested_strings,
    list_nonempty_strings,
    sum_floats,
    sum_seconds,
    summarize_quality,
)
from sidelight_collector.query.select.pod_time import filter_process_rows, sum_pod_seconds
from sidelight_collector.query.select.window_query import (
    deduplicate_windows,
)
from sidelight_collector.query.windows import (
    SelectedWindows,
    WindowQuery,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType


class StateSamples(TypedDict):
    """Samples by state."""

    idle: int
    running: int
    gil: int


# `from` is a word of the language, so this one is written as a call.
SideSummary = TypedDict(
    "SideSummary",
    {
        "selector": str,
        "from": float,
        "until": float,
        "windows": int,
        "pods": int,
        "samples": int,
        "seconds": float,
        "pod_seconds": float,
        "states": StateSamples,
        "idle_share": float | None,
        "target_cpu_seconds": float,
        "truncated_samples": int,
        "modes": list[str],
        "samplers": list[str],
        "python_versions": list[str],
        "missing_states": list[str],
        "sampling_periods_us": list[float],
        "quality": QualitySummary,
    },
)


_WINDOW_COLUMNS: Final = [
    "wid",
    "namespace",
    "pod",
    "windows",
    "idle",
    "running",
    "gil",
    "ts",
    "end_ns",
    "resolution",
]
_RESOLUTIONS: Final = ("window", "hour", "day")


# As above.
ResolutionSummary = TypedDict(
    "ResolutionSummary", {"resolution": str, "windows": int, "from": float, "until": float}
)


class DataBasis(TypedDict):
    """What a whole answer stands on; segments that could not be read are left out and counted.

    `unresolved_windows` match and are left out too: what they were added up with does not. `resolutions` says
    how many windows were taken one by one (`window`), by the `hour` or by the `day`, and from which time.
    """

    windows: int
    pods: int
    samples: int
    unreadable_segments: int
    unresolved_windows: int
    resolutions: list[ResolutionSummary]


def summarize_side(query: WindowQuery, windows: SelectedWindows, kind: ProfileType) -> SideSummary:
    """What one side of an answer stands on; `samples` and `seconds` are those of the profile type."""
    table, process_rows = windows.table, filter_process_rows(windows.process_windows)
    idle, running, gil = (sum_ints(table[state]) for state in ("idle", "running", "gil"))
    return {
        "selector": str(query.selector),
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "windows": sum_ints(table["windows"]),
        "pods": count_pods(process_rows),
        "samples": sum(sum_ints(table[state]) for state in STATES_BY_TYPE[kind]),
        "seconds": sum(compute_sampled_ns(table, state) for state in STATES_BY_TYPE[kind]) / SECOND_NS,
        "pod_seconds": sum_pod_seconds(process_rows),
        "states": {"idle": idle, "running": running, "gil": gil},
        "idle_share": compute_idle_share(table),
        "target_cpu_seconds": sum_seconds(process_rows["target_cpu_ns"]),
        "truncated_samples": round(sum_floats(table["truncated"])),
        "modes": list_nonempty_strings(process_rows["mode"]),
        "samplers": list_nonempty_strings(process_rows["sampler"]),
        "python_versions": list_nonempty_strings(process_rows["python"]),
        "missing_states": list_nested_strings(process_rows["missing_states"]),
        "sampling_periods_us": sorted(
            period / 1000 for period in to_ints(pc.unique(process_rows["period_ns"]))
        ),
        "quality": summarize_quality(table, process_rows),
    }


def build_basis(sides: Sequence[SelectedWindows], kind: ProfileType, unreadable_segments: int) -> DataBasis:
    """What an answer with these sides stands on; a window that is on both sides counts once."""
    table = _merge_windows([_add_resolution(windows) for windows in sides])
    return {
        "windows": sum_ints(table["windows"]),
        "pods": count_pods(_merge_windows([windows.process_windows for windows in sides])),
        "samples": sum(sum_ints(table[state]) for state in STATES_BY_TYPE[kind]),
        "unreadable_segments": unreadable_segments,
        "unresolved_windows": sum(windows.unresolved_windows for windows in sides),
        "resolutions": _summarize_resolutions(table),
    }


def _add_resolution(windows: SelectedWindows) -> pa.Table:
    """The chosen windows, with the finest that is kept of where they were taken from."""
    finest = [_RESOLUTIONS.index(windows.resolution_of(ref)) for ref in windows.segments]
    of = pa.array([*finest, 0], pa.int32()).take(combine_chunks(windows.table["segment"]))
    at = pc.if_else(combine_chunks(windows.table["group"]).is_valid(), of, pa.scalar(0, pa.int32()))
    return windows.table.append_column("resolution", at)


def _summarize_resolutions(table: pa.Table) -> list[ResolutionSummary]:
    added = table.group_by("resolution", use_threads=False).aggregate(
        [("windows", "sum"), ("ts", "min"), ("end_ns", "max")]
    )
    rows = sorted(zip(*map(to_ints, added.columns), strict=True))
    return [
        {
            "resolution": _RESOLUTIONS[at],
            "windows": windows,
            "from": first / SECOND_NS,
            "until": last / SECOND_NS,
        }
        for at, windows, first, last in rows
    ]


def _merge_windows(tables: Sequence[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    names = [name for name in _WINDOW_COLUMNS if name in tables[0].column_names]
    return deduplicate_windows(concat_tables([table.select(names) for table in tables]))


def count_pods(table: pa.Table) -> int:
    """Distinct (namespace, pod)."""
    return len(
        table.select(["namespace", "pod"]).group_by(["namespace", "pod"], use_threads=False).aggregate([])
    )


def compute_sampled_ns(table: pa.Table, state: str) -> int:
    """Sampled time in one state: samples times period, in ns."""
    added = table.group_by("period_ns", use_threads=False).aggregate([(state, "sum")])
    return sum(map(mul, to_ints(added["period_ns"]), to_ints(added[f"{state}_sum"])))


def compute_idle_share(table: pa.Table) -> float | None:
    """The share of sampled time that threads waited, over windows whose sampler can tell; else None."""
    lists = combine_chunks(table["missing_states"])
    blind = pc.list_parent_indices(lists).filter(is_equal(pc.list_flatten(lists), "idle"))
    seeing = table
    if len(blind):
        at = row_numbers(len(table))
        seeing = table.filter(pc.invert(pc.is_in(at, value_set=blind)))
    idle, *busy = (compute_sampled_ns(seeing, state) for state in ("idle", "running", "gil"))
    whole = idle + sum(busy)
    return idle / whole if whole else None
