"""Sidecars by service: their versions, modes, overhead and missing samples."""

from __future__ import annotations

from typing import Final, TypedDict

import pyarrow as pa

from sidelight_collector.arrow_ops import dictionary_encode, to_ints, to_strings
from sidelight_collector.query.data_basis import DataBasis, build_basis
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.sampling_quality import compute_share
from sidelight_collector.query.select.matchers import get_label_column
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage.rollups.pod_time import filter_process_rows
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType

CLUSTER: Final = "cluster"
_KEYS: Final = (CLUSTER, "namespace", "service", "sampler", "mode")
_SUMS: Final = ("covered_ns", "ticking_ns", "failed", "attempts", "stopped_ns", "stopping_ns", "paused_ns")

# `from` is a keyword, which the class syntax does not allow as a field.
_Range = TypedDict("_Range", {"from": float, "until": float})


class SidecarHealth(_Range):
    """Sidecars in columns.

    A row is a cluster, namespace, service, sampler and mode. `pods` counts pods, `last_seen` (Unix seconds)
    is the end of the latest window. Shares are from 0 to 1, None if no window reports them: `coverage` of
    process time with stacks, `failed_share` of ticks without stacks, `stopped_share` of process time in which
    processes were stopped to be read. `omitted` counts rows beyond the limit.
    """

    cluster: list[str]
    namespace: list[str]
    service: list[str]
    sampler: list[str]
    mode: list[str]
    pods: list[int]
    last_seen: list[float]
    coverage: list[float | None]
    failed_share: list[float | None]
    stopped_share: list[float | None]
    longest_stop_seconds: list[float]
    preempted_seconds: list[float]
    omitted: int
    basis: DataBasis


def query_sidecar_health(context: QueryContext, query: WindowQuery, *, max_rows: int) -> SidecarHealth:
    """Summarize the sidecars of each service, sorted by their keys."""
    windows = select_windows(context, query, with_stacks=False)
    rows = filter_process_rows(windows.process_windows)
    clusters = get_label_column(rows, CLUSTER)
    rows = rows.select([*_KEYS[1:], "pod", "end_ns", *_SUMS, "longest_stop_ns"])
    rows = rows.append_column(CLUSTER, clusters)
    pods = rows.group_by([*_KEYS, "pod"], use_threads=False).aggregate(
        [("end_ns", "max"), *((name, "sum") for name in _SUMS), ("longest_stop_ns", "max")]
    )
    sums = pods.group_by(list(_KEYS), use_threads=False).aggregate(
        [
            ("pod", "count"),
            ("end_ns_max", "max"),
            *((f"{name}_sum", "sum") for name in _SUMS),
            ("longest_stop_ns_max", "max"),
        ]
    )
    keys = list(zip(*(to_strings(dictionary_encode(sums[name])) for name in _KEYS), strict=True))
    order = sorted(range(len(keys)), key=keys.__getitem__)
    shown = order[:max_rows]
    number = {name: _to_floats(sums, f"{name}_sum_sum") for name in _SUMS}
    ends, longest = to_ints(sums["end_ns_max_max"]), _to_floats(sums, "longest_stop_ns_max_max")
    counts = to_ints(sums["pod_count"])

    def shares(part: str, whole: str) -> list[float | None]:
        return [compute_share(number[part][at], number[whole][at]) for at in shown]

    return {
        "cluster": [keys[at][0] for at in shown],
        "namespace": [keys[at][1] for at in shown],
        "service": [keys[at][2] for at in shown],
        "sampler": [keys[at][3] for at in shown],
        "mode": [keys[at][4] for at in shown],
        "pods": [counts[at] for at in shown],
        "last_seen": [ends[at] / SECOND_NS for at in shown],
        "coverage": shares("covered_ns", "ticking_ns"),
        "failed_share": shares("failed", "attempts"),
        "stopped_share": shares("stopped_ns", "stopping_ns"),
        "longest_stop_seconds": [longest[at] / SECOND_NS for at in shown],
        "preempted_seconds": [number["paused_ns"][at] / SECOND_NS for at in shown],
        "omitted": len(order) - len(shown),
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "basis": build_basis([windows], ProfileType.WALL, context.unreadable_count),
    }


def _to_floats(table: pa.Table, name: str) -> list[float]:
    return [float(value or 0) for value in table[name].to_pylist()]
