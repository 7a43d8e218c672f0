"""How much was seen of each service and of each version, in one pass over all windows of a question."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import fsum

import pyarrow as pa

from sidelight_collector.arrow_ops import (
    combine_chunks,
    concat_tables,
    drop_duplicates,
    factorize_rows,
    to_ints,
    to_strings,
)
from sidelight_collector.query.engine.stack_text import STATES_BY_TYPE
from sidelight_collector.query.select.pod_time import compute_union_ns, filter_process_rows, iter_pod_time
from sidelight_collector.query.windows import (
    SelectedWindows,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType


@dataclass(slots=True)
class WindowUsage:
    """What was seen of one thing: from and until when (Unix ns), and how much.

    `key` has the values that tell it from others. `samples` and `sampled_ns`, their time, are of the
    profile type; `all_samples` counts samples in every state. `pod_ends_ns` says when the last window of
    each pod ended, and `mean_concurrent_pods`, if asked for, how many there were on average while any was
    watched.
    """

    key: tuple[str, ...]
    first_ns: int = 0
    last_ns: int = 0
    windows: int = 0
    samples: int = 0
    all_samples: int = 0
    sampled_ns: int = 0
    pod_ends_ns: list[int] = field(default_factory=list)
    pod_seconds: float = 0.0
    mean_concurrent_pods: float = 0.0

    @property
    def rate(self) -> float | None:
        """Seconds per pod-second."""
        return self.sampled_ns / SECOND_NS / self.pod_seconds if self.pod_seconds else None


def summarize_usage(
    windows: SelectedWindows, kind: ProfileType, *keys: str, with_concurrency: bool = False
) -> list[WindowUsage]:
    """What was seen of each value of some columns of text, in the order of these values."""
    names, table, process_rows = _number_rows(windows, keys)
    found = [WindowUsage(key) for key in names]
    states = STATES_BY_TYPE[ProfileType.WALL]
    added = table.group_by(["number", "period_ns"], use_threads=False).aggregate(
        [("ts", "min"), ("end_ns", "max"), ("windows", "sum"), *((state, "sum") for state in states)]
    )
    columns = (added[name] for name in ("number", "period_ns", "ts_min", "end_ns_max", "windows_sum"))
    counts = {state: to_ints(added[f"{state}_sum"]) for state in states}
    sampled = list(map(sum, zip(*counts.values(), strict=True)))
    wanted = list(map(sum, zip(*(counts[state] for state in STATES_BY_TYPE[kind]), strict=True)))
    for (at, period, first, last, many), all_samples, samples in zip(
        zip(*map(to_ints, columns), strict=True), sampled, wanted, strict=True
    ):
        of = found[at]
        of.first_ns = min(of.first_ns, first) if of.windows else first
        of.last_ns = max(of.last_ns, last)
        of.windows += many
        of.samples += samples
        of.all_samples += all_samples
        of.sampled_ns += samples * period
    _add_pod_time(found, process_rows, with_concurrency=with_concurrency)
    return sorted((of for of in found if of.windows), key=lambda of: of.key)


def _number_rows(
    windows: SelectedWindows, keys: Sequence[str]
) -> tuple[list[tuple[str, ...]], pa.Table, pa.Table]:
    """The values there are, and chosen windows and whole processes with the number of theirs."""
    names = list(keys)
    table, watched = windows.table, windows.process_windows
    both = table.select(names)
    if watched is not table:
        both = concat_tables([both, watched.select(names)])
    number = factorize_rows(both)
    values = drop_duplicates(both.append_column("number", number), ["number"])
    found = list(zip(*(to_strings(values[name]) for name in names), strict=True))
    cut = 0 if watched is table else len(table)
    whole = filter_process_rows(watched.append_column("number", number[cut:]))
    return found, table.append_column("number", number[: len(table)]), whole


def _add_pod_time(found: Sequence[WindowUsage], process_rows: pa.Table, *, with_concurrency: bool) -> None:
    """The pods of each, and how long they were watched."""
    numbers = to_ints(process_rows["number"])
    seconds: list[list[float]] = [[] for _ in found]
    time = [0] * len(found)
    for row, watched, covered in iter_pod_time(process_rows, "number"):
        seconds[numbers[row]].append(watched)
        time[numbers[row]] += covered
    for at, last in _iter_pod_ends(process_rows):
        found[at].pod_ends_ns.append(last)
    together = (
        compute_union_ns(process_rows, combine_chunks(process_rows["number"])) if with_concurrency else {}
    )
    for at, (of, of_pods) in enumerate(zip(found, seconds, strict=True)):
        of.pod_seconds = fsum(of_pods)
        of.mean_concurrent_pods = time[at] / together[at] if together.get(at) else 0.0


def _iter_pod_ends(process_rows: pa.Table) -> Iterator[tuple[int, int]]:
    keys = ["number", "namespace", "pod"]
    each = process_rows.group_by(keys, use_threads=False).aggregate([("end_ns", "max")])
    return zip(to_ints(each["number"]), to_ints(each["end_ns_max"]), strict=True)
