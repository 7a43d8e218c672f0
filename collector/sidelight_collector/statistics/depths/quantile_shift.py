"""Differences of quantiles between two sides, with intervals and tests.

The interval of a quantile follows from the uncertainty of the distribution at the quantile (Woodruff,
Journal of the American Statistical Association 47, 1952): if the share of samples no deeper than the
quantile is p ± e, the quantile lies between the quantiles of p - e and p + e. MOVER (Zou and Donner,
Statistics in Medicine 27, 2008) combines both intervals into one of the shift, with the covariance of paired
sides. The p-value is the level at which the interval ends at 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.effect_size import Effects, assign_directions
from sidelight_collector.statistics.inference.student_t import (
    compute_required_errors,
    t_quantile,
    two_sided_p_value,
)

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

QUANTILES: Final = (0.5, 0.95, 0.99)
_BISECTION_STEPS: Final = 30
_MAX_ERRORS: Final = 40.0


def compare_quantiles(design: Design, depth: I64, deeper: Effects) -> Effects:
    """Compare the quantiles of both sides.

    `deeper` are the effects of the shares of samples deeper than each depth.
    """
    distribution_a = _EmpiricalDistribution(depth, 1 - deeper.baseline, deeper.variance_a)
    distribution_b = _EmpiricalDistribution(depth, 1 - deeper.comparison, deeper.variance_b)
    rows = [
        _QuantileShift.build(
            distribution_a, distribution_b, p, deeper, paired=design.same_time or design.same_pods
        )
        for p in QUANTILES
    ]
    df = np.array([row.df for row in rows])
    errors = t_quantile(1 - design.alpha / 2, df)
    at_a, at_b = np.array([row.a for row in rows]), np.array([row.b for row in rows])
    low, high = np.transpose([row.interval(t) for row, t in zip(rows, errors.tolist(), strict=True)])
    relative_low, relative_high = np.transpose(
        [row.relative_interval(t) for row, t in zip(rows, errors.tolist(), strict=True)]
    )
    half = (high - low) / 2
    variance, zeros = (half / errors) ** 2, np.zeros(len(rows))
    needed = compute_required_errors(1 - design.alpha / 2, df)
    detectable = half / errors * needed / at_a
    p = two_sided_p_value([row.distance_from_zero() for row in rows], df)
    effects = Effects(
        at_a, at_b, at_b - at_a, variance, df, needed, low, high,
        at_b / at_a - 1, relative_low, relative_high, p, detectable, (),
        zeros, variance / 2, variance / 2, zeros, zeros,
    )  # fmt: skip
    return assign_directions(effects, design, effects.p <= design.alpha)


@dataclass(frozen=True, slots=True)
class _EmpiricalDistribution:
    """The depth distribution of one side and its uncertainty.

    `cumulative_share` is the share of samples no deeper than each depth, `variance` the variance of that
    share.
    """

    depth: I64
    cumulative_share: F64
    variance: F64

    def quantile_index(self, p: float) -> int:
        """Return the index of the least depth that the share `p` does not exceed."""
        return min(int(np.searchsorted(self.cumulative_share, p - 1e-12)), len(self.depth) - 1)

    def quantile_interval(self, p: float, t: float) -> tuple[float, float]:
        """Return the depths between which a quantile lies, for `t` standard errors."""
        place = self.quantile_index(p)
        # The share just below the quantile may be nearer to p and less certain.
        error = t * float(np.sqrt(self.variance[max(place - 1, 0) : place + 1].max()))
        low, high = self.quantile_index(max(p - error, 0.0)), self.quantile_index(min(p + error, 1.0))
        return float(self.depth[low]), float(self.depth[high])


@dataclass(frozen=True, slots=True)
class _QuantileShift:
    """One quantile of both sides, and the correlation of their errors."""

    distribution_a: _EmpiricalDistribution
    distribution_b: _EmpiricalDistribution
    probability: float
    df: float
    correlation: float

    @classmethod
    def build(
        cls, a: _EmpiricalDistribution, b: _EmpiricalDistribution, p: float, deeper: Effects, *, paired: bool
    ) -> _QuantileShift:
        place = a.quantile_index(p)
        both = float(np.sqrt(deeper.variance_a[place] * deeper.variance_b[place]))
        common = (deeper.variance_a[place] + deeper.variance_b[place] - deeper.variance[place]) / 2
        correlation = float(np.clip(common / both, 0.0, 1.0)) if paired and both else 0.0
        return cls(a, b, p, float(min(deeper.df[place], deeper.df[b.quantile_index(p)])), correlation)

    @property
    def a(self) -> float:
        return float(self.distribution_a.depth[self.distribution_a.quantile_index(self.probability)])

    @property
    def b(self) -> float:
        return float(self.distribution_b.depth[self.distribution_b.quantile_index(self.probability)])

    def interval(self, t: float) -> tuple[float, float]:
        """Return the interval of the shift for `t` standard errors."""
        return self._compute_mover_interval(
            self.distribution_a.quantile_interval(self.probability, t),
            self.distribution_b.quantile_interval(self.probability, t),
        )

    def relative_interval(self, t: float) -> tuple[float, float]:
        """Return the interval of the relative change for `t` standard errors.

        It is computed from the ratio on the log scale.
        """
        low_a, high_a = self.distribution_a.quantile_interval(self.probability, t)
        low_b, high_b = self.distribution_b.quantile_interval(self.probability, t)
        log = np.log([low_a, high_a, low_b, high_b, self.a, self.b])
        shift = float(log[5] - log[4])
        down = _combine_errors(float(log[5] - log[2]), float(log[1] - log[4]), self.correlation)
        up = _combine_errors(float(log[3] - log[5]), float(log[4] - log[0]), self.correlation)
        return float(np.exp(shift - down)) - 1, float(np.exp(shift + up)) - 1

    def distance_from_zero(self) -> float:
        """Return how many standard errors the interval needs to reach 0."""
        low_errors, high_errors = 0.0, _MAX_ERRORS
        for _ in range(_BISECTION_STEPS if self.a != self.b else 0):
            middle = (low_errors + high_errors) / 2
            low, high = self.interval(middle)
            low_errors, high_errors = (low_errors, middle) if low <= 0 <= high else (middle, high_errors)
        return low_errors

    def _compute_mover_interval(self, a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        delta = self.b - self.a
        down = _combine_errors(self.b - b[0], a[1] - self.a, self.correlation)
        up = _combine_errors(b[1] - self.b, self.a - a[0], self.correlation)
        return delta - down, delta + up


def _combine_errors(first: float, second: float, correlation: float) -> float:
    return float(np.sqrt(max(first * first + second * second - 2 * correlation * first * second, 0.0)))
