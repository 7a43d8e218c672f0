"""The statistics of two single recordings: counting noise, and nothing else there is to learn it from.

n samples scatter by about √n, as `sidelight_model.change` has it; those of N samples that are of one kind
by √(n(1 - n/N)); what was not seen at all counts as one sample. Quantiles scatter as their ranks do, by
√(Np(1-p)) places in the order (David & Nagaraja, Order Statistics, 2003, section 7.1). Whether runs of one
program differ more than that among themselves cannot be seen in one run of each, so these intervals are the
narrowest there can be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

POWER: Final = 0.8
FDR: Final = 0.05
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class SignificanceLevel:
    """At which level is judged: what of `alpha` this look spends, and the change one wants to see."""

    alpha: float
    analysis_index: int
    min_effect: float

    @property
    def spent_alpha(self) -> float:
        """alpha/(k(k+1)) for the k-th look, which adds up to alpha over any number of looks; of the only one
        (0) all."""
        return (
            self.alpha / (self.analysis_index * (self.analysis_index + 1))
            if self.analysis_index
            else self.alpha
        )

    @property
    def z_score(self) -> float:
        return _NORMAL.inv_cdf(1 - self.spent_alpha / 2)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its variance."""

    value: float
    variance: float


def estimate_rate(samples: int, seconds: float) -> Estimate:
    """Samples per second."""
    return Estimate(samples / seconds, max(samples, 1) / seconds**2)


def estimate_share(samples: int, total: int) -> Estimate:
    """The share of all samples, of which there is at least one."""
    return Estimate(samples / total, max(samples * (1 - samples / total), 1) / total**2)


def estimate_mean(histogram: Mapping[int, int]) -> Estimate:
    """The mean of values that were counted."""
    total = sum(histogram.values())
    average = sum(value * count for value, count in histogram.items()) / total
    squared_deviations = sum(count * (value - average) ** 2 for value, count in histogram.items())
    return Estimate(average, squared_deviations / total / total)


def estimate_quantile(histogram: Mapping[int, int], probability: float) -> Estimate:
    """A quantile of values that were counted: the smallest value that so many are not above."""
    total = sum(histogram.values())
    rank_error = math.sqrt(total * probability * (1 - probability))
    low, at, high = (
        _find_value_at_rank(histogram, total * probability + step) for step in (-rank_error, 0.0, rank_error)
    )
    return Estimate(at, ((high - low) / 2) ** 2)


def _find_value_at_rank(histogram: Mapping[int, int], rank: float) -> float:
    cumulative = 0
    for value in sorted(histogram):
        cumulative += histogram[value]
        if cumulative >= rank:
            return float(value)
    return float(max(histogram))


def compute_effect(a: Estimate, b: Estimate, level: SignificanceLevel) -> dict[str, Any]:
    """B against A, as the API writes an Effect."""
    delta, error = b.value - a.value, math.sqrt(a.variance + b.variance)
    half_width = level.z_score * error
    detectable = (level.z_score + _NORMAL.inv_cdf(POWER)) * error / a.value if a.value > 0 else None
    p = 2 * _NORMAL.cdf(-abs(delta) / error) if error else float(not delta)
    document: dict[str, Any] = {"baseline": a.value, "comparison": b.value, "delta": delta}
    document |= {"low": delta - half_width, "high": delta + half_width}
    document |= _compute_relative(a, b, level.z_score)
    document |= {"p": p, "min_detectable_effect": detectable}
    return document | {"direction": _classify_direction(document, level, half_width)}


def classify_insignificant(document: Mapping[str, Any], level: SignificanceLevel) -> str:
    """The word for what is not outside noise: no detectable change, or not enough data."""
    if not document["baseline"] and not document["comparison"]:
        return "unchanged"
    detectable = document["min_detectable_effect"]
    seen = detectable is not None and detectable <= level.min_effect
    return "unchanged" if seen else "inconclusive"


def _classify_direction(document: Mapping[str, Any], level: SignificanceLevel, half_width: float) -> str:
    if abs(document["delta"]) <= half_width:
        return classify_insignificant(document, level)
    if not document["baseline"]:
        return "new"
    if not document["comparison"]:
        return "removed"
    return "increased" if document["delta"] > 0 else "decreased"


def _compute_relative(a: Estimate, b: Estimate, z: float) -> dict[str, float | None]:
    """The relative change, its interval on the scale of logarithms."""
    if a.value <= 0:
        return {"relative": None, "relative_low": None, "relative_high": None}
    ratio = b.value / a.value
    if ratio <= 0:
        return {
            "relative": -1.0,
            "relative_low": -1.0,
            "relative_high": z * math.sqrt(b.variance) / a.value - 1,
        }
    half_width = z * math.sqrt(a.variance / a.value**2 + b.variance / b.value**2)
    return {
        "relative": ratio - 1,
        "relative_low": ratio * math.exp(-half_width) - 1,
        "relative_high": ratio * math.exp(half_width) - 1,
    }


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """q of each p: the share of false discoveries among all as unlikely (Benjamini & Hochberg 1995)."""
    order = sorted(range(len(p_values)), key=lambda at: p_values[at], reverse=True)
    q_values, smallest = [1.0] * len(p_values), 1.0
    for place, at in enumerate(order):
        smallest = min(smallest, p_values[at] * len(p_values) / (len(p_values) - place))
        q_values[at] = smallest
    return q_values
