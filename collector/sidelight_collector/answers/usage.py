"""The usage of each service or version, in one pass over all windows of a query."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import fsum

import pyarrow as pa

from sidelight_collector.arrow_ops import (
    add_columns,
    combine_chunks,
    concat_tables,
    drop_duplicates,
    factorize_rows,
    to_ints,
    to_strings,
)
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.storage.rollups.pod_time import compute_union_ns, filter_process_rows, iter_pod_time
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import STATES_BY_TYPE, THREAD_STATES, ProfileType


@dataclass(slots=True)
class WindowUsage:
    """The windows and samples of one combination of column values, such as a version.

    `key` has these values. `first_ns` is the start of the first window and `last_ns` the end of the last
    (Unix ns). `samples` and their time `sampled_ns` are of the profile type; `all_samples` counts samples
    in every state. `pod_ends_ns` has the end of each pod's last window. `mean_concurrent_pods`, if
    requested, is the mean number of pods while any was observed.
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

    @property
    def mean_cores(self) -> float | None:
        """Mean cores of all pods while any was observed; None if the rate is unknown.

        For wall time these are threads. Needs `mean_concurrent_pods`.
        """
        return None if self.rate is None else self.rate * self.mean_concurrent_pods

    def compute_cores_of(self, ns: float) -> float | None:
        """Compute the part of `mean_cores` that `ns` of the sampled time stand for."""
        if self.mean_cores is None or not self.sampled_ns:
            return None
        return self.mean_cores * ns / self.sampled_ns


def summarize_usage(
    windows: SelectedWindows, kind: ProfileType, *keys: str, with_concurrency: bool = False
) -> list[WindowUsage]:
    """Summarize the usage of each combination of values of the text columns `keys`.

    The result is sorted by these values. `kind` selects the samples that `samples` and `sampled_ns` count.
    """
    key_values, table, process_rows = _number_rows(windows, keys)
    usages = [WindowUsage(key) for key in key_values]
    sums = ("windows", "samples", "all_samples")
    table = table.append_column("samples", add_columns(table, STATES_BY_TYPE[kind]))
    table = table.append_column("all_samples", add_columns(table, THREAD_STATES))
    grouped = table.group_by(["number", "period_ns"], use_threads=False).aggregate(
        [("ts", "min"), ("end_ns", "max"), *((name, "sum") for name in sums)]
    )
    columns = ("number", "period_ns", "ts_min", "end_ns_max", *(f"{name}_sum" for name in sums))
    for at, period, first, last, count, samples, all_samples in zip(
        *(to_ints(grouped[name]) for name in columns), strict=True
    ):
        usage = usages[at]
        usage.first_ns = min(usage.first_ns, first) if usage.windows else first
        usage.last_ns = max(usage.last_ns, last)
        usage.windows += count
        usage.samples += samples
        usage.all_samples += all_samples
        usage.sampled_ns += samples * period
    _add_pod_time(usages, process_rows, with_concurrency=with_concurrency)
    return sorted((usage for usage in usages if usage.windows), key=lambda usage: usage.key)


def _number_rows(
    windows: SelectedWindows, keys: Sequence[str]
) -> tuple[list[tuple[str, ...]], pa.Table, pa.Table]:
    """Number the distinct values of the key columns.

    Returns the distinct values, and the selected windows and the process rows with a column `number`, the
    index of their values.
    """
    columns = list(keys)
    table, process_windows = windows.table, windows.process_windows
    both = table.select(columns)
    if process_windows is not table:
        both = concat_tables([both, process_windows.select(columns)])
    number = factorize_rows(both)
    values = drop_duplicates(both.append_column("number", number), ["number"])
    key_values = list(zip(*(to_strings(values[name]) for name in columns), strict=True))
    cut = 0 if process_windows is table else len(table)
    whole = filter_process_rows(process_windows.append_column("number", number[cut:]))
    return key_values, table.append_column("number", number[: len(table)]), whole


def _add_pod_time(usages: Sequence[WindowUsage], process_rows: pa.Table, *, with_concurrency: bool) -> None:
    """Add to each usage its pods and how long they were observed."""
    numbers = to_ints(process_rows["number"])
    seconds: list[list[float]] = [[] for _ in usages]
    covered_ns = [0] * len(usages)
    for row, pod_seconds, window_ns in iter_pod_time(process_rows, "number"):
        seconds[numbers[row]].append(pod_seconds)
        covered_ns[numbers[row]] += window_ns
    for at, last in _iter_pod_ends(process_rows):
        usages[at].pod_ends_ns.append(last)
    union_ns = (
        compute_union_ns(process_rows, combine_chunks(process_rows["number"])) if with_concurrency else {}
    )
    for at, (usage, pod_times) in enumerate(zip(usages, seconds, strict=True)):
        usage.pod_seconds = fsum(pod_times)
        usage.mean_concurrent_pods = covered_ns[at] / union_ns[at] if union_ns.get(at) else 0.0


def _iter_pod_ends(process_rows: pa.Table) -> Iterator[tuple[int, int]]:
    keys = ["number", "namespace", "pod"]
    pods = process_rows.group_by(keys, use_threads=False).aggregate([("end_ns", "max")])
    return zip(to_ints(pods["number"]), to_ints(pods["end_ns_max"]), strict=True)
