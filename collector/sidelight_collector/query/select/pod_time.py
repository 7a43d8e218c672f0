"""How long was watched: what every rate is divided by.

A rate is seconds per pod-second. Pod-seconds are, for each pod, the time covered by at least one of its
windows (a pod's processes are watched at the same time: their windows overlap and count once), times its
coverage: the share of that time in which ticks were made and gave stacks, (attempts - failed) * period /
duration over the pod's processes. A window that does not say how many attempts were made counts as covered.
"""

from collections.abc import Iterator
from math import fsum

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    Column,
    combine_chunks,
    factorize_rows,
    filter_rows,
    row_numbers,
    sort_table,
    to_ints,
)
from sidelight_collector.times import SECOND_NS


def filter_process_rows(rows: pa.Table) -> pa.Table:
    """Those rows that tell of whole processes."""
    return filter_rows(rows, pc.greater(rows["processes"], pa.scalar(0)))


def sum_pod_seconds(rows: pa.Table) -> float:
    """Seconds that pods were watched, all pods of these rows added up."""
    return fsum(seconds for _, seconds in iter_pod_seconds(rows))


def iter_pod_seconds(rows: pa.Table, *keys: str) -> Iterator[tuple[int, float]]:
    """The seconds that each pod was watched, with its first row; apart for each value of these columns."""
    return ((first, seconds) for first, seconds, _ in iter_pod_time(rows, *keys))


def iter_pod_time(rows: pa.Table, *keys: str) -> Iterator[tuple[int, float, int]]:
    """The same, with the time (ns) that windows cover, whatever their coverage."""
    number = factorize_rows(rows.select([*keys, "namespace", "pod"]))
    counted = pc.subtract(pc.add(rows["duration_ns"], rows["covered_ns"]), rows["ticking_ns"])
    table = pa.table(
        {
            "number": number,
            "row": row_numbers(len(rows)),
            "duration": rows["duration_ns"],
            "covered": counted,
        }
    )
    added = table.group_by("number", use_threads=False).aggregate(
        [("row", "min"), ("duration", "sum"), ("covered", "sum")]
    )
    time = compute_union_ns(rows, number)
    for at, first, duration, covered in zip(*(column.to_pylist() for column in added.columns), strict=True):
        if duration:
            yield first, time[at] * covered / duration / SECOND_NS, time[at]


def compute_union_ns(rows: pa.Table, group_ids: Array) -> dict[int, int]:
    """How much time at least one span covers, of all rows with the same number."""
    starts = combine_chunks(rows["starts"])
    spans = pa.table(
        {
            "number": group_ids.take(pc.list_parent_indices(starts)),
            "start": pc.list_flatten(starts),
            "end": pc.list_flatten(combine_chunks(rows["ends"])),
        }
    )
    spans = sort_table(spans, ["number", "start"])
    end = combine_chunks(spans["end"])
    time = pa.table(
        {
            "number": spans["number"],
            "ns": _compute_uncovered_ns(spans, _compute_latest_end(spans["number"], end)),
        }
    )
    added = time.group_by("number", use_threads=False).aggregate([("ns", "sum")])
    return dict(zip(to_ints(added["number"]), to_ints(added["ns_sum"]), strict=True))


def _compute_uncovered_ns(spans: pa.Table, latest_end: Array) -> Array:
    """The time of each span after the latest end of those before it (null: there are none)."""
    start, end = combine_chunks(spans["start"]), combine_chunks(spans["end"])
    begin = pc.max_element_wise(start, latest_end)  # passes over nulls
    return combine_chunks(pc.max_element_wise(pc.subtract(end, begin), pa.scalar(0)))


def _compute_latest_end(group_ids: Column, end: Array) -> Array:
    """For each row the latest end of earlier rows with the same number; rows are in order of number.

    Rows of a later number rank above all earlier ones, so one running maximum of ranks serves all numbers.
    """
    rows = pa.scalar(max(len(end), 1), pa.int64())
    order = pc.sort_indices(end)
    group = combine_chunks(group_ids).cast(pa.int64())
    rank = pc.add(pc.multiply(group, rows), pc.sort_indices(order).cast(pa.int64()))
    highest = combine_chunks(pc.cumulative_max(rank))
    before = pa.concat_arrays([pa.nulls(min(len(end), 1), pa.int64()), highest[:-1]])
    of = pc.divide(before, rows)
    at = pc.if_else(
        pc.equal(of, group), pc.subtract(before, pc.multiply(of, rows)), pa.scalar(None, pa.int64())
    )
    return combine_chunks(end.take(order).take(at))
