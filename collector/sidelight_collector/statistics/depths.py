"""How deep stacks are on two sides: the mean, three quantiles, and the largest gap between the distributions.

What is compared is samples by the depth of their stack, (D, P, T) over depths, pods and blocks. A sample is
the unit, so a side is as deep as its samples are, however many of them there are a second.

- The mean is a ratio (frames over samples) and is judged as every rate (see `spread`), with the passing of
  time measured on depth itself.
- A quantile is held in an interval by what is known of the distribution at it (Woodruff, 1952): where the
  share of samples no deeper than it is p give or take so much, it lies between the quantiles of p less and p
  plus that. The two intervals become one of the shift by MOVER (Zou and Donner, 2008), with what sides that
  are paired have in common. Depths are whole numbers and often few: percentiles of a bootstrap would jump
  between them, and a bootstrap draws pods or blocks, never both, as the shares here are clustered. p is the
  level at which the interval ends at 0.
- The largest gap is the greatest difference of the two cumulative distributions (Kolmogorov's distance), and
  its interval is the gap give or take what the largest deviation of any share is in 95 % of bootstrap rounds:
  as the gap is the largest of many, it is held by a band about all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.bootstrap import BootstrapRounds, compute_seed, draw_rounds
from sidelight_collector.statistics.inference.cluster_variance import (
    Effects,
    assign_directions,
    compute_effects,
)
from sidelight_collector.statistics.inference.design import Design, LoadAssumption, SideMatrix, build_design
from sidelight_collector.statistics.inference.student_t import POWER, t_quantile, two_sided_p_value

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]

QUANTILES: Final = (0.5, 0.95, 0.99)
_BISECTION_STEPS: Final = 30
_MAX_ERRORS: Final = 40.0


@dataclass(frozen=True, slots=True)
class LargestGap:
    """Where the distributions are farthest apart: of B so much more than of A is deeper than `depth`."""

    depth: int
    gap: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class DepthComparison:
    """In frames: effects of the mean (1,) and the quantiles (3,), the deepest stacks, the gap."""

    mean: Effects
    quantiles: Effects
    max_depths: tuple[int, int]
    gap: LargestGap


def compare_depths(
    design: Design, depth_values: I64, a: F64, b: F64, *, round_count: int = 1000
) -> DepthComparison | None:
    """Compare samples by depth, (D, P, T) of each side; `depth_values` are the D depths, ascending.

    None where a side has no samples.
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
        _find_largest_gap(design, depth_values, (a, b), share, round_count),
    )


def _compute_ratio_effects(
    design: Design, a: F64, b: F64, x: object, y: object, samples: tuple[F64, F64] | None
) -> Effects:
    """Effects of sums over samples; of shares if no numbers of samples are given."""
    one, two = np.asarray(x, np.float64), np.asarray(y, np.float64)
    own = build_per_sample_design(design, a.sum(0), b.sum(0), one.sum(0), two.sum(0))
    if samples is None:
        samples = (compute_share_sample_sizes(one, own.a), compute_share_sample_sizes(two, own.b))
    return compute_effects(own, one, two, *samples)


def build_per_sample_design(design: Design, a: F64, b: F64, whole_a: F64, whole_b: F64) -> Design:
    """The design of rates per sample (or second) that was taken: (P, T) of each side, and the whole's sums.

    What was watched are samples, and how slowly time passes is measured on what is compared itself.
    """
    one, two = replace(design.a, exposure=a), replace(design.b, exposure=b)
    load = (
        LoadAssumption.ASSUMED_EQUAL
        if design.load is LoadAssumption.ASSUMED_EQUAL
        else LoadAssumption.OWN_SERIES
    )
    made = build_design(
        one,
        two,
        whole_a,
        whole_b,
        same_time=design.same_time,
        same_pods=design.same_pods,
        min_effect=design.min_effect,
        load=load,
    )
    return replace(made, alpha=design.alpha)


def _compute_mean_sample_sizes(depth: I64, a: F64, b: F64) -> tuple[F64, F64]:
    """How many samples of a count scatter as much as the mean depth of these does."""
    found = []
    for cells in (a, b):
        weight = cells.sum((1, 2))
        mean = float(weight @ depth / weight.sum())
        variance = float(weight @ (depth - mean) ** 2 / weight.sum())
        found.append(np.array([weight.sum() * mean**2 / variance if variance else np.inf]))
    return found[0], found[1]


def compute_share_sample_sizes(deeper: F64, side: SideMatrix) -> F64:
    """How many samples of a count scatter, relatively, as much as a share of these does: n R/(1-R)."""
    rate = deeper.sum((1, 2)) / side.total_exposure
    with np.errstate(divide="ignore"):
        return np.where(rate > 0, side.total_exposure * rate / (1 - rate), 0.0)


def _count_deeper_samples(cells: F64) -> F64:
    """Samples deeper than each depth, in each cell."""
    found: F64 = cells.sum(0) - np.cumsum(cells, 0)
    return np.maximum(found, 0.0)


def _find_max_depth(depth: I64, cells: F64) -> int:
    return int(depth[np.flatnonzero(cells.sum((1, 2)))[-1]])


