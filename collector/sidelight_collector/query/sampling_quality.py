"""How well was watched: what a reader must know before believing a picture."""

from collections import Counter
from math import fsum
from typing import Any, Final, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import Column, integers, one, strings, used
from sidelight_collector.times import SECOND_NS

_EXACT: Final = 2.0**53


class Quality(TypedDict):
    """How well was watched; None where no window tells.

    `coverage` is the share of the time of processes (0 to 1) in which ticks were made and gave stacks,
    `failed_share` that of ticks that gave none, by kind in `errors`. `stopped_share` is the part of the time
    of processes in which they stood still to be read, over windows that tell. `reduced` says why fewer ticks
    were made than asked for.
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


def quality(windows: pa.Table, processes: pa.Table) -> Quality:
    """How well these windows were watched, and the processes that they are of."""
    return {
        "readers": said(processes["reader"]),
        "coverage": share(added(processes["covered_ns"]), added(processes["ticking_ns"])),
        "failed_share": share(added(processes["failed"]), added(processes["attempts"])),
        "errors": errors(processes),
        "stops": round(added(processes["stops"])),
        "stopped_seconds": seconds(processes["stopped_ns"]),
        "stopped_share": share(added(processes["stopped_ns"]), added(processes["stopping_ns"])),
        "longest_stop_seconds": (pc.max(processes["longest_stop_ns"]).as_py() or 0) / SECOND_NS,
        "other_samples": round(added(windows["other"])),
        "preempted_seconds": seconds(processes["paused_ns"]),
        "reduced": flattened(processes["reduced"]),
    }


def share(part: float, whole: float) -> float | None:
    """A part of a whole, None of nothing; ticks come by chance around their period, so a few more are all."""
    return min(part / whole, 1.0) if whole else None


def added(column: Column) -> float:
    """The sum of a column of numbers above 0, in floating point; the same in whichever order they are."""
    total = cast("float", pc.sum(column).as_py() or 0.0)
    # Whole numbers below 2 ** 53 add up exactly: only absurd ones need care.
    return total if total < _EXACT else fsum(cast("list[float]", column.to_pylist()))


def seconds(column: Column) -> float:
    """A column of ns added up as seconds."""
    return added(column) / SECOND_NS


def errors(processes: pa.Table) -> dict[str, int]:
    """Failed ticks by kind, the most first."""
    pairs = cast("pa.MapArray[Any, Any]", one(processes["errors"]))
    found: Counter[str] = Counter()
    for kind, failed in zip(strings(pairs.keys), integers(pairs.items), strict=True):
        found[kind] += failed
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))


def said(column: Column) -> list[str]:
    """The words of a column, but not the empty one."""
    return [word for word in used(column) if word]


def flattened(column: Column) -> list[str]:
    """The words in a column of lists of them."""
    return sorted(set(strings(pc.list_flatten(one(column)))))
