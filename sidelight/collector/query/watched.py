"""How long was watched: what every rate is divided by.

A rate is seconds per pod-second. Pod-seconds are, for each pod, the time covered by at least one of its
windows (a pod's processes are watched at the same time: their windows overlap and count once), times its
coverage: the share of that time in which ticks were made and gave stacks, (attempts - failed) * period /
duration over the pod's processes. A window that does not say how many attempts were made counts as covered.

A process may be shipped as several windows of one span, one for each kind of thread. All of them were watched
by the same ticks: as time they are one window.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import fsum
from operator import itemgetter
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import integers, is_word, ordered, stacked, used
from sidelight.collector.times import SECOND_NS

_SPAN: Final = ("ts", "duration_ns", "period_ns", "attempts", "failed")
_PROCESS: Final = (
    *("service", "version", "namespace", "pod", "container", "process", "capture"),
    *("pid", "ts", "duration_ns", "period_ns"),
)
"""What windows of one process and span have in common."""
_ONCE: Final = (
    *("attempts", "failed", "target_cpu_ns", "paused_ns"),
    *("stops", "stopped_ns", "longest_stop_ns"),
)
"""What such windows tell of the whole process: the same in each, or in one of them and 0 in the others."""


@dataclass(frozen=True, slots=True)
class Span:
    """One window as the reckoning of pod-seconds needs it; times in ns."""

    start: int
    duration: int
    covered: int


def processes(table: pa.Table) -> pa.Table:
    """The windows, but a single row for those of one process and span that differ by thread."""
    if not any(used(table["thread"])):
        return table
    whole = is_word(table["thread"], "")
    parts = table.filter(pc.invert(whole))
    # That of other threads comes last, whatever its id: process-wide numbers stand in the first.
    behind = pc.multiply(pc.cast(is_word(parts["thread"], "other"), pa.int64()), len(parts))
    rows = pc.add(pa.array(range(len(parts)), pa.int64()), behind)
    added = (
        parts.select([*_PROCESS, *_ONCE])
        .append_column("row", rows)
        .group_by([*_PROCESS], use_threads=False)
        .aggregate([("row", "min"), *((name, "max") for name in _ONCE)])
    )
    first = parts.take(pa.array([row % len(parts) for row in integers(added["row_min"])], pa.int64()))
    for name in _ONCE:
        first = first.set_column(first.schema.get_field_index(name), name, added[f"{name}_max"])
    return stacked([table.filter(whole), first])


def pod_seconds(table: pa.Table) -> float:
    """Seconds that pods were watched, all pods of a table of processes added up."""
    return fsum(watched_seconds(spans for _, spans in by_pod(table)))


def by_pod(table: pa.Table, *keys: str) -> Iterable[tuple[tuple[str, ...], Sequence[Span]]]:
    """The spans of each pod in order of start; with `keys`, apart for each value of these columns."""
    names = [*keys, "namespace", "pod"]
    rows = ordered(table.select([*names, *_SPAN]), [*names, "ts"])
    groups = zip(*(rows[name].to_pylist() for name in names), strict=True)
    spans = map(_span, *(integers(rows[name]) for name in _SPAN))
    for group, members in groupby(zip(groups, spans, strict=True), key=itemgetter(0)):
        yield group, [span for _, span in members]


def watched_seconds(groups: Iterable[Sequence[Span]]) -> Iterable[float]:
    """For each pod, given as its spans in order of start, the seconds it was watched."""
    for spans in groups:
        duration = sum(span.duration for span in spans)
        if duration:
            covered = sum(span.covered for span in spans)
            yield union_ns(spans) * covered / duration / SECOND_NS


def union_ns(spans: Iterable[Span]) -> int:
    """How much time at least one of these spans covers; they come in order of start."""
    covered, end = 0, 0
    for span in spans:
        finish = span.start + span.duration
        if finish > end:
            covered += finish - max(span.start, end)
            end = finish
    return covered


def _span(start: int, duration: int, period: int, attempts: int, failed: int) -> Span:
    return Span(start, duration, max(attempts - failed, 0) * period if attempts else duration)
