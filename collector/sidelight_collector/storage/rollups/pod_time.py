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

_MAX_INT: Final = 2**63 - 1
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
    if not len(number):
        return number, number
    low, high = int(min(start.min(), end.min())), int(max(start.max(), end.max()))
    width, moments = high - low + 1, None
    if (int(number.max()) + 1) * width > _MAX_INT:  # clients may claim any time
        moments, ranks = np.unique(np.concatenate([start, end]), return_inverse=True)
        start, end = ranks[: len(start)], ranks[len(start) :]
        low, width = 0, len(moments)
    # Each group has its own part of one axis, so one running maximum serves all groups.
    origin = number * width
    order = np.argsort(origin + (start - low), kind="stable")  # they are sorted in part
    origin, number = origin[order], number[order]
    begin, end = origin + (start[order] - low), origin + (end[order] - low)
    begin[1:] = np.maximum(begin[1:], np.maximum.accumulate(end)[:-1])
    new_ns = end - begin if moments is None else moments[end - origin] - moments[begin - origin]
    first = np.flatnonzero(np.diff(origin, prepend=-1))
    return number[first], np.add.reduceat(np.maximum(new_ns, 0), first)
