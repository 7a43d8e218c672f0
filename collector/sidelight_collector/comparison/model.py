"""Types of a verdict in the API: columns of numbers, None for no number."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.comparability.check_result import CheckResult
from sidelight_collector.statistics.depths.depth_comparison import DepthComparison
from sidelight_collector.statistics.inference.effect_size import Effects
from sidelight_model.change import Direction
from sidelight_model.culprits.culprit_row import CulpritJson


class EffectJson(TypedDict):
    """The difference of the comparison from the baseline in one quantity.

    `low` and `high` are the interval of the difference.
    """

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
    """The effects of many quantities, as aligned columns.

    `pods_agreeing` is how many of the `pods_total` pods (or groups of pods) of the comparison lie on the
    side of the change.
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


class RemedyJson(TypedDict):
    """A `sidelight_collector.statistics.remedies.Remedy` as JSON."""

    action: str
    label: str
    parameters: dict[str, str]


class CheckJson(TypedDict):
    """A `CheckResult` of sidelight_collector.statistics.comparability as JSON."""

    name: str
    state: str
    severity: str
    reason: str
    text: str
    hint: str
    remedy: RemedyJson | None


class ThreadIdleJson(TypedDict):
    """The idle share of one kind of thread."""

    thread: str
    idle: EffectJson


class FunctionEffectsJson(TypedDict):
    """Functions that changed and then others, with their effects.

    Names are aligned with the columns of both effects.
    """

    function: list[str]
    file: list[str]
    renamed_from: list[str | None]
    self: EffectColumns
    total: EffectColumns


class DepthGapJson(TypedDict):
    """The depth at which the two distributions are farthest apart.

    `gap` is the share of B that is deeper minus that of A.
    """

    depth: int
    gap: float
    low: float
    high: float


class DepthEffectsJson(TypedDict):
    """The effects of stack depth, in frames; `max` of A and of B."""

    mean: EffectJson
    p50: EffectJson
    p95: EffectJson
    p99: EffectJson
    max: list[int]
    gap: DepthGapJson


class CulpritsJson(TypedDict):
    """The functions where a change starts."""

    share: float | None
    rows: list[CulpritJson]


class ComparisonMethod(TypedDict):
    """How the sides were compared."""

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
    over_dispersion: list[float | None]
    rate_source: str


class SampleSizeJson(TypedDict):
    """What detects the required change: more minutes, or pods of each side."""

    minutes: float | None
    pods: int | None


class ConditionJson(TypedDict):
    """A condition and its result."""

    condition: str
    state: str
    summary: str
    effect: EffectJson | None


class LoopBlockerJson(TypedDict):
    """A function that blocks an event loop, and its share of the loop's time by side."""

    function: str
    file: str
    baseline: float
    comparison: float
    effect: EffectJson


class EventLoopJson(TypedDict):
    """The share of its thread's time in which an event loop was blocked.

    `blockers` are the functions that blocked it, largest share first.
    """

    busy: EffectJson
    blockers: list[LoopBlockerJson]


class Verdict(TypedDict):
    """The result of a comparison (see docs/api-reference.md)."""

    summary: str
    basis: str
    basis_reason: str
    available_bases: list[str]
    min_relevant_share: float
    min_relevant_depth: float
    direction: str
    rate: EffectJson
    sampling_only: EffectJson
    idle: EffectJson | None
    depth: DepthEffectsJson | None
    loop: EventLoopJson | None
    thread_kinds: list[ThreadIdleJson]
    checks: list[CheckJson]
    culprits: CulpritsJson
    functions: FunctionEffectsJson
    functions_total: int
    method: ComparisonMethod
    required: SampleSizeJson | None
    conditions: list[ConditionJson]


_EFFECT_FIELDS = (
    *("baseline", "comparison", "delta", "low", "high", "relative", "relative_low", "relative_high", "p"),
    "min_detectable_effect",
)


def to_effect_json(effects: Effects, index: int = 0) -> EffectJson:
    """Convert the effect at `index` to JSON."""
    values: Any = {name: finite_or_none(float(getattr(effects, name)[index])) for name in _EFFECT_FIELDS}
    return cast("EffectJson", {**values, "direction": effects.direction[index].value})


def to_effect_columns(
    effects: Effects,
    q: NDArray[np.float64],
    agreeing_rows: NDArray[np.int64],
    row_count: int,
    indices: NDArray[np.int64],
) -> EffectColumns:
    """Convert the effects at `indices` to columns, in this order."""
    numbers: Any = {
        name: [finite_or_none(value) for value in getattr(effects, name)[indices].tolist()]
        for name in _EFFECT_FIELDS
    }
    columns: Any = {
        **numbers,
        "direction": [effects.direction[index].value for index in indices.tolist()],
        "q": q[indices].tolist(),
        "pods_agreeing": agreeing_rows[indices].tolist(),
        "pods_total": [row_count] * len(indices),
    }
    return cast("EffectColumns", columns)


def to_check_json(results: Sequence[CheckResult]) -> list[CheckJson]:
    checks: list[Any] = [asdict(check) for check in results]
    return checks


def to_depth_json(
    comparison: DepthComparison, apply_checks: Callable[[Effects], Effects]
) -> DepthEffectsJson:
    """Convert stack depths to JSON, with the directions after the checks."""
    mean, quantiles = apply_checks(comparison.mean), apply_checks(comparison.quantiles)
    gap = comparison.gap
    return {
        "mean": to_effect_json(mean),
        "p50": to_effect_json(quantiles, 0),
        "p95": to_effect_json(quantiles, 1),
        "p99": to_effect_json(quantiles, 2),
        "max": list(comparison.max_depths),
        "gap": {"depth": gap.depth, "gap": gap.gap, "low": gap.low, "high": gap.high},
    }


def build_exact_effect(a: float, b: float, direction: Direction) -> EffectJson:
    """Build an effect that is an observed fact, without an interval."""
    none: dict[str, Any] = dict.fromkeys(_EFFECT_FIELDS)
    numbers = {"baseline": a, "comparison": b, "delta": b - a, "relative": b / a - 1 if a else None, "p": 1.0}
    return cast("EffectJson", {**none, **numbers, "direction": direction.value})


def finite_or_none(value: float) -> float | None:
    """Return a number that JSON can represent, or None."""
    return value if math.isfinite(value) else None
