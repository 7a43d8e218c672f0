"""Statistics of two single recordings, from counting noise alone.

A count of n samples has a standard error of about √n, as in `sidelight_model.change`. A part n of N samples
has a standard error of √(n(1 - n/N)). A count of zero has the standard error of one sample. The standard
error of a quantile is that of its rank, √(Np(1-p)) positions in the sorted samples (David & Nagaraja, Order
Statistics, 2003, section 7.1).

One run of each program does not show how much its runs differ. These intervals are therefore the narrowest
possible.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

POWER: Final = 0.8
"""Probability of detecting a change as large as the minimum detectable effect."""
FDR: Final = 0.05
"""False-discovery rate over all functions of a comparison."""
_NORMAL: Final = NormalDist()


@dataclass(frozen=True, slots=True)
class SignificanceLevel:
    """The significance level of one analysis, and the minimum effect to detect.

    `alpha` is the false-alarm probability over all analyses. `analysis_index` counts interim analyses
    from 1; it is 0 for a single analysis. `min_effect` is a relative change.
    """

    alpha: float
    analysis_index: int
    min_effect: float

    @property
    def spent_alpha(self) -> float:
        """The part of `alpha` that this analysis may use.

        The k-th interim analysis gets alpha/(k(k+1)), which adds up to at most `alpha` over any number of
        analyses. A single analysis (index 0) gets all of `alpha`.
        """
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
    """Estimate samples per second."""
    return Estimate(samples / seconds, max(samples, 1) / seconds**2)


def estimate_share(samples: int, total: int) -> Estimate:
    """Estimate the share of `samples` in `total`, which is at least 1."""
    return Estimate(samples / total, max(samples * (1 - samples / total), 1) / total**2)


def estimate_mean(histogram: Mapping[int, int]) -> Estimate:
    """Estimate the mean of a histogram (value → count)."""
    total = sum(histogram.values())
    average = sum(value * count for value, count in histogram.items()) / total
    squared_deviations = sum(count * (value - average) ** 2 for value, count in histogram.items())
    return Estimate(average, squared_deviations / total / total)


def estimate_quantile(histogram: Mapping[int, int], probability: float) -> Estimate:
    """Estimate a quantile of a histogram (value → count).

    The quantile is the smallest value with at least `probability` of the counts at or below it.
    """
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
    """Compute the effect of comparison `b` against baseline `a`, as in the API."""
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
    """Return the direction of an insignificant effect.

    It is `unchanged` if a change of `level.min_effect` would have been detected, else `inconclusive`.
    """
    if not document["baseline"] and not document["comparison"]:
        return "unchanged"
    detectable = document["min_detectable_effect"]
    is_sensitive = detectable is not None and detectable <= level.min_effect
    return "unchanged" if is_sensitive else "inconclusive"


def _classify_direction(document: Mapping[str, Any], level: SignificanceLevel, half_width: float) -> str:
    if abs(document["delta"]) <= half_width:
        return classify_insignificant(document, level)
    if not document["baseline"]:
        return "new"
    if not document["comparison"]:
        return "removed"
    return "increased" if document["delta"] > 0 else "decreased"


def _compute_relative(a: Estimate, b: Estimate, z: float) -> dict[str, float | None]:
    """Return the relative change with its interval, computed on the log scale."""
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
    """Return the q-value of each p-value, in the same order.

    A q-value is the expected share of false discoveries among all results with a p-value at most as large
    (Benjamini & Hochberg 1995).
    """
    order = sorted(range(len(p_values)), key=lambda at: p_values[at], reverse=True)
    q_values, smallest = [1.0] * len(p_values), 1.0
    for place, at in enumerate(order):
        smallest = min(smallest, p_values[at] * len(p_values) / (len(p_values) - place))
        q_values[at] = smallest
    return q_values
