"""How well was watched: what a reader must know before believing a picture."""

from collections import Counter
from math import fsum
from typing import Any, Final, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Column, combine_chunks, list_unique_strings, to_ints, to_strings
from sidelight_collector.times import SECOND_NS

_MAX_EXACT_FLOAT: Final = 2.0**53


class QualitySummary(TypedDict):
    """How well was watched; None where no window tells.

    `coverage` is the share of the time of processes (0 to 1) in which ticks were made and gave stacks,
    `failed_share` that of ticks that gave none, by kind in `count_errors`. `stopped_share` is the part of
    the time of processes in which they stood still to be read, over windows that tell. `reduced` says why
    fewer ticks were made than asked for.
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
    """How well these windows were watched, and the processes that they are of."""
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
    """A part of a whole, None of nothing; ticks come by chance around their period, so a few more are all."""
    return min(part / whole, 1.0) if whole else None


def sum_floats(column: Column) -> float:
    """The sum of a column of numbers above 0, in floating point; the same in whichever order they are."""
    total = cast("float", pc.sum(column).as_py() or 0.0)
    # Whole numbers below 2 ** 53 add up exactly: only absurd ones need care.
    return total if total < _MAX_EXACT_FLOAT else fsum(cast("list[float]", column.to_pylist()))


def sum_seconds(column: Column) -> float:
    """A column of ns added up as seconds."""
    return sum_floats(column) / SECOND_NS


def count_errors(process_rows: pa.Table) -> dict[str, int]:
    """Failed ticks by kind, the most first."""
    pairs = cast("pa.MapArray[Any, Any]", combine_chunks(process_rows["errors"]))
    found: Counter[str] = Counter()
    for kind, failed in zip(to_strings(pairs.keys), to_ints(pairs.items), strict=True):
        found[kind] += failed
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def list_nonempty_strings(column: Column) -> list[str]:
    """The words of a column, but not the empty one."""
    return [word for word in list_unique_strings(column) if word]


def list_nested_strings(column: Column) -> list[str]:
    """The words in a column of lists of them."""
    return sorted(set(to_strings(pc.list_flatten(combine_chunks(column)))))
