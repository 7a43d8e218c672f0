"""How well was watched: what a reader must know before believing a picture."""

from collections import Counter
from typing import Any, Final, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight.collector.columns import Column, floats, integers, is_word, one, strings, used
from sidelight.collector.times import SECOND_NS

_TELLS_STOPS: Final = ("gil", "nonblocking")
"""Modes in which 0 stops means that there were none; a blocking sampler that counts none does not count."""


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
    paused_seconds: float
    reduced: list[str]


def quality(windows: pa.Table, processes: pa.Table) -> Quality:
    """How well these windows were watched, and the processes that they are of."""
    time = told(processes)
    ticking = processes.filter(pc.greater(processes["attempts"], pa.scalar(0)))
    return {
        "readers": said(processes["reader"]),
        "coverage": share(added(time["covered"]), added(time["ticking"])),
        "failed_share": share(added(ticking["failed"]), added(ticking["attempts"])),
        "errors": errors(processes),
        "stops": sum(integers(processes["stops"])),
        "stopped_seconds": seconds(processes["stopped_ns"]),
        "stopped_share": share(added(time["stopped"]), added(time["stopping"])),
        "longest_stop_seconds": (pc.max(processes["longest_stop_ns"]).as_py() or 0) / SECOND_NS,
        "other_samples": sum(integers(windows["other"])),
        "paused_seconds": seconds(processes["paused_ns"]),
        "reduced": flattened(processes["reduced"]),
    }


def told(processes: pa.Table) -> pa.Table:
    """For each process the ns that were `covered` of those `ticking`, and `stopped` of those `stopping`.

    All are floating point, and 0 where its window does not tell. That of other threads tells no stops: they
    stand in that of the main thread, which may have been added up over another span.
    """
    duration = floats(processes["duration_ns"])
    attempts, failed, period = (floats(processes[name]) for name in ("attempts", "failed", "period_ns"))
    stops = pc.greater(one(processes["stops"]), pa.scalar(0))
    whole = pc.invert(is_word(processes["thread"], "other"))
    for mode in _TELLS_STOPS:
        stops = pc.or_(stops, pc.and_(whole, is_word(processes["mode"], mode)))
    return pa.table(
        {
            "covered": pc.multiply(pc.max_element_wise(pc.subtract(attempts, failed), 0.0), period),
            "ticking": pc.if_else(pc.greater(attempts, pa.scalar(0.0)), duration, 0.0),
            "stopped": floats(processes["stopped_ns"]),
            "stopping": pc.if_else(stops, duration, 0.0),
        }
    )


def share(part: float, whole: float) -> float | None:
    """A part of a whole, None of nothing; ticks come by chance around their period, so a few more are all."""
    return min(part / whole, 1.0) if whole else None


def added(column: Column) -> float:
    """The sum of a column of numbers: what clients claim may be any 63 bits."""
    return cast("float", pc.sum(floats(column)).as_py() or 0.0)


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
