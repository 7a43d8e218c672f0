"""Effects between two sides, with a cluster-robust variance.

A rate is R = ΣX/ΣW, seconds over exposure. To first order its error is the sum over the cells of e = (X - R
W)/ΣW (linearisation; Cochran, Sampling Techniques, 1977, §6.3), so its variance is that of sums of e:

- Cells of one pod are correlated, and so are cells of one time, so the variance is clustered both ways
  (Cameron, Gelbach and Miller, 2011; with times that depend on each other: Chiang, Hansen and Sasaki,
  2024). It is the sum of three separable parts: lasting differences between pods, variation in time within
  each pod, and variation in time common to all pods.
- Common variation is the series of the column sums. `autocorrelation` gives the weights that turn its
  projections on waves into a variance. The part that the pods by themselves account for is subtracted.
- Variation within a pod is what remains in its row. Lasting differences are the rest of the sums of rows:
  n/(n-1) times the sum of e squared, beyond the variation within pods. Relative to their rate, pods of both
  sides are assumed to differ alike: a canary of one pod has the differences of the pods it is compared
  with. In families, pods that seem alike are assumed to be alike. For a single quantity they are not: a
  test that decides so first is too certain for pods that differ a little, and not certain enough for all
  others.
- Where rows (or columns) of both sides are paired, e of B minus e of A, each relative to its rate, replaces
  both, and their common part cancels.
- n samples scatter by the square root of n. Half an interval is at least one standard error of that. In a
  family, or where nothing else is observed, it is at least half an interval of that.
- Sides of different times also vary between periods, and all unchanged functions may have a common shift
  (`empirical_null`). A change must exceed the variance about both 0 and the shift, and intervals include
  both.
- A quantity that only one side has may be more certain than Student's t allows (`zero_counts`).

Degrees of freedom are Satterthwaite's. The interval of the relative change is Fieller's (1954). It contains
0 exactly where the test of the difference does not reject, and has no upper end where A's rate may be 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import (
    SINGLE_TEST_LEVEL_FACTOR,
    Design,
    SideMatrix,
)
from sidelight_collector.statistics.inference.fieller import compute_fieller_interval
from sidelight_collector.statistics.inference.residuals import (
    Residuals,
    compute_between_variance,
    compute_paired_squares,
    compute_residuals,
    scale_to_mean,
)
from sidelight_collector.statistics.inference.shrinkage import PriorVariance, estimate_prior_variance
from sidelight_collector.statistics.inference.student_t import (
    MAX_DF,
    POWER,
    compute_required_errors,
    t_quantile,
    two_sided_p_value,
)
from sidelight_collector.statistics.inference.zero_counts import (
    compute_zero_count_p_value,
    upper_bound_for_zero,
)
from sidelight_model.change import Direction

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

MAX_COMMON_RATIO: Final = 2.0
"""Common variation may be this many times what the pods explain, by chance.

With 8 cosines it exceeds this in one of twenty (the F distribution of 8 and 56 degrees of freedom).
"""
NO_PRIOR: Final = PriorVariance()
"""The prior of a quantity that has no others of its kind."""
MAX_POOLING_RATIO: Final = 0.75
"""Pods are pooled up to this ratio of the variance between them to that within."""
MIN_COUNTING_ERRORS: Final = 1.0
"""Least half-width of an interval in standard errors of counting.

