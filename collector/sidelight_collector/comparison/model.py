"""A verdict as the API writes it: columns of numbers, None where there is no number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.comparability import Check
from sidelight_collector.statistics.depths import Depths
from sidelight_collector.statistics.inference.cluster_variance import Effects
from sidelight_model.change import Direction


class Effect(TypedDict):
    """How the comparison differs from the baseline in one quantity, with the interval of the difference."""

    baseline: float
    comparison: float
    delta: float
    low: float | None
    high: float | None
    relative: float | None
    relative_low: float | None
    relative_high: float | None
    p: float
    direction: str
    min_detectable_effect: float | None


class EffectColumns(TypedDict):
    """The effects of many quantities, aligned.

    Of `pods_total` pods (or groups of pods) of the comparison `pods_agreeing` lie on the side of the change.
    """

    baseline: list[float]
    comparison: list[float]
    delta: list[float]
    low: list[float | None]
    high: list[float | None]
    relative: list[float | None]
    relative_low: list[float | None]
    relative_high: list[float | None]
    p: list[float]
    direction: list[str]
    min_detectable_effect: list[float | None]
    q: list[float]
    pods_agreeing: list[int]
    pods_total: list[int]


class ToldCheck(TypedDict):
    """A check as `sidelight_collector.statistics.comparability` has it."""

    name: str
    state: str
    severity: str
    reason: str
    text: str
    hint: str


class RoleIdle(TypedDict):
    """The idle share of one kind of thread."""

    thread: str
    idle: Effect


class ToldFunctions(TypedDict):
    """Functions, those that changed first, aligned with the columns of both effects."""

    function: list[str]
    file: list[str]
    renamed_from: list[str | None]
    self: EffectColumns
    total: EffectColumns


class ToldGap(TypedDict):
    """The depth at which two distributions are farthest apart: of B so much more is deeper."""

    depth: int
    gap: float
    low: float
    high: float


class ToldDepth(TypedDict):
    """How deep stacks are, in frames; `max` of A and of B."""

    mean: Effect
    p50: Effect
    p95: Effect
    p99: Effect
    max: list[int]
    gap: ToldGap


class ToldPath(TypedDict):
    """A call path, root first, and its part of the change."""

    names: list[str]
    delta: float
    share: float


class ToldOwn(TypedDict):
    """A function whose own time is part of the change."""

    function: str
    file: str
    delta: float
    share: float


class ToldExplanation(TypedDict):
    """The fewest call paths that account for the change, and the functions whose own time does."""

    share: float | None
    paths: list[ToldPath]
    functions: list[ToldOwn]


class Method(TypedDict):
    """How was judged."""

    alpha: float
    analysis_index: int
    alpha_spent: float
    min_effect: float
    fdr: float
    unit: str
    pods: list[int]
    pod_groups: list[int]
    time_blocks: list[int]
    frequencies: int
    paired: str
    same_pods: bool
    bootstrap: str
    bootstrap_rounds: int
    over_dispersion: list[float | None]
    rate_source: str
    load: str


class ToldMore(TypedDict):
    """What would do to see the change asked for: more minutes, or so many pods in all."""

    minutes: float | None
    pods: int | None


class ToldCondition(TypedDict):
    """A condition, and what became of it."""

    condition: str
    state: str
    summary: str
    effect: Effect | None


class ToldHolder(TypedDict):
    """A function that holds an event loop, and its share of the loop's time on each side."""

    function: str
    file: str
    baseline: float
    comparison: float
    effect: Effect


class ToldLoop(TypedDict):
    """How much of its thread's time an event loop was held, and by whom, most first."""

    busy: Effect
    blockers: list[ToldHolder]


class Verdict(TypedDict):
    """What was found (see docs/api.md)."""

    summary: str
    direction: str
    rate: Effect
    sampling_only: Effect
    idle: Effect | None
    depth: ToldDepth | None
    loop: ToldLoop | None
    thread_kinds: list[RoleIdle]
    checks: list[ToldCheck]
    explanation: ToldExplanation
    functions: ToldFunctions
    functions_total: int
    method: Method
    required: ToldMore | None
    conditions: list[ToldCondition]


_COLUMNS = (
    *("baseline", "comparison", "delta", "low", "high", "relative", "relative_low", "relative_high", "p"),
    "min_detectable_effect",
)


def effect(found: Effects, at: int = 0) -> Effect:
    """One of many effects."""
    told: Any = {name: finite(float(getattr(found, name)[at])) for name in _COLUMNS}
    return cast("Effect", {**told, "direction": found.direction[at].value})


def columns(
    found: Effects, q: NDArray[np.float64], agree: NDArray[np.int64], of: int, at: NDArray[np.int64]
) -> EffectColumns:
    """These of them, in this order."""
    numbers: Any = {name: [finite(value) for value in getattr(found, name)[at].tolist()] for name in _COLUMNS}
    told: Any = {
        **numbers,
        "direction": [found.direction[one].value for one in at.tolist()],
        "q": q[at].tolist(),
        "pods_agreeing": agree[at].tolist(),
        "pods_total": [of] * len(at),
    }
    return cast("EffectColumns", told)


def checked(found: Sequence[Check]) -> list[ToldCheck]:
    told: list[Any] = [asdict(check) for check in found]
    return told


def deep(found: Depths, direction: Callable[[Effects], Effects]) -> ToldDepth:
    """Depths, with the directions that they are told with."""
    mean, quantiles = direction(found.mean), direction(found.quantiles)
    gap = found.gap
    return {
        "mean": effect(mean),
        "p50": effect(quantiles, 0),
        "p95": effect(quantiles, 1),
        "p99": effect(quantiles, 2),
        "max": list(found.most),
        "gap": {"depth": gap.depth, "gap": gap.gap, "low": gap.low, "high": gap.high},
    }


def bare(a: float, b: float, direction: Direction) -> Effect:
    """An effect that is a fact of what was seen, without an interval."""
    none: dict[str, Any] = dict.fromkeys(_COLUMNS)
    numbers = {"baseline": a, "comparison": b, "delta": b - a, "relative": b / a - 1 if a else None, "p": 1.0}
    return cast("Effect", {**none, **numbers, "direction": direction.value})


def finite(value: float) -> float | None:
    """A number that JSON has."""
    return value if math.isfinite(value) else None
