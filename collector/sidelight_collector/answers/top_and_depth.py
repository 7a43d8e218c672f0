"""What is read off stacks besides the picture: functions by cost, and how deep stacks are."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TypedDict

import pyarrow as pa

from sidelight_collector.arrow_ops import integers
from sidelight_collector.query.call_tree import costs
from sidelight_collector.query.data_basis import Basis, SideNumbers, basis, side
from sidelight_collector.query.engine.stack_text import Weights, numbers, weigh
from sidelight_collector.query.engine.window_sums import sums
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.select.window_query import (
    choose_all,
)
from sidelight_collector.query.stack_filter import ALL, DepthPool, Pick, narrowed, picked
from sidelight_collector.query.windows import (
    Question,
    Windows,
)
from sidelight_model.aggregate import Cost, Depths, largest_gap
from sidelight_model.counts import ProfileType
from sidelight_model.frames import Frame, unescape


class TopRows(TypedDict):
    """The functions of a table, aligned with the columns of its sides."""

    function: list[str]
    file: list[str]


class TopSide(SideNumbers):
    """One side's numbers and columns; `total` counts a stack once however often a function recurs in it."""

    self_us: list[int]
    total_us: list[int]
    self_samples: list[int]
    total_samples: list[int]


class Top(TypedDict):
    """Functions by cost; `functions_total` says how many there are in all."""

    type: str
    by: str
    rows: TopRows
    sides: list[TopSide]
    functions_total: int
    basis: Basis


class DepthSide(SideNumbers):
    """One side's distribution: `samples_at[i]` samples were `depth[i]` frames deep."""

    depth: list[int]
    samples_at: list[int]
    mean: float | None
    p50: int | None
    p95: int | None
    p99: int | None
    max: int | None


class Gap(TypedDict):
    """The depth at which two cumulative distributions differ most, and by what share of samples (0 to 1)."""

    depth: int
    gap: float


class Depth(TypedDict):
    """How deep the stacks of samples are; with two sides, where they differ most."""

    type: str
    sides: list[DepthSide]
    largest_gap: Gap | None
    basis: Basis


class By(StrEnum):
    """What a table is in the order of: a function's own time, or that with what it calls."""

    SELF = "self"
    TOTAL = "total"

    def of(self, cost: Cost) -> int:
        return cost.self_ns if self is By.SELF else cost.total_ns


def functions(
    reading: Reading,
    sides: Sequence[Question],
    kind: ProfileType,
    *,
    by: By,
    limit: int,
    pick: Pick = ALL,
) -> Top:
    """The functions that cost most on any side, by their own time or with what they call."""
    chosen = choose_all(reading, sides)
    weighed = [picked(reading, windows, weigh(sums(reading, windows), kind), pick) for windows in chosen]
    found = costs(reading, list(zip(chosen, weighed, strict=True)))
    heaviest = sorted(found.items(), key=lambda item: (-max(map(by.of, item[1])), item[0]))[:limit]
    frames = [Frame.parse(unescape(frame)) for frame, _ in heaviest]
    return {
        "type": kind.value,
        "by": by.value,
        "rows": {
            "function": [frame.function for frame in frames],
            "file": [frame.file for frame in frames],
        },
        "sides": [
            _top_side(
                narrowed(side(question, windows, kind), weights, pick), [own[at] for _, own in heaviest]
            )
            for at, (question, windows, weights) in enumerate(zip(sides, chosen, weighed, strict=True))
        ],
        "functions_total": len(found),
        "basis": basis(chosen, kind, reading.unreadable),
    }


def depth(reading: Reading, sides: Sequence[Question], kind: ProfileType, *, pick: Pick = ALL) -> Depth:
    """The depths of one side or two."""
    chosen = choose_all(reading, sides)
    weighed = [picked(reading, windows, weigh(sums(reading, windows), kind), pick) for windows in chosen]
    measured = [_depths(reading, *one) for one in zip(chosen, weighed, strict=True)]
    gap = largest_gap(*measured) if len(measured) == 2 else None
    return {
        "type": kind.value,
        "sides": [
            _depth_side(narrowed(side(question, windows, kind), weights, pick), one)
            for question, windows, weights, one in zip(sides, chosen, weighed, measured, strict=True)
        ],
        "largest_gap": {"depth": gap[0], "gap": abs(gap[1])} if gap else None,
        "basis": basis(chosen, kind, reading.unreadable),
    }


def _depths(reading: Reading, windows: Windows, weights: Weights) -> Depths:
    pool = DepthPool()
    stack = numbers(reading, windows, weights.service, weights.h, pool)
    counted = pa.table({"depth": pool.depths().take(stack), "samples": weights.samples})
    added = counted.group_by("depth").aggregate([("samples", "sum")]).sort_by("depth")
    return Depths(dict(zip(integers(added["depth"]), integers(added["samples_sum"]), strict=True)))


def _depth_side(numbers: SideNumbers, found: Depths) -> DepthSide:
    return {
        **numbers,
        "depth": list(found.samples),
        "samples_at": list(found.samples.values()),
        "mean": found.mean,
        "p50": found.quantile(0.5),
        "p95": found.quantile(0.95),
        "p99": found.quantile(0.99),
        "max": found.max,
    }


def _top_side(numbers: SideNumbers, own: Sequence[Cost]) -> TopSide:
    return {
        **numbers,
        "self_us": [round(cost.self_ns / 1000) for cost in own],
        "total_us": [round(cost.total_ns / 1000) for cost in own],
        "self_samples": [cost.self_samples for cost in own],
        "total_samples": [cost.total_samples for cost in own],
    }