A quantile of them would keep intervals of few pods too wide: Student's t allows for pods that lie near each
other by chance.
"""


@dataclass(frozen=True, slots=True)
class Effects:
    """The effects of K quantities; every array has shape (K,).

    `baseline`, `comparison`, `delta`, `low` and `high` are rates (seconds per pod-second or request),
    variances are their squares. `required_errors` is the size of a change, in standard errors, that is
    detected with a probability of 80 %. `min_detectable_effect` is that size as a relative change, infinite
    where A is 0. `relative` is B/A - 1 with its interval: NaN where A is 0 (`relative` and both ends),
    infinite where an end is not bounded. `lasting_variance` is the part of `variance` that more time does
    not reduce: the lasting differences between pods and between periods. `variance_a` and
    `counting_variance_a` are of side A alone; their ratio is its over-dispersion. `prior` is the
    usual variance of the family.
    """

    baseline: F64
    comparison: F64
    delta: F64
    variance: F64
    df: F64
    required_errors: F64
    low: F64
    high: F64
    relative: F64
    relative_low: F64
    relative_high: F64
    p: F64
    min_detectable_effect: F64
    direction: tuple[Direction, ...]
    lasting_variance: F64
    variance_a: F64
    variance_b: F64
    counting_variance_a: F64
    counting_variance_b: F64
    prior: PriorVariance = NO_PRIOR


def compute_effects(
    design: Design,
    a: F64,
    b: F64,
    samples_a: F64,
    samples_b: F64,
    *,
    with_shrinkage: bool = False,
    is_family: bool = False,
    prior: PriorVariance = NO_PRIOR,
) -> Effects:
    """Compute the effects of K quantities.

    `a` and `b` are their seconds in the cells of each side, (K, P, T), `samples_a` and `samples_b` their
    samples, (K,). Infinitely many samples mean no counting noise. Every quantity is tested by itself; for a
    family (`is_family`) see `fdr` and `assign_directions`. Quantities `with_shrinkage`, such as functions,
    estimate their usual variance together (see `shrinkage`). `prior` is such an estimate from others.
    """
    side_a, side_b = compute_residuals(design, 0, a), compute_residuals(design, 1, b)
    counting_a = _compute_counting_variance(side_a, side_b, samples_a, samples_b)
    counting_b = _compute_counting_variance(side_b, side_a, samples_b, samples_a)
    several = with_shrinkage or is_family
    level_factor = 1.0 if several else SINGLE_TEST_LEVEL_FACTOR
    alone_a, alone_b, both = _estimate_variance(design, side_a, side_b, pooled=several)
    floor = counting_a + counting_b
    mean = (side_a.rate + side_b.rate) / 2
    if with_shrinkage:
        prior = estimate_prior_variance(
            both.variance, both.df, floor, mean, _build_error_matrix(design, side_a, side_b)
        )
    both = both.shrink(prior, floor, mean)
    level = 1 - level_factor * design.alpha / 2
    least, surest = t_quantile(level, both.df), t_quantile(level, MAX_DF)
    counted = surest if several else np.where(both.variance > 0, MIN_COUNTING_ERRORS, surest)
    half_seen, half_counted = least * np.sqrt(both.variance), counted * np.sqrt(floor)
    is_counting_limited, df = half_counted > half_seen, both.df
    # The floor holds at this level; beyond it, the tails are those of the observed variance.
    variance = np.where(is_counting_limited, (half_counted / least) ** 2, both.variance)
    part = np.where(is_counting_limited, _compute_share_a(counting_a, counting_b), both.share_a)
    steady = least * (surest + t_quantile(POWER, MAX_DF)) / counted
    period = design.null.variance * mean**2
    if design.null.of_shares:
        period *= np.maximum(1 - mean, 0.0) ** 2
    if design.null.variance:
        part = _compute_share_a(part * variance + period / 2, (1 - part) * variance + period / 2)
        df = _compute_df(variance + period, variance**2 / df + period**2 / design.null.df)
        variance, least = variance + period, t_quantile(level, df)
    half = least * np.sqrt(variance)
    delta = side_b.rate - side_a.rate
    # What all unchanged functions have in common is no change of one of them.
    shifted = side_b.rate * np.exp(-design.null.shift)
    nearest = np.where(
        delta * (shifted - side_a.rate) > 0, _nearest_to_zero(delta, shifted - side_a.rate), 0.0
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        p = np.where(
            variance > 0,
            two_sided_p_value(nearest / np.sqrt(variance), df),
            np.where(nearest == 0, 1.0, 0.0),
        )
        p = np.minimum(p / level_factor, 1.0)
        relative = np.where(side_a.rate > 0, side_b.rate / side_a.rate - 1, np.nan)
    needed = np.where(is_counting_limited, steady, compute_required_errors(level, df, both.replication_df))
    detectable = _compute_detectable(side_a.rate, needed**2 * variance, part)
    ends = [
        compute_fieller_interval(side_a.rate, rate, part * half**2, (1 - part) * half**2)
        for rate in (side_b.rate, shifted)
    ]
    ratio_low, ratio_high = np.minimum(ends[0][0], ends[1][0]), np.maximum(ends[0][1], ends[1][1])
    low = np.minimum(delta, shifted - side_a.rate) - half
    high = np.maximum(delta, shifted - side_a.rate) + half
    is_observed = design.a.total_exposure > 0 and design.b.total_exposure > 0
    if not is_observed:
        p = np.ones_like(p)
    effects = Effects(
        side_a.rate, side_b.rate, delta, variance, df, needed, low, high,
        relative, ratio_low - 1, ratio_high - 1, p, detectable, (),
        np.minimum(both.lasting_variance + period, variance), np.maximum(alone_a, counting_a),
        np.maximum(alone_b, counting_b), counting_a, counting_b, prior,
    )  # fmt: skip
    effects = _apply_zero_count_test(effects, design, (a, b), (samples_a, samples_b))
    return assign_directions(effects, design, effects.p <= design.alpha)


def _apply_zero_count_test(
    effects: Effects, design: Design, cells: Sequence[F64], samples: Sequence[F64]
) -> Effects:
    """Apply `zero_counts` to what all pods of one side have and none of the other."""
    if not design.is_concurrent:
        return effects
    p, low, high = effects.p.copy(), effects.low.copy(), effects.high.copy()
    relative_high = effects.relative_high.copy()
    rates = effects.baseline, effects.comparison
    row_exposure = [side.exposure.sum(1) for side in (design.a, design.b)]
    for own, other in ((0, 1), (1, 0)):
        only = np.flatnonzero((rates[own] > 0) & (rates[other] == 0))
        of = cells[own][only].sum(2), samples[own][only], row_exposure[own], row_exposure[other]
        zero_count_p = compute_zero_count_p_value(*of)
        is_certain = (zero_count_p <= design.alpha) & (zero_count_p < p[only])
        at, size = only[is_certain], rates[own][only[is_certain]]
        p[at] = zero_count_p[is_certain]
        # On a logarithmic scale 0 is infinitely far.
        near = size * np.exp(-(high - low)[at] / 2 / size)
        if own:
            low[at] = near
        else:
            high[at] = -near
            relative_high[at] = upper_bound_for_zero(design.alpha / 2, of[1][is_certain], *of[2:]) - 1
    return replace(effects, p=p, low=low, high=high, relative_high=relative_high)


def _compute_detectable(rate: F64, square: F64, share_a: F64) -> F64:
    """Return the relative increase that has the required standard errors.

    `square` is the square of their size, and `share_a` the part of it that is A's. Higher rates scatter
    more: B's errors grow with its rate. Where they grow as fast, the result is infinite.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        of_b = np.where(rate > 0, (1 - share_a) * square / rate**2, np.inf)
        both = np.where(rate > 0, square / rate**2, np.inf)
        rise: F64 = np.where(of_b < 1, (of_b + np.sqrt(of_b**2 + (1 - of_b) * both)) / (1 - of_b), np.inf)
    return rise


