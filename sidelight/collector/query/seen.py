"""How much was seen of each service and of each version, in one pass over all windows of a question."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import fsum

import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import floats, integers, one, strings
from sidelight.collector.query.frames import STATES_OF
from sidelight.collector.query.watched import watched_seconds
from sidelight.collector.times import SECOND_NS
from sidelight.stacks.counts import ProfileType

Key = tuple[str, ...]
"""The values of the columns that things are told apart by."""


@dataclass(slots=True)
class Seen:
    """What was seen of one thing: from and until when (Unix ns), and how much.

    `samples` and `ns`, their time, are of the profile type; `sampled` counts samples in every state.
    """

    first_ns: int
    last_ns: int
    windows: int = 0
    samples: int = 0
    sampled: int = 0
    ns: int = 0
    pods: int = 0
    pod_seconds: float = 0.0

    @property
    def rate(self) -> float | None:
        """Seconds per pod-second."""
        return self.ns / SECOND_NS / self.pod_seconds if self.pod_seconds else None


def seen(table: pa.Table, whole: pa.Table, keys: tuple[str, ...], kind: ProfileType) -> dict[Key, Seen]:
    """What was seen of each value of some columns."""
    states = STATES_OF[ProfileType.WALL]
    added = table.group_by([*keys, "period_ns"], use_threads=False).aggregate(
        [("ts", "min"), ("end_ns", "max"), ("windows", "sum"), *((state, "sum") for state in states)]
    )
    names = ("period_ns", "ts_min", "end_ns_max", "windows_sum")
    found: dict[Key, Seen] = {}
    counts = {state: integers(added[f"{state}_sum"]) for state in states}
    for at, (key, period, first, last, windows) in enumerate(
        zip(_keys(added, keys), *(integers(added[name]) for name in names), strict=True)
    ):
        of = found.setdefault(key, Seen(first, last))
        samples = sum(counts[state][at] for state in STATES_OF[kind])
        of.first_ns, of.last_ns = min(of.first_ns, first), max(of.last_ns, last)
        of.windows += windows
        of.samples += samples
        of.sampled += sum(counts[state][at] for state in states)
        of.ns += samples * period
    for key, (pods, seconds) in _watched(whole, keys).items():
        if key in found:
            found[key].pods, found[key].pod_seconds = pods, seconds
    return found


def _watched(whole: pa.Table, keys: tuple[str, ...]) -> Mapping[Key, tuple[int, float]]:
    """For each key its pods, and how long they were watched."""
    each = whole.group_by([*keys, "namespace", "pod"], use_threads=False).aggregate([])
    pods: dict[Key, int] = defaultdict(int)
    for key in _keys(each, keys):
        pods[key] += 1
    seconds: dict[Key, list[float]] = defaultdict(list)
    found = list(watched_seconds(whole, *keys))
    rows = whole.select(list(keys)).take(pa.array([row for row, _ in found], pa.int64()))
    for key, (_, watched) in zip(_keys(rows, keys), found, strict=True):
        seconds[key].append(watched)
    return {key: (count, fsum(seconds.get(key, ()))) for key, count in pods.items()}


def last_of_pods(whole: pa.Table, keys: tuple[str, ...]) -> Iterator[tuple[Key, int]]:
    """When each pod's last window ended (ns), for each key."""
    each = whole.group_by([*keys, "namespace", "pod"], use_threads=False).aggregate([("end_ns", "max")])
    return zip(_keys(each, keys), integers(each["end_ns_max"]), strict=True)


def coverage(whole: pa.Table, key: str) -> dict[str, float]:
    """For each value of a column the share of its processes' time in which ticks gave stacks."""
    counted = pc.subtract(pc.add(whole["duration_ns"], whole["covered_ns"]), whole["ticking_ns"])
    table = pa.table({"key": one(whole[key]), "all": floats(whole["duration_ns"]), "covered": counted})
    added = table.group_by("key", use_threads=False).aggregate([("all", "sum"), ("covered", "sum")])
    columns = added["all_sum"].to_pylist(), added["covered_sum"].to_pylist()
    return {
        name: covered / every if every else 0.0
        for name, every, covered in zip(strings(added["key"]), *columns, strict=True)
    }


def _keys(table: pa.Table, keys: tuple[str, ...]) -> Iterator[Key]:
    return zip(*(strings(table[key]) for key in keys), strict=True)
