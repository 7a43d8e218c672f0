"""How long was watched: what every rate is divided by.

A rate is seconds per pod-second. Pod-seconds are, for each pod, the time covered by at least one of its
windows (a pod's processes are watched at the same time: their windows overlap and count once), times its
coverage: the share of that time in which ticks were made and gave stacks, (attempts - failed) * period /
duration over the pod's processes. A window that does not say how many attempts were made counts as covered.
"""

from collections.abc import Iterator
from itertools import groupby
from math import fsum
from operator import itemgetter

import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import Array, filtered, integers, numbered, one, ordered, row_numbers, same
from sidelight.collector.store.hours import united
from sidelight.collector.times import SECOND_NS


def processes(rows: pa.Table) -> pa.Table:
    """Those rows that tell of whole processes."""
    return filtered(rows, pc.greater(rows["processes"], pa.scalar(0)))


def pod_seconds(rows: pa.Table) -> float:
    """Seconds that pods were watched, all pods of these rows added up."""
    return fsum(seconds for _, seconds in watched_seconds(rows))


def watched_seconds(rows: pa.Table, *keys: str) -> Iterator[tuple[int, float]]:
    """The seconds that each pod was watched, with its first row; apart for each value of these columns."""
    number = numbered(rows.select([*keys, "namespace", "pod"]))
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
    time = union_ns(rows, number)
    for at, first, duration, covered in zip(*(column.to_pylist() for column in added.columns), strict=True):
        if duration:
            yield first, time[at] * covered / duration / SECOND_NS


def union_ns(rows: pa.Table, number: Array) -> dict[int, int]:
    """How much time at least one span covers, of all rows with the same number."""
    starts = one(rows["starts"])
    spans = pa.table(
        {
            "number": number.take(pc.list_parent_indices(starts)),
            "start": pc.list_flatten(starts),
            "end": pc.list_flatten(one(rows["ends"])),
        }
    )
    spans = ordered(spans, ["number", "start"])
    meets = _meets_the_one_before(spans)
    time = pa.table([spans["number"], pc.subtract(spans["end"], spans["start"])], ["number", "ns"])
    added = time.group_by("number", use_threads=False).aggregate([("ns", "sum")])
    found = dict(zip(integers(added["number"]), integers(added["ns_sum"]), strict=True))
    if pc.any(meets).as_py():
        several = pc.unique(one(spans["number"]).filter(meets))
        rows_of_them = spans.filter(pc.is_in(spans["number"], value_set=several))
        for at, members in groupby(zip(*map(integers, rows_of_them.columns), strict=True), key=itemgetter(0)):
            found[at] = sum(end - start for start, end in united((start, end) for _, start, end in members))
    return found


def _meets_the_one_before(spans: pa.Table) -> Array:
    """For each span whether the one before it has the same number and ends after its start."""
    number, start, end = (one(column) for column in spans.columns)
    if len(spans) < 2:
        return same(0, pa.int64(), len(spans)).cast(pa.bool_())
    meets = pc.and_(pc.equal(number[1:], number[:-1]), pc.less(start[1:], end[:-1]))
    return pa.concat_arrays([pa.array([False]), one(meets)])