def assign_directions(effects: Effects, design: Design, is_significant: Flags) -> Effects:
    """Return the effects with their directions.

    `is_significant` (K,) marks the effects outside noise, by one test or by a family's. Those smaller than
    the smallest relevant size are minor.
    """
    if design.a.total_exposure <= 0 or design.b.total_exposure <= 0:
        return replace(effects, direction=(Direction.NO_DATA,) * len(effects.p))
    words = np.select(
        [is_significant & (np.abs(effects.delta) < design.min_relevant),
         is_significant & (effects.baseline == 0),
         is_significant & (effects.comparison == 0),
         is_significant & (effects.delta > 0),
         is_significant,
         (effects.min_detectable_effect <= design.min_effect)
         | ((effects.baseline == 0) & (effects.comparison == 0))],
        [6, 2, 3, 0, 1, 4], 5,
    )  # fmt: skip
    return replace(effects, direction=tuple(_DIRECTIONS[word] for word in words.tolist()))


_DIRECTIONS = (
    Direction.INCREASED,
    Direction.DECREASED,
    Direction.NEW,
    Direction.REMOVED,
    Direction.UNCHANGED,
    Direction.INCONCLUSIVE,
    Direction.MINOR,
)


def count_agreeing_rows(effects: Effects, design: Design, b: F64) -> tuple[NDArray[np.int64], int]:
    """Count the rows of B that lie on the side of the change.

    `b` has shape (K, P, T). Returns the counts, (K,), and the number of observed rows.
    """
    row_exposure = design.b.exposure.sum(1)
    is_observed = row_exposure > 0
    rates = b.sum(2)[:, is_observed] / row_exposure[is_observed]
    return ((rates - effects.baseline[:, None]) * np.sign(effects.delta)[:, None] > 0).sum(1), int(
        is_observed.sum()
    )


@dataclass(frozen=True, slots=True)
class _VarianceEstimate:
    """The variance of K differences and its reliability; every array has shape (K,).

    `replication_df` are its degrees of freedom in a repetition, `share_a` is A's part of the variance.
    """

    variance: F64
    df: F64
    replication_df: F64
    lasting_variance: F64
    share_a: F64

    def shrink(self, prior: PriorVariance, counting: F64, rate: F64) -> _VarianceEstimate:
        """Return the estimate moderated by the usual variance of its kind."""
        if not prior.df:
            return self
        variance = prior.shrink(self.variance, self.df, counting, rate)
        return replace(
            self, variance=variance, df=self.df + prior.df, replication_df=self.replication_df + prior.df
        )


