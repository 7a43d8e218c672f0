"""The usage of each service or version, in one pass over all windows of a query."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sidelight_collector.arrow_ops import (
    F64,
    I64,
    add_columns,
    combine_chunks,
    concat_tables,
    drop_duplicates,
    factorize_rows,
    sort_table,
    to_int64_numpy,
    to_strings,
)
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.storage.rollups.pod_time import (
    compute_union_ns,
    filter_process_rows,
    measure_pod_time,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import STATES_BY_TYPE, THREAD_STATES, ProfileType

_MAX_INT: Final = 2.0**62
"""Sums of integers up to this, estimated in floating point, fit 64 bits."""


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


@dataclass(frozen=True, slots=True)
class UsageColumns:
    """What `WindowUsage` has, in columns.

    Of tens of thousands of services, objects would take most of the time. Rows are sorted by key, and all
    have windows. `pod_ns` are pod-seconds in nanoseconds. `pod_row` and `pod_end_ns` have the row and the
    end of the last window of each pod. Sums that may exceed 64 bits are Python's integers.
    """

    keys: list[tuple[str, ...]]
    first_ns: I64
    last_ns: I64
    windows: I64
    samples: I64
    all_samples: I64
    sampled_ns: NDArray[Any]
    pod_ns: NDArray[Any]
    mean_concurrent_pods: F64
    pod_row: I64
    pod_end_ns: I64

    def count_pods(self) -> I64:
        """Count the pods of each row."""
        return np.bincount(self.pod_row, minlength=len(self.keys))

    def count_pods_after(self, times_ns: I64) -> I64:
        """Count the pods of each row that were seen after the time of the row."""
        is_later = self.pod_end_ns > times_ns[self.pod_row]
        return np.bincount(self.pod_row[is_later], minlength=len(self.keys))

    def compute_mean_cores(self) -> F64:
        """Compute `WindowUsage.mean_cores`; NaN if the rate is unknown."""
        with np.errstate(divide="ignore", invalid="ignore"):
            rate = self.sampled_ns.astype(np.float64) / self.pod_ns.astype(np.float64)
        return np.where(self.pod_ns > 0, rate * self.mean_concurrent_pods, np.nan)

    def to_rows(self) -> list[WindowUsage]:
        """Return the rows."""
        numbers = (self.first_ns, self.last_ns, self.windows, self.samples, self.all_samples, self.sampled_ns)
        usages = [
            WindowUsage(key, first, last, windows, samples, all_samples, sampled_ns)
            for key, first, last, windows, samples, all_samples, sampled_ns in zip(
                self.keys, *(column.tolist() for column in numbers), strict=True
            )
        ]
        times = zip((self.pod_ns / SECOND_NS).tolist(), self.mean_concurrent_pods.tolist(), strict=True)
        for usage, (seconds, pods) in zip(usages, times, strict=True):
            usage.pod_seconds, usage.mean_concurrent_pods = seconds, pods
        for at, end_ns in zip(self.pod_row.tolist(), self.pod_end_ns.tolist(), strict=True):
            usages[at].pod_ends_ns.append(end_ns)
        return usages


def summarize_usage(
    windows: SelectedWindows, kind: ProfileType, *keys: str, with_concurrency: bool = False
) -> list[WindowUsage]:
    """Summarize the usage of each combination of values of the text columns `keys`.

    The result is sorted by these values. `kind` selects the samples that `samples` and `sampled_ns` count.
    """
    return summarize_usage_columns(windows, kind, *keys, with_concurrency=with_concurrency).to_rows()


def summarize_usage_columns(
    windows: SelectedWindows, kind: ProfileType, *keys: str, with_concurrency: bool = False
) -> UsageColumns:
    """Summarize usage as `summarize_usage` does, in columns."""
    key_values, table, process_rows = _number_rows(windows, keys)
    sums = ("windows", "samples", "all_samples")
    table = table.append_column("samples", add_columns(table, STATES_BY_TYPE[kind]))
    table = table.append_column("all_samples", add_columns(table, THREAD_STATES))
    grouped = table.group_by(["number", "period_ns"], use_threads=False).aggregate(
        [("ts", "min"), ("end_ns", "max"), *((name, "sum") for name in sums)]
    )
    row, period_ns, first_ns, last_ns, *counts = (
        to_int64_numpy(grouped[name])
        for name in ("number", "period_ns", "ts_min", "end_ns_max", *(f"{name}_sum" for name in sums))
    )
    # All windows, not only those that were selected, have a number.
    used, row = np.unique(row, return_inverse=True)
    rows = len(used)
    first, last = np.full(rows, np.iinfo(np.int64).max), np.zeros(rows, np.int64)
    np.minimum.at(first, row, first_ns)
    np.maximum.at(last, row, last_ns)
    count, samples, all_samples = (_sum_by_row(row, column, rows) for column in counts)
    largest = (np.abs(counts[1].astype(np.float64)) * period_ns).max(initial=0)
    exact = np.int64 if largest < _MAX_INT else object
    sampled_ns = _sum_by_row(row, counts[1].astype(exact) * period_ns.astype(exact), rows)
    place = np.full(len(key_values), -1)
    place[used] = np.arange(rows)
    return UsageColumns(
        [key_values[at] for at in used.tolist()],
        first,
        last,
        count,
        samples,
        all_samples,
        sampled_ns,
        *_measure_pods(process_rows, place, rows, with_concurrency=with_concurrency),
    )


def _sum_by_row(row: I64, column: NDArray[Any], rows: int) -> NDArray[Any]:
    """Sum integers by row, as Python's if the sums may exceed 64 bits."""
    estimate = np.bincount(row, np.abs(column.astype(np.float64)), minlength=rows)
    sums = np.zeros(rows, np.int64 if estimate.max(initial=0) < _MAX_INT else object)
    np.add.at(sums, row, column.astype(sums.dtype))
    return sums


