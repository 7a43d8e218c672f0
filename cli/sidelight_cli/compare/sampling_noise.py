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
class Level:
    """At which level is judged: what of `alpha` this look spends, and the change one wants to see."""

    alpha: float
    look: int
    detect: float

    @property
    def spent(self) -> float:
        """alpha/(k(k+1)) for the k-th look, which adds up to alpha over any number of looks; of the only one
        (0) all."""
        return self.alpha / (self.look * (self.look + 1)) if self.look else self.alpha

    @property
    def z(self) -> float:
        return _NORMAL.inv_cdf(1 - self.spent / 2)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value and its variance."""

    value: float
    variance: float


def rate(samples: int, seconds: float) -> Estimate:
    """Samples per second."""
    return Estimate(samples / seconds, max(samples, 1) / seconds**2)


def share(samples: int, whole: int) -> Estimate:
    """The share of all samples, of which there is at least one."""
    return Estimate(samples / whole, max(samples * (1 - samples / whole), 1) / whole**2)


def mean(histogram: Mapping[int, int]) -> Estimate:
    """The mean of values that were counted."""
    whole = sum(histogram.values())
    middle = sum(value * count for value, count in histogram.items()) / whole
    spread = sum(count * (value - middle) ** 2 for value, count in histogram.items())
    return Estimate(middle, spread / whole / whole)


def quantile(histogram: Mapping[int, int], part: float) -> Estimate:
    """A quantile of values that were counted: the smallest value that so many are not above."""
    whole = sum(histogram.values())
    places = math.sqrt(whole * part * (1 - part))
    low, at, high = (_ranked(histogram, whole * part + step) for step in (-places, 0.0, places))
    return Estimate(at, ((high - low) / 2) ** 2)


def _ranked(histogram: Mapping[int, int], rank: float) -> float:
    below = 0
    for value in sorted(histogram):
        below += histogram[value]
        if below >= rank:
            return float(value)
    return float(max(histogram))


def effect(a: Estimate, b: Estimate, level: Level) -> dict[str, Any]:
    """B against A, as the API writes an Effect."""
    delta, error = b.value - a.value, math.sqrt(a.variance + b.variance)
    half = level.z * error
    detectable = (level.z + _NORMAL.inv_cdf(POWER)) * error / a.value if a.value > 0 else None
    p = 2 * _NORMAL.cdf(-abs(delta) / error) if error else float(not delta)
    told: dict[str, Any] = {"baseline": a.value, "comparison": b.value, "delta": delta}
    told |= {"low": delta - half, "high": delta + half}
    told |= _relative(a, b, level.z)
    told |= {"p": p, "min_detectable_effect": detectable}
    return told | {"direction": _direction(told, level, half)}


def quiet(told: Mapping[str, Any], level: Level) -> str:
    """The word for what is not outside noise: no detectable change, or not enough data."""
    if not told["baseline"] and not told["comparison"]:
        return "unchanged"
    detectable = told["min_detectable_effect"]
    seen = detectable is not None and detectable <= level.detect
    return "unchanged" if seen else "inconclusive"


def _direction(told: Mapping[str, Any], level: Level, half: float) -> str:
    if abs(told["delta"]) <= half:
        return quiet(told, level)
    if not told["baseline"]:
        return "new"
    if not told["comparison"]:
        return "removed"
    return "increased" if told["delta"] > 0 else "decreased"


def _relative(a: Estimate, b: Estimate, z: float) -> dict[str, float | None]:
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
    half = z * math.sqrt(a.variance / a.value**2 + b.variance / b.value**2)
    return {
        "relative": ratio - 1,
        "relative_low": ratio * math.exp(-half) - 1,
        "relative_high": ratio * math.exp(half) - 1,
    }


def benjamini_hochberg(chances: Sequence[float]) -> list[float]:
    """q of each p: the share of false discoveries among all as unlikely (Benjamini & Hochberg 1995)."""
    order = sorted(range(len(chances)), key=lambda at: chances[at], reverse=True)
    found, least = [1.0] * len(chances), 1.0
    for place, at in enumerate(order):
        least = min(least, chances[at] * len(chances) / (len(chances) - place))
        found[at] = least
    return found