def _build_error_matrix(design: Design, a: Residuals, b: Residuals) -> F64:
    """Return the components of each error, (K, D): pods, and times if not concurrent."""
    rows = [b.row_residuals - a.row_residuals] if design.same_pods else [a.row_residuals, b.row_residuals]
    if design.is_concurrent:
        return np.concatenate(rows, 1)
    times = [side.series * np.sqrt(side.wave_weights) for side in (a, b)]
    return np.concatenate([*rows, *times], 1)


def _estimate_variance(
    design: Design, a: Residuals, b: Residuals, *, pooled: bool
) -> tuple[F64, F64, _VarianceEstimate]:
    """Estimate the variances of A's rate, B's rate and their difference.

    The difference takes paired parts together. If `pooled`, pods that seem alike are pooled with the
    variation within them.
    """
    sides = (a, b)
    squares = [side.squares for side in sides]
    if design.same_time:
        squares = [
            _borrow_squares(a, squares[0], b, squares[1]),
            _borrow_squares(b, squares[1], a, squares[0]),
        ]
    inside = [_estimate_row_variance(design.a, squares[0]), _estimate_row_variance(design.b, squares[1])]
    shared = [
        _estimate_common_variance(design, own.series, own, of) for own, of in zip(sides, squares, strict=True)
    ]
    for_good, passes, freedom = _estimate_pod_variance(a, b, inside, pooled=pooled)
    lasting = [for_good * side.variance_factor for side in sides]
    pod_variances = [last + own * passes for last, own in zip(lasting, inside, strict=True)]
    side_variances = [own + time for own, time in zip(pod_variances, shared, strict=True)]
    zeros = np.zeros(len(for_good))
    # The common part cancels and is neither side's, so the rest decides the shares.
    part = _compute_share_a(*(pod_variances if design.same_time else side_variances))
    lasts, variance = lasting[0] + lasting[1], pod_variances[0] + pod_variances[1]
    if design.same_pods:
        variance, lasts, freedom = _estimate_paired_pod_variance(design, a, b, inside, pooled=pooled)
    if design.same_time:
        shared = [_estimate_paired_common_variance(design, a, b, squares)]
    times = zip((b, a), reversed(shared), strict=False)
    unsure = sum((time**2 / side.wave_count for side, time in times), zeros)
    pods, variance = variance**2 / freedom, variance + sum(shared, zeros)
    df, replication_df = (
        _compute_df(variance, pods + unsure),
        _compute_df(variance, pods + unsure / design.har_weights.replication_df_ratio),
    )
    return side_variances[0], side_variances[1], _VarianceEstimate(variance, df, replication_df, lasts, part)


def _estimate_paired_pod_variance(
    design: Design, a: Residuals, b: Residuals, inside: Sequence[F64], *, pooled: bool
) -> tuple[F64, F64, float]:
    """Estimate variance, lasting part and degrees of freedom for the same pods."""
    like_a, like_b = scale_to_mean(a, b)
    if design.same_time:
        own, waves = _estimate_row_variance(design.b, compute_paired_squares(a, b)), b.wave_residuals.shape[2]
    else:
        own, waves = inside[0] + inside[1], a.wave_residuals.shape[2] + b.wave_residuals.shape[2]
    between = compute_between_variance(
        b.row_residuals * like_b[:, None] - a.row_residuals * like_a[:, None], b.df
    )
    variance = _pool_variance(between, own, b.df, b.df * waves) if pooled else between
    return variance, np.maximum(between - own, 0.0), float(max(b.df, 1))


def _estimate_paired_common_variance(
    design: Design, a: Residuals, b: Residuals, squares: Sequence[F64]
) -> F64:
    """Estimate the common variance of all rows that does not cancel."""
    like_a, like_b = scale_to_mean(a, b)
    if design.same_pods:
        joint = compute_paired_squares(a, b)
    else:
        joint = squares[0] * like_a[:, None] ** 2 + squares[1] * like_b[:, None] ** 2
    series = b.series * like_b[:, None] - a.series * like_a[:, None]
    return _estimate_common_variance(design, series, b, joint)