def _number_rows(
    windows: SelectedWindows, keys: Sequence[str]
) -> tuple[list[tuple[str, ...]], pa.Table, pa.Table]:
    """Number the distinct values of the key columns in their order.

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
    values = sort_table(values, columns)
    key_values = list(zip(*(to_strings(values[name]) for name in columns), strict=True))
    number = combine_chunks(pc.sort_indices(values["number"])).cast(pa.int64()).take(number)
    cut = 0 if process_windows is table else len(table)
    whole = filter_process_rows(process_windows.append_column("number", number[cut:]))
    return key_values, table.append_column("number", number[: len(table)]), whole


def _measure_pods(
    process_rows: pa.Table, place: I64, rows: int, *, with_concurrency: bool
) -> tuple[I64, F64, I64, I64]:
    """Measure the pods: the last four columns of UsageColumns.

    `place` has the row of each number, -1 for none.
    """
    number = to_int64_numpy(process_rows["number"])
    first_row, pod_ns, window_ns = measure_pod_time(process_rows, "number")
    row = place[number[first_row]]
    is_used = row >= 0
    row, pod_ns, window_ns = row[is_used], pod_ns[is_used], window_ns[is_used]
    concurrent = np.zeros(rows)
    if with_concurrency:
        groups, union_ns = compute_union_ns(process_rows, combine_chunks(process_rows["number"]))
        at = place[groups]
        is_observed = (at >= 0) & (union_ns > 0)
        at, union_ns = at[is_observed], union_ns[is_observed]
        concurrent[at] = _sum_by_row(row, window_ns, rows)[at] / union_ns
    pods = process_rows.group_by(["number", "namespace", "pod"], use_threads=False).aggregate(
        [("end_ns", "max")]
    )
    pod_row, pod_end_ns = place[to_int64_numpy(pods["number"])], to_int64_numpy(pods["end_ns_max"])
    return _sum_by_row(row, pod_ns, rows), concurrent, pod_row[pod_row >= 0], pod_end_ns[pod_row >= 0]
