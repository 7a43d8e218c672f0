"""Pod-seconds: the profiled time of pods, the divisor of every rate.

A rate is seconds per pod-second. The pod-seconds of a pod are the time covered by at least one of its
windows, times its coverage. Windows of processes of the same pod overlap, and count once. Coverage is the
share of time with successful ticks: (attempts - failed) * period / duration, over the processes of the pod.
A window that does not report its attempts counts as covered.
"""

from collections.abc import Iterator
from math import fsum
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    I64,
    Array,
    combine_chunks,
    factorize_rows,
    filter_rows,
    row_numbers,
    to_float64_numpy,
    to_int64_numpy,
)
from sidelight_collector.times import SECOND_NS

MAX_POD_NS: Final = 10**17
"""The most time of one pod that counts: three years."""


def filter_process_rows(rows: pa.Table) -> pa.Table:
    """Keep the rows that have the numbers of whole processes."""
    return filter_rows(rows, pc.greater(rows["processes"], pa.scalar(0)))


def sum_pod_seconds(rows: pa.Table) -> float:
    return fsum(seconds for _, seconds in iter_pod_seconds(rows))


def iter_pod_seconds(rows: pa.Table, *keys: str) -> Iterator[tuple[int, float]]:
    """Yield (first row, pod-seconds) of each pod, for each value of `keys`."""
    return ((first, seconds) for first, seconds, _ in iter_pod_time(rows, *keys))


def iter_pod_time(rows: pa.Table, *keys: str) -> Iterator[tuple[int, float, int]]:
    """Yield (first row, pod-seconds, window ns) of each pod, for each value of `keys`.

    The last number is the time that windows cover, whatever their coverage.
    """
    first, pod_ns, window_ns = measure_pod_time(rows, *keys)
    return zip(first.tolist(), (pod_ns / SECOND_NS).tolist(), window_ns.tolist(), strict=True)


def measure_pod_time(rows: pa.Table, *keys: str) -> tuple[I64, I64, I64]:
    """Return columns of what `iter_pod_time` yields, with pod-seconds in nanoseconds.

    Integers make their sums independent of the order of rows.
    """
    if not len(rows):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64)
    group_ids = factorize_rows(rows.select([*keys, "namespace", "pod"]))
    covered = pc.subtract(pc.add(rows["duration_ns"], rows["covered_ns"]), rows["ticking_ns"])
    table = pa.table(
        {
            "number": group_ids,
            "row": row_numbers(len(rows)),
            "duration": rows["duration_ns"],
            "covered": covered,
        }
    )
    added = table.group_by("number", use_threads=False).aggregate(
        [("row", "min"), ("duration", "sum"), ("covered", "sum")]
    )
    groups, union_ns = compute_union_ns(rows, group_ids)
    window_ns = np.zeros(len(added), np.int64)
    window_ns[groups] = union_ns
    window_ns = window_ns[to_int64_numpy(added["number"])]
    duration_ns = to_float64_numpy(added["duration_sum"])
    has_duration = duration_ns != 0
    window_ns, duration_ns = window_ns[has_duration], duration_ns[has_duration]
    covered_ns = to_float64_numpy(added["covered_sum"])[has_duration]
    # Clients may claim anything: their own numbers are then wrong, and no others.
    pod_ns = np.rint(np.clip(window_ns * covered_ns / duration_ns, 0, MAX_POD_NS)).astype(np.int64)
    return to_int64_numpy(added["row_min"])[has_duration], pod_ns, window_ns


def compute_union_ns(rows: pa.Table, group_ids: Array) -> tuple[I64, I64]:
    """Compute for each group the time (ns) that at least one span of its rows covers.

    Returns the groups and their times.
    """
    starts = combine_chunks(rows["starts"])
    number = to_int64_numpy(group_ids.take(pc.list_parent_indices(starts)))
    start = to_int64_numpy(pc.list_flatten(starts))
    end = to_int64_numpy(pc.list_flatten(combine_chunks(rows["ends"])))
    order = np.lexsort((start, number))
    number, start, end = number[order], start[order], end[order]
    is_same = number[1:] == number[:-1]
    if (is_same & (start[1:] < end[:-1])).any():
        latest_end = _compute_latest_end(number, end)[:-1]
        start[1:] = np.where(is_same, np.maximum(start[1:], latest_end), start[1:])
    first = np.flatnonzero(np.concatenate([np.ones(min(len(number), 1), bool), ~is_same]))
    return number[first], np.add.reduceat(np.maximum(end - start, 0), first) if len(first) else first


def _compute_latest_end(number: I64, end: I64) -> I64:
    """Compute for each row the latest end of its group so far.

    Rows are sorted by group. Ends of a later group rank above all earlier ones, so one running maximum of
    ranks serves all groups.
    """
    values, rank = np.unique(end, return_inverse=True)
    highest = np.maximum.accumulate(number * len(values) + rank)
    latest: I64 = values[highest % len(values)]
    return latest