def _estimate_row_variance(side: SideMatrix, squares: F64) -> F64:
    """Estimate variance within rows, assuming short memory; longer shows between rows."""
    plain: F64 = squares.sum(1) * (side.exposure.shape[1] / max(squares.shape[1], 1))
    return plain


def _borrow_squares(own: Residuals, squares: F64, other: Residuals, others: F64) -> F64:
    """Let a single row vary as each of the many that it is compared with does."""
    if own.df or not other.df:
        return squares
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(other.rate > 0, own.rate**2 / other.rate**2, 0.0) * (
            own.concentration / other.concentration
        )
    return others * scale[:, None]


def _estimate_common_variance(design: Design, series: F64, residuals: Residuals, squares: F64) -> F64:
    """Estimate the variance common to all rows: what single rows do not explain.

    Load that both sides had at once has cancelled. Up to twice what the rows explain (exceeded by chance in
    one of twenty), the variance of concurrent sides is taken to be 0.
    """
    total = series**2
    shared: F64 = (total - squares) @ residuals.wave_weights
    if design.is_concurrent:
        return np.where(total.sum(1) > MAX_COMMON_RATIO * squares.sum(1), np.maximum(shared, 0.0), 0.0)
    return np.maximum(shared, 0.0)


def _estimate_pod_variance(
    a: Residuals, b: Residuals, inside: Sequence[F64], *, pooled: bool
) -> tuple[F64, F64, float]:
    """Estimate how much pods differ for good.

    Returns the variance of one pod relative to its rate squared, (K,), the variation within pods as a part
    of the observed one, and the degrees of freedom of both together. Pods of both sides are assumed to
    differ alike, so a side of few pods borrows from the other. Both parts together are the variance between
    pods, even where the variation within pods is larger: pods that happen to lie near each other may still
    differ, and the tails of few degrees of freedom allow for it.
    """
    zeros = np.zeros(len(a.rate))
    sides = [(side, own) for side, own in zip((a, b), inside, strict=True) if side.df]
    scale = sum((side.df * side.rate**2 for side, _ in sides), zeros)
    between = sum((side.df * side.between_variance / side.concentration for side, _ in sides), zeros)
    own = sum((side.df * of / side.concentration for side, of in sides), zeros)
    freedom = a.df + b.df
    waves = sum(side.df * side.wave_residuals.shape[2] for side in (a, b))
    variance = _pool_variance(between, own, freedom, waves) if pooled else between
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(scale > 0, np.maximum(between - own, 0.0) / scale, 0.0)
        passes = np.where(own > 0, np.minimum(variance / own, 1.0), 1.0)
    return relative, passes, float(max(freedom, 1))


def _pool_variance(between: F64, own: F64, between_df: int, within_df: int) -> F64:
    """Pool the variances between and within pods, (K,), for one of a family.

    Among hundreds of functions some have pods that lie near each other by chance, and these would be
    reported. Where the variation within pods (`own`) explains the variance between them, both are pooled
    (Paull, 1950): as certain as the pool is at 5 %, with the tails of the pods' degrees of freedom. For a
    single quantity that is too wide where pods are alike.
    """
    between_df = max(between_df, 1)
    is_pooled = (between <= MAX_POOLING_RATIO * own) & (within_df > 0)
    both = between_df + within_df
    tails = float(t_quantile(0.975, both) / t_quantile(0.975, between_df)) ** 2
    return np.where(is_pooled, (between_df * between + within_df * own) / both * tails, between)


def _compute_df(variance: F64, unsure: F64) -> F64:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(unsure > 0, np.clip(variance**2 / unsure, 1.0, MAX_DF), MAX_DF)


def _compute_counting_variance(own: Residuals, other: Residuals, samples: F64, others: F64) -> F64:
    """Return the least variance that this number of samples allows.

    One more sample is counted, so that none is not certain to be none. A side without samples is assumed to
    have samples as long as the other's.
    """
    count, most = np.asarray(samples, float), np.asarray(others, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(
            count > 0,
            own.rate / count,
            np.where(most > 0, other.rate * other.total_exposure / most / own.total_exposure, 0.0),
        )
        least: F64 = np.where(np.isinf(count), 0.0, (count + 1) * each**2)
    return least


def _nearest_to_zero(first: F64, second: F64) -> F64:
    return np.where(np.abs(first) < np.abs(second), first, second)


def _compute_share_a(a: F64, b: F64) -> F64:
    """Return A's part of the sum."""
    with np.errstate(divide="ignore", invalid="ignore"):
        part: F64 = np.where(a + b > 0, a / (a + b), 0.5)
    return part
