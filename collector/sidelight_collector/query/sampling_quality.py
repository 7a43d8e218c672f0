"""Sampling quality of a set of windows: coverage, failed ticks, and stops."""

from collections import Counter
from math import fsum
from typing import Any, Final, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Column, combine_chunks, list_unique_strings, to_ints, to_strings
from sidelight_collector.times import SECOND_NS

_MAX_EXACT_FLOAT: Final = 2.0**53


class QualitySummary(TypedDict):
    """Sampling quality; a share is None if no window reports it.

    `coverage` is the share of process time (0 to 1) that is covered by successful ticks. `failed_share` is
    the share of ticks that gave no stacks; `errors` counts them by kind. `stopped_share` is the share of
    process time in which processes were stopped to be read, over windows that report stops. `reduced` lists
    why the sampler made fewer ticks than requested.
    """

    readers: list[str]
    coverage: float | None
    failed_share: float | None
    errors: dict[str, int]
    stops: int
    stopped_seconds: float
    stopped_share: float | None
    longest_stop_seconds: float
    other_samples: int
    preempted_seconds: float
    reduced: list[str]


def summarize_quality(windows: pa.Table, process_rows: pa.Table) -> QualitySummary:
    """Summarize the sampling quality of these windows and of their processes."""
    return {
        "readers": list_nonempty_strings(process_rows["reader"]),
        "coverage": compute_share(
            sum_floats(process_rows["covered_ns"]), sum_floats(process_rows["ticking_ns"])
        ),
        "failed_share": compute_share(
            sum_floats(process_rows["failed"]), sum_floats(process_rows["attempts"])
        ),
        "errors": count_errors(process_rows),
        "stops": round(sum_floats(process_rows["stops"])),
        "stopped_seconds": sum_seconds(process_rows["stopped_ns"]),
        "stopped_share": compute_share(
            sum_floats(process_rows["stopped_ns"]), sum_floats(process_rows["stopping_ns"])
        ),
        "longest_stop_seconds": (pc.max(process_rows["longest_stop_ns"]).as_py() or 0) / SECOND_NS,
        "other_samples": round(sum_floats(windows["other"])),
        "preempted_seconds": sum_seconds(process_rows["paused_ns"]),
        "reduced": list_nested_strings(process_rows["reduced"]),
    }


def compute_share(part: float, whole: float) -> float | None:
    """Compute a share, at most 1; None if the whole is 0.

    Intervals between ticks vary at random, so the part may exceed the whole by a little.
    """
    return min(part / whole, 1.0) if whole else None


def sum_floats(column: Column) -> float:
    """Sum a column of numbers that are not negative; independent of their order."""
    total = cast("float", pc.sum(column).as_py() or 0.0)
    # Integers below 2 ** 53 are summed exactly in any order; for larger ones fsum does not depend on it.
    return total if total < _MAX_EXACT_FLOAT else fsum(cast("list[float]", column.to_pylist()))


def sum_seconds(column: Column) -> float:
    """Sum a column of nanoseconds, and return seconds."""
    return sum_floats(column) / SECOND_NS


def count_errors(process_rows: pa.Table) -> dict[str, int]:
    """Count failed ticks by kind, most frequent first."""
    pairs = cast("pa.MapArray[Any, Any]", combine_chunks(process_rows["errors"]))
    counts: Counter[str] = Counter()
    for kind, failed in zip(to_strings(pairs.keys), to_ints(pairs.items), strict=True):
        counts[kind] += failed
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def list_nonempty_strings(column: Column) -> list[str]:
    """List the distinct strings of a column without the empty string, sorted."""
    return [text for text in list_unique_strings(column) if text]


def list_nested_strings(column: Column) -> list[str]:
    """List the distinct strings in a column of lists, sorted."""
    return sorted(set(to_strings(pc.list_flatten(combine_chunks(column)))))
