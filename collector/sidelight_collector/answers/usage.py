"""How much was seen of each service and of each version, in one pass over all windows of a question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import fsum

import pyarrow as pa

from sidelight_collector.arrow_ops import firsts, integers, numbered, one, stacked, strings
from sidelight_collector.query.engine.stack_text import STATES_OF
from sidelight_collector.query.select.pod_time import processes, union_ns, watched_and_time
from sidelight_collector.query.windows import (
    Windows,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType


@dataclass(slots=True)
class Seen:
    """What was seen of one thing: from and until when (Unix ns), and how much.

    `key` has the values that tell it from others. `samples` and `ns`, their time, are of the profile type;
    `sampled` counts samples in every state. `pods` says when the last window of each pod ended, and
    `pods_at_once`, if asked for, how many there were on average while any was watched.
    """

    key: tuple[str, ...]
    first_ns: int = 0
    last_ns: int = 0
    windows: int = 0
    samples: int = 0
    sampled: int = 0
    ns: int = 0
    pods: list[int] = field(default_factory=list)
    pod_seconds: float = 0.0
    pods_at_once: float = 0.0

    @property
    def rate(self) -> float | None:
        """Seconds per pod-second."""
        return self.ns / SECOND_NS / self.pod_seconds if self.pod_seconds else None


def seen(windows: Windows, kind: ProfileType, *keys: str, at_once: bool = False) -> list[Seen]:
    """What was seen of each value of some columns of text, in the order of these values."""
    names, table, whole = _numbered(windows, keys)
    found = [Seen(key) for key in names]
    states = STATES_OF[ProfileType.WALL]
    added = table.group_by(["number", "period_ns"], use_threads=False).aggregate(
        [("ts", "min"), ("end_ns", "max"), ("windows", "sum"), *((state, "sum") for state in states)]
    )
    columns = (added[name] for name in ("number", "period_ns", "ts_min", "end_ns_max", "windows_sum"))
    counts = {state: integers(added[f"{state}_sum"]) for state in states}
    sampled = list(map(sum, zip(*counts.values(), strict=True)))
    wanted = list(map(sum, zip(*(counts[state] for state in STATES_OF[kind]), strict=True)))
    for (at, period, first, last, many), all_samples, samples in zip(
        zip(*map(integers, columns), strict=True), sampled, wanted, strict=True
    ):
        of = found[at]
        of.first_ns = min(of.first_ns, first) if of.windows else first
        of.last_ns = max(of.last_ns, last)
        of.windows += many
        of.samples += samples
        of.sampled += all_samples
        of.ns += samples * period
    _add_watched(found, whole, at_once=at_once)
    return sorted((of for of in found if of.windows), key=lambda of: of.key)


def _numbered(windows: Windows, keys: Sequence[str]) -> tuple[list[tuple[str, ...]], pa.Table, pa.Table]:
    """The values there are, and chosen windows and whole processes with the number of theirs."""
    names = list(keys)
    table, watched = windows.table, windows.watched
    both = table.select(names)
    if watched is not table:
        both = stacked([both, watched.select(names)])
    number = numbered(both)
    values = firsts(both.append_column("number", number), ["number"])
    found = list(zip(*(strings(values[name]) for name in names), strict=True))
    cut = 0 if watched is table else len(table)
    whole = processes(watched.append_column("number", number[cut:]))
    return found, table.append_column("number", number[: len(table)]), whole


def _add_watched(found: Sequence[Seen], whole: pa.Table, *, at_once: bool) -> None:
    """The pods of each, and how long they were watched."""
    numbers = integers(whole["number"])
    seconds: list[list[float]] = [[] for _ in found]
    time = [0] * len(found)
    for row, watched, covered in watched_and_time(whole, "number"):
        seconds[numbers[row]].append(watched)
        time[numbers[row]] += covered
    for at, last in _last_of_pods(whole):
        found[at].pods.append(last)
    together = union_ns(whole, one(whole["number"])) if at_once else {}
    for at, (of, of_pods) in enumerate(zip(found, seconds, strict=True)):
        of.pod_seconds = fsum(of_pods)
        of.pods_at_once = time[at] / together[at] if together.get(at) else 0.0


def _last_of_pods(whole: pa.Table) -> Iterator[tuple[int, int]]:
    keys = ["number", "namespace", "pod"]
    each = whole.group_by(keys, use_threads=False).aggregate([("end_ns", "max")])
    return zip(integers(each["number"]), integers(each["end_ns_max"]), strict=True)