@dataclass(frozen=True, slots=True)
class _EmpiricalDistribution:
    """One side's distribution: the share of samples no deeper than each depth, and how sure it is."""

    depth: I64
    cumulative_share: F64
    variance: F64

    def quantile_index(self, p: float) -> int:
        """The place of a quantile: the least depth that so many samples do not exceed."""
        return min(int(np.searchsorted(self.cumulative_share, p - 1e-12)), len(self.depth) - 1)

    def quantile_interval(self, p: float, t: float) -> tuple[float, float]:
        """Between which depths a quantile lies, for so many standard errors."""
        place = self.quantile_index(p)
        # The share that is next below the quantile may be the nearer to p, and the less sure.
        error = t * float(np.sqrt(self.variance[max(place - 1, 0) : place + 1].max()))
        low, high = self.quantile_index(max(p - error, 0.0)), self.quantile_index(min(p + error, 1.0))
        return float(self.depth[low]), float(self.depth[high])


def _compare_quantiles(design: Design, depth: I64, a: F64, b: F64, deeper: Effects) -> Effects:
    known_a = _EmpiricalDistribution(depth, 1 - deeper.baseline, deeper.variance_a)
    known_b = _EmpiricalDistribution(depth, 1 - deeper.comparison, deeper.variance_b)
    rows = [
        _QuantileShift.build(known_a, known_b, p, deeper, paired=design.same_time or design.same_pods)
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
    variance, none = (half / errors) ** 2, np.zeros(len(rows))
    needed = errors + t_quantile(POWER, df)
    detectable = half / errors * needed / at_a
    p = two_sided_p_value([row.distance_from_zero() for row in rows], df)
    found = Effects(
        at_a, at_b, at_b - at_a, variance, df, needed, low, high,
        at_b / at_a - 1, relative_low, relative_high, p, detectable, (),
        none, variance / 2, variance / 2, none, none,
    )  # fmt: skip
    return assign_directions(found, design, found.p <= design.alpha)


@dataclass(frozen=True, slots=True)
class _QuantileShift:
    """One quantile of both sides, and how far what is known of them goes together."""

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
        """The interval of the shift for so many standard errors."""
        return self._compute_mover_interval(
            self.distribution_a.quantile_interval(self.probability, t),
            self.distribution_b.quantile_interval(self.probability, t),
        )

    def relative_interval(self, t: float) -> tuple[float, float]:
        """That of the relative change, its ratio on the log scale."""
        low_a, high_a = self.distribution_a.quantile_interval(self.probability, t)
        low_b, high_b = self.distribution_b.quantile_interval(self.probability, t)
        log = np.log([low_a, high_a, low_b, high_b, self.a, self.b])
        shift = float(log[5] - log[4])
        down = _combine_errors(float(log[5] - log[2]), float(log[1] - log[4]), self.correlation)
        up = _combine_errors(float(log[3] - log[5]), float(log[4] - log[0]), self.correlation)
        return float(np.exp(shift - down)) - 1, float(np.exp(shift + up)) - 1

    def distance_from_zero(self) -> float:
        """How many standard errors the interval takes to reach 0."""
        least, most = 0.0, _MAX_ERRORS
        for _ in range(_BISECTION_STEPS if self.a != self.b else 0):
            middle = (least + most) / 2
            low, high = self.interval(middle)
            least, most = (least, middle) if low <= 0 <= high else (middle, most)
        return least

    def _compute_mover_interval(self, a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
        delta = self.b - self.a
        down = _combine_errors(self.b - b[0], a[1] - self.a, self.correlation)
        up = _combine_errors(b[1] - self.b, self.a - a[0], self.correlation)
        return delta - down, delta + up


def _combine_errors(one: float, two: float, correlation: float) -> float:
    return float(np.sqrt(max(one * one + two * two - 2 * correlation * one * two, 0.0)))


def _find_largest_gap(
    design: Design, depth: I64, sides: tuple[F64, F64], deeper: Effects, round_count: int
) -> LargestGap:
    a, b = sides
    # Of B so much more is deeper: 1 - F turns the sign of the difference.
    differences = deeper.delta
    place = int(np.argmax(np.abs(differences)))
    one, two = replace(design.a, exposure=a.sum(0)), replace(design.b, exposure=b.sum(0))
    bootstrap_rounds = draw_rounds(replace(design, a=one, b=two), round_count, seed=compute_seed(a, b))
    band = _compute_band(bootstrap_rounds, deeper, a, b)
    gap = float(differences[place])
    return LargestGap(int(depth[place]), gap, max(gap - band, -1.0), min(gap + band, 1.0))


def _compute_band(bootstrap_rounds: BootstrapRounds, deeper: Effects, a: F64, b: F64) -> float:
    """What the largest deviation of any share is within, in all but alpha of the rounds.

    A round draws pods or blocks. Where the shares themselves, clustered both ways, are less sure than what
    one share deviates by in the rounds, the band is wider by as much.
    """
    sums_a, sums_b = (
        np.cumsum(weights.resample(cells), axis=1, dtype=np.float64)
        for weights, cells in ((bootstrap_rounds.a, a), (bootstrap_rounds.b, b))
    )
    has = (sums_a[:, -1] > 0) & (sums_b[:, -1] > 0)
    if not has.any():
        return 1.0
    shares = sums_a[has] / sums_a[has, -1:] - sums_b[has] / sums_b[has, -1:]
    off = np.abs(shares - deeper.delta)
    band, one = (
        float(np.quantile(off.max(1), 1 - bootstrap_rounds.alpha)),
        float(np.quantile(off, 1 - bootstrap_rounds.alpha, 0).max()),
    )
    sure = float(((deeper.high - deeper.low) / 2).max())
    return max(band * bootstrap_rounds.width_factor, band * sure / one if one else sure)
