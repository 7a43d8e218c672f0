"""The numbers an answer stands on, so that nobody has to guess how much was seen."""

from collections.abc import Sequence
from operator import mul
from typing import Final, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import integers, is_equal, one, row_numbers, stacked, total
from sidelight_collector.query.engine.stack_text import STATES_OF
from sidelight_collector.query.sampling_quality import Quality, added, flattened, quality, said, seconds
from sidelight_collector.query.select.pod_time import pod_seconds, processes
from sidelight_collector.query.select.window_query import (
    once,
)
from sidelight_collector.query.windows import (
    Question,
    Windows,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType


class StateSamples(TypedDict):
    """Samples by state."""

    idle: int
    running: int
    gil: int


# `from` is a word of the language, so this one is written as a call.
SideNumbers = TypedDict(
    "SideNumbers",
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
        "quality": Quality,
    },
)


_COUNTED: Final = [
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
Resolved = TypedDict("Resolved", {"resolution": str, "windows": int, "from": float, "until": float})


class Basis(TypedDict):
    """What a whole answer stands on; segments that could not be read are left out and counted.

    `unresolved_windows` match and are left out too: what they were added up with does not. `resolutions` says
    how many windows were taken one by one (`window`), by the `hour` or by the `day`, and from which time.
    """

    windows: int
    pods: int
    samples: int
    unreadable_segments: int
    unresolved_windows: int
    resolutions: list[Resolved]


def side(question: Question, windows: Windows, kind: ProfileType) -> SideNumbers:
    """What one side of an answer stands on; `samples` and `seconds` are those of the profile type."""
    table, whole = windows.table, processes(windows.watched)
    idle, running, gil = (total(table[state]) for state in ("idle", "running", "gil"))
    return {
        "selector": str(question.selector),
        "from": question.from_ns / SECOND_NS,
        "until": question.until_ns / SECOND_NS,
        "windows": total(table["windows"]),
        "pods": pods(whole),
        "samples": sum(total(table[state]) for state in STATES_OF[kind]),
        "seconds": sum(time_ns(table, state) for state in STATES_OF[kind]) / SECOND_NS,
        "pod_seconds": pod_seconds(whole),
        "states": {"idle": idle, "running": running, "gil": gil},
        "idle_share": idle_share(table),
        "target_cpu_seconds": seconds(whole["target_cpu_ns"]),
        "truncated_samples": round(added(table["truncated"])),
        "modes": said(whole["mode"]),
        "samplers": said(whole["sampler"]),
        "python_versions": said(whole["python"]),
        "missing_states": flattened(whole["missing_states"]),
        "sampling_periods_us": sorted(period / 1000 for period in integers(pc.unique(whole["period_ns"]))),
        "quality": quality(table, whole),
    }


def basis(sides: Sequence[Windows], kind: ProfileType, unreadable: int) -> Basis:
    """What an answer with these sides stands on; a window that is on both sides counts once."""
    table = _together([_with_resolution(windows) for windows in sides])
    return {
        "windows": total(table["windows"]),
        "pods": pods(_together([windows.watched for windows in sides])),
        "samples": sum(total(table[state]) for state in STATES_OF[kind]),
        "unreadable_segments": unreadable,
        "unresolved_windows": sum(windows.unresolved for windows in sides),
        "resolutions": _resolutions(table),
    }


def _with_resolution(windows: Windows) -> pa.Table:
    """The chosen windows, with the finest that is kept of where they were taken from."""
    finest = [_RESOLUTIONS.index(windows.resolution(ref)) for ref in windows.segments]
    of = pa.array([*finest, 0], pa.int32()).take(one(windows.table["segment"]))
    at = pc.if_else(one(windows.table["group"]).is_valid(), of, pa.scalar(0, pa.int32()))
    return windows.table.append_column("resolution", at)


def _resolutions(table: pa.Table) -> list[Resolved]:
    added = table.group_by("resolution", use_threads=False).aggregate(
        [("windows", "sum"), ("ts", "min"), ("end_ns", "max")]
    )
    rows = sorted(zip(*map(integers, added.columns), strict=True))
    return [
        {
            "resolution": _RESOLUTIONS[at],
            "windows": windows,
            "from": first / SECOND_NS,
            "until": last / SECOND_NS,
        }
        for at, windows, first, last in rows
    ]


def _together(tables: Sequence[pa.Table]) -> pa.Table:
    if len(tables) == 1:
        return tables[0]
    names = [name for name in _COUNTED if name in tables[0].column_names]
    return once(stacked([table.select(names) for table in tables]))


def pods(table: pa.Table) -> int:
    """Distinct (namespace, pod)."""
    return len(
        table.select(["namespace", "pod"]).group_by(["namespace", "pod"], use_threads=False).aggregate([])
    )


def time_ns(table: pa.Table, state: str) -> int:
    """Sampled time in one state: samples times period, in ns."""
    added = table.group_by("period_ns", use_threads=False).aggregate([(state, "sum")])
    return sum(map(mul, integers(added["period_ns"]), integers(added[f"{state}_sum"])))


def idle_share(table: pa.Table) -> float | None:
    """The share of sampled time that threads waited, over windows whose sampler can tell; else None."""
    lists = one(table["missing_states"])
    blind = pc.list_parent_indices(lists).filter(is_equal(pc.list_flatten(lists), "idle"))
    seeing = table
    if len(blind):
        at = row_numbers(len(table))
        seeing = table.filter(pc.invert(pc.is_in(at, value_set=blind)))
    idle, *busy = (time_ns(seeing, state) for state in ("idle", "running", "gil"))
    whole = idle + sum(busy)
    return idle / whole if whole else None
