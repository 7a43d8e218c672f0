"""Compare the stack depths of two sides: mean, quantiles and largest gap.

The input is the number of samples by stack depth, (D, P, T) over depths, pods and blocks. A sample is the
unit, so the depth of a side does not depend on its number of samples per second.

- The mean is a ratio (frames over samples) and is tested like every rate (see `effect_size`).
- The interval of a quantile follows from the uncertainty of the distribution at the quantile (Woodruff,
  1952): if the share of samples no deeper than the quantile is p ± e, the quantile lies between the
  quantiles of p - e and p + e. MOVER (Zou and Donner, 2008) combines both intervals into one of the shift,
  with the covariance of paired sides. The p-value is the level at which the interval ends at 0.
- The largest gap is the greatest difference of the two cumulative distributions (Kolmogorov's distance). Its
  band covers all of their differences: the inequality of Dvoretzky, Kiefer and Wolfowitz with Massart's
  constant (Annals of Probability 18, 1990), for as many independent samples as the most uncertain share has.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import Design, SideMatrix
from sidelight_collector.statistics.inference.effect_size import (
    Effects,
    assign_directions,
    compute_effects,
)
from sidelight_collector.statistics.inference.empirical_null import NO_NULL
from sidelight_collector.statistics.inference.student_t import (
    MAX_DF,
    compute_required_errors,
    t_quantile,
    two_sided_p_value,
)

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

QUANTILES: Final = (0.5, 0.95, 0.99)
_BISECTION_STEPS: Final = 30
_MAX_ERRORS: Final = 40.0


@dataclass(frozen=True, slots=True)
class LargestGap:
    """The depth at which the distributions are farthest apart.

    `gap` is the share of B's samples deeper than `depth` minus the same share of A's. `low` and `high` are
    its interval.
    """

    depth: int
    gap: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DepthComparison:
    """The comparison of stack depths.

    `mean` (1,) and `quantiles` (3,) are effects in frames. `max_depths` are the deepest stacks of A and B
    in frames.
    """

    mean: Effects
    quantiles: Effects
    max_depths: tuple[int, int]
    gap: LargestGap


def compare_depths(design: Design, depth_values: I64, a: F64, b: F64) -> DepthComparison | None:
    """Compare the samples of both sides by stack depth.

    `a` and `b` are the samples, (D, P, T) of each side; `depth_values` are the D depths, ascending. The
    smallest relevant size of `design` is in frames. Returns None if a side has no samples.
    """
    if not a.sum() or not b.sum():
        return None
    value = depth_values.astype(np.float64)[:, None, None]
    mean = _compute_ratio_effects(
        design,
        a,
        b,
        [(a * value).sum(0)],
        [(b * value).sum(0)],
        _compute_mean_sample_sizes(depth_values, a, b),
    )
    deeper_a, deeper_b = _count_deeper_samples(a), _count_deeper_samples(b)
    share = _compute_ratio_effects(design, a, b, deeper_a, deeper_b, None)
    return DepthComparison(
        mean,
        _compare_quantiles(design, depth_values, a, b, share),
        (_find_max_depth(depth_values, a), _find_max_depth(depth_values, b)),
        _find_largest_gap(design, depth_values, share),
    )


def _compute_ratio_effects(
    design: Design, a: F64, b: F64, x: object, y: object, samples: tuple[F64, F64] | None
) -> Effects:
    """Compute the effects of sums over samples.

    `x` and `y` are the sums of A and B, (K, P, T). If `samples` is None, they are counts of samples, and
    the effects are those of shares.
    """
    sums_a, sums_b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    per_sample = build_per_sample_design(design, a.sum(0), b.sum(0))
    if samples is None:
        samples = (
            compute_share_sample_sizes(sums_a, per_sample.a),
            compute_share_sample_sizes(sums_b, per_sample.b),
        )
    return compute_effects(per_sample, sums_a, sums_b, *samples)


def build_per_sample_design(design: Design, a: F64, b: F64) -> Design:
    """Build the design of rates per sample (or per sampled second).

    The exposure is the samples of each side, `a` and `b`, (P, T). No other hours are known to have the same
    samples, and no function shows how far samples differ between periods.
    """
    return replace(
        design,
        a=replace(design.a, exposure=a),
        b=replace(design.b, exposure=b),
        other_days=False,
        null=NO_NULL,
    )


def _compute_mean_sample_sizes(depth: I64, a: F64, b: F64) -> tuple[F64, F64]:
    """Return the size of a count that scatters as much as the mean depth, (1,) each.

    The relative variance of the mean of n samples is variance/(n mean²), that of a count is its inverse.
    """
    sizes = []
    for cells in (a, b):
        weight = cells.sum((1, 2))
        mean = float(weight @ depth / weight.sum())
        variance = float(weight @ (depth - mean) ** 2 / weight.sum())
        sizes.append(np.array([weight.sum() * mean**2 / variance if variance else np.inf]))
    return sizes[0], sizes[1]


def compute_share_sample_sizes(deeper: F64, side: SideMatrix) -> F64:
    """Return the size of a count that scatters as much as a share: n R/(1-R).

    Scatter is relative. `deeper` (K, P, T) are the samples that make up the share, out of the exposure of
    `side`. The result has shape (K,).
    """
    rate = deeper.sum((1, 2)) / side.total_exposure
    with np.errstate(divide="ignore"):
        return np.where(rate > 0, side.total_exposure * rate / (1 - rate), 0.0)


def _count_deeper_samples(cells: F64) -> F64:
    """Count the samples deeper than each depth, in each cell."""
    deeper: F64 = cells.sum(0) - np.cumsum(cells, 0)
    return np.maximum(deeper, 0.0)


def _find_max_depth(depth: I64, cells: F64) -> int:
    return int(depth[np.flatnonzero(cells.sum((1, 2)))[-1]])


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


def _compare_quantiles(design: Design, depth: I64, a: F64, b: F64, deeper: Effects) -> Effects:
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


def _find_largest_gap(design: Design, depth: I64, deeper: Effects) -> LargestGap:
    """Find the largest gap from the shares of deeper samples.

    It is positive where more of B is deeper.
    """
    place = int(np.argmax(np.abs(deeper.delta)))
    gap, band = float(deeper.delta[place]), _compute_band(deeper, design.alpha)
    return LargestGap(int(depth[place]), gap, max(gap - band, -1.0), min(gap + band, 1.0))


def _compute_band(deeper: Effects, alpha: float) -> float:
    """Return the half-width of the band around all differences of shares.

    A share of n independent samples has a variance of at most 1/(4 n), and no share of them is off by more
    than sqrt(log(2/alpha)/(2 n)). Few pods make it wider, as Student's t is wider than the normal.
    """
    level = 1 - alpha / 2
    stretch = t_quantile(level, deeper.df) / t_quantile(level, MAX_DF)
    return float(np.sqrt(2 * log(2 / alpha)) * (stretch * np.sqrt(deeper.variance)).max())
