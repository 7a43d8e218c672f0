"""The amount of data behind a response: windows, pods, samples, time and quality."""

from collections.abc import Collection, Sequence
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
from sidelight_collector.query.sampling_quality import (
    QualitySummary,
    list_nested_strings,
    list_nonempty_strings,
    sum_floats,
    sum_seconds,
    summarize_quality,
)
from sidelight_collector.query.select.window_query import deduplicate_windows
from sidelight_collector.query.windows import (
    SelectedWindows,
    WindowQuery,
)
from sidelight_collector.storage.rollups.pod_time import filter_process_rows, sum_pod_seconds
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import OFF_CPU_STATES, STATES, STATES_BY_TYPE, THREAD_STATES, ProfileType

# `from` is a keyword, so the class syntax cannot declare it.
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
        "states": dict[str, int],
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
    *STATES,
    "ts",
    "end_ns",
    "resolution",
]
_RESOLUTIONS: Final = ("window", "hour", "day")


# `from` again.
ResolutionSummary = TypedDict(
    "ResolutionSummary", {"resolution": str, "windows": int, "from": float, "until": float}
)


class DataBasis(TypedDict):
    """The data behind a whole response.

    `unreadable_segments` counts segments that could not be read; the response is without them.
    `unresolved_windows` counts windows that match and are missing too: they are only stored summed together
    with windows that do not match. `resolutions` has for each resolution (`window`, `hour` or `day`) the
    number of windows and their time range.
    """

    windows: int
    pods: int
    samples: int
    unreadable_segments: int
    unresolved_windows: int
    resolutions: list[ResolutionSummary]


def summarize_side(query: WindowQuery, windows: SelectedWindows, kind: ProfileType) -> SideSummary:
    """Summarize one side; `samples` and `seconds` are those of the profile type."""
    table, process_rows = windows.table, filter_process_rows(windows.process_windows)
    return {
        "selector": str(query.selector),
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "windows": sum_ints(table["windows"]),
        "pods": count_pods(process_rows),
        "samples": sum(sum_ints(table[state]) for state in STATES_BY_TYPE[kind]),
        "seconds": compute_sampled_ns(table, STATES_BY_TYPE[kind]) / SECOND_NS,
        "pod_seconds": sum_pod_seconds(process_rows),
        "states": {state: sum_ints(table[state]) for state in STATES},
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
    """Summarize a whole response; a window that is on both sides counts once."""
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
    """Add a column with the resolution of each row, an index into `_RESOLUTIONS`."""
    finest = [_RESOLUTIONS.index(windows.resolution_of(ref)) for ref in windows.segments]
    of_segment = pa.array([*finest, 0], pa.int32()).take(combine_chunks(windows.table["segment"]))
    is_rollup = combine_chunks(windows.table["group"]).is_valid()
    resolution = pc.if_else(is_rollup, of_segment, pa.scalar(0, pa.int32()))
    return windows.table.append_column("resolution", resolution)


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
    """Count the distinct pairs of namespace and pod."""
    return len(
        table.select(["namespace", "pod"]).group_by(["namespace", "pod"], use_threads=False).aggregate([])
    )


def compute_sampled_ns(table: pa.Table, states: Collection[str]) -> int:
    """Compute the sampled time in these states: samples times period, in ns."""
    added = table.group_by("period_ns", use_threads=False).aggregate([(state, "sum") for state in states])
    periods = to_ints(added["period_ns"])
    return sum(sum(map(mul, periods, to_ints(added[f"{state}_sum"]))) for state in states)


def compute_idle_share(table: pa.Table) -> float | None:
    """Compute the share of sampled time in which threads waited.

    They waited for something other than a CPU or the GIL. Only windows count whose sampler records waiting
    threads. Returns None if there is none.
    """
    lists = combine_chunks(table["missing_states"])
    without_idle = pc.list_parent_indices(lists).filter(is_equal(pc.list_flatten(lists), "idle"))
    if len(without_idle):
        table = table.filter(pc.invert(pc.is_in(row_numbers(len(table)), value_set=without_idle)))
    total = compute_sampled_ns(table, THREAD_STATES)
    return compute_sampled_ns(table, OFF_CPU_STATES) / total if total else None
