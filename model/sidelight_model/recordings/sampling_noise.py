"""Statistics of two single recordings, from the counting noise of their samples.

A count of n samples has a standard error of about √n, as in `sidelight_model.change`. A part n of N samples
has a standard error of √(n(1 - n/N)). A count of zero has the standard error of one sample. The standard
error of a quantile is that of its rank, √(Np(1-p)) positions in the sorted samples (David & Nagaraja, Order
Statistics, 2003, section 7.1).

One run of each program does not show how much its runs differ. Ten or more functions do: most of them did
not change, so their differences show the shift that all have in common (if one function grows, the shares of
the others shrink) and the variance between runs that counting does not explain. This is the empirical null of
a collector's comparison (Efron, JASA 99, 2004). A change must differ from both: 0 and the common shift.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Final

from sidelight_model.change import spend_alpha

POWER: Final = 0.8
"""Probability of detecting a change as large as the minimum detectable effect."""
FDR: Final = 0.05
"""False-discovery rate over all functions of a comparison."""
MIN_FUNCTIONS: Final = 10
"""Fewer functions do not show a common shift."""
MEDIAN_EFFICIENCY: Final = 0.37
"""Efficiency of the median absolute deviation (Huber, Robust Statistics, 1981, section 1.2)."""
_MEDIAN_CHI_SQUARED: Final = 0.45494
"""Median of the chi-squared distribution with one degree of freedom."""
_BISECTIONS: Final = 40
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
        """The part of `alpha` that this analysis may use."""
        return spend_alpha(self.alpha, self.analysis_index)

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


@dataclass(frozen=True, slots=True)
class CommonShift:
    """The shift and the variance between runs of unchanged functions' log ratios."""

    shift: float = 0.0
    variance: float = 0.0
    df: float = 1.0
    """Degrees of freedom of the variance."""


NO_SHIFT: Final = CommonShift()


def estimate_common_shift(pairs: Sequence[tuple[Estimate, Estimate]]) -> CommonShift:
    """Estimate the common shift of functions, most of which did not change.

    `pairs` are the values of each function in A and B, above 0. The shift is the weighted median of the log
    ratios. With the variance added, the weighted median of the squared standardized ratios is that of a
    chi-squared distribution. Fewer than `MIN_FUNCTIONS` show neither.
    """
    if len(pairs) < MIN_FUNCTIONS:
        return NO_SHIFT
    ratios = [math.log(b.value / a.value) for a, b in pairs]
    variances = [a.variance / a.value**2 + b.variance / b.value**2 for a, b in pairs]
    weights = [1 / math.sqrt(variance) for variance in variances]
    shift = _find_weighted_median(ratios, weights)
    squares = [(ratio - shift) ** 2 for ratio in ratios]

    def is_explained(excess: float) -> bool:
        standardized = [
            square / (variance + excess) for square, variance in zip(squares, variances, strict=True)
        ]
        return _find_weighted_median(standardized, weights) <= _MEDIAN_CHI_SQUARED

    df = max(MEDIAN_EFFICIENCY * (len(pairs) - 1), 1.0)
    if is_explained(0.0):
        return CommonShift(shift, 0.0, df)
    low, high = 0.0, max(squares) / _MEDIAN_CHI_SQUARED
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_explained(middle) else (middle, high)
    return CommonShift(shift, high, df)


def _find_weighted_median(values: Sequence[float], weights: Sequence[float]) -> float:
    half, below = sum(weights) / 2, 0.0
    for value, weight in sorted(zip(values, weights, strict=True)):
        below += weight
        if below >= half:
            return value
    raise ValueError("no values")


def compute_effect(
    a: Estimate,
    b: Estimate,
    level: SignificanceLevel,
    *,
    min_relevant: float = 0.0,
    common: CommonShift = NO_SHIFT,
) -> dict[str, Any]:
    """Compute the effect of comparison `b` against baseline `a`, as in the API.

    A change outside noise that is smaller than `min_relevant` is minor. The interval contains the difference
    from A and the difference from A after the common shift, which only shares have.
    """
    delta, mean = b.value - a.value, (a.value + b.value) / 2
    # What varies between runs of a share is its ratio to the rest of the profile.
    between = common.variance * (1 - mean) ** 2 if common.variance else 0.0
    period = between * mean**2
    error = math.sqrt(a.variance + b.variance + period)
    df = common.df * (error**2 / period) ** 2 if period else math.inf
    critical = _convert_to_student(level.z_score, df)
    shifted = b.value * math.exp(-common.shift) - a.value
    nearest = min(delta, shifted, key=abs) if delta * shifted > 0 else 0.0
    half_width = critical * error
    detectable = (critical + _NORMAL.inv_cdf(POWER)) * error / a.value if a.value > 0 else None
    p = 2 * _NORMAL.cdf(-_convert_to_normal(abs(nearest) / error, df)) if error else float(not nearest)
    document: dict[str, Any] = {"baseline": a.value, "comparison": b.value, "delta": delta}
    document |= {"low": min(delta, shifted) - half_width, "high": max(delta, shifted) + half_width}
    document |= _compute_relative(a, b, critical, CommonShift(common.shift, between))
    document |= {"p": p, "min_detectable_effect": detectable}
    is_changed = abs(nearest) > half_width
    return document | {"direction": _classify_direction(document, level, min_relevant, is_changed=is_changed)}


def _convert_to_normal(t: float, df: float) -> float:
    """Convert Student's t to a normal deviate of the same probability.

    Wallace, Annals of Mathematical Statistics 30, 1959.
    """
    if math.isinf(df):
        return t
    return (8 * df + 1) / (8 * df + 3) * math.sqrt(df * math.log1p(t * t / df))


def _convert_to_student(z: float, df: float) -> float:
    """Undo `_convert_to_normal`."""
    if math.isinf(df):
        return z
    return math.sqrt(df * math.expm1((z * (8 * df + 3) / (8 * df + 1)) ** 2 / df))


def classify_insignificant(document: Mapping[str, Any], level: SignificanceLevel) -> str:
    """Return the direction of an insignificant effect.

    It is `unchanged` if a change of `level.min_effect` would have been detected, else `inconclusive`.
    """
    if not document["baseline"] and not document["comparison"]:
        return "unchanged"
    detectable = document["min_detectable_effect"]
    is_sensitive = detectable is not None and detectable <= level.min_effect
    return "unchanged" if is_sensitive else "inconclusive"


def _classify_direction(
    document: Mapping[str, Any], level: SignificanceLevel, min_relevant: float, *, is_changed: bool
) -> str:
    if not is_changed:
        return classify_insignificant(document, level)
    if abs(document["delta"]) < min_relevant:
        return "minor"
    if not document["baseline"]:
        return "new"
    if not document["comparison"]:
        return "removed"
    return "increased" if document["delta"] > 0 else "decreased"


def _compute_relative(a: Estimate, b: Estimate, z: float, common: CommonShift) -> dict[str, float | None]:
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
    half_width = z * math.sqrt(a.variance / a.value**2 + b.variance / b.value**2 + common.variance)
    ends = (0.0, -common.shift)
    return {
        "relative": ratio - 1,
        "relative_low": ratio * math.exp(min(ends) - half_width) - 1,
        "relative_high": ratio * math.exp(max(ends) + half_width) - 1,
    }
