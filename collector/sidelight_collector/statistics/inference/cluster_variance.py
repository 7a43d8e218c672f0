"""Cluster-robust variance of rates and of their difference between two sides.

A rate is R = ΣX/ΣW, seconds over exposure. To first order its error is the sum over the cells of e = (X - R
W)/ΣW (linearisation; Cochran, Sampling Techniques, 1977, §6.3). Cells of one pod are correlated, and so are
cells of one time, so its variance is clustered both ways (Cameron, Gelbach and Miller, Journal of Business
and Economic Statistics 29, 2011; times that depend on each other: Chiang, Hansen and Sasaki, Review of
Economics and Statistics, 2024):

- The sums of rows show how pods differ: n/(n-1) times the sum of their squares. Relative to their rate,
  pods of both sides are assumed to differ alike, as in Student's test: a canary of one pod has the
  differences of the pods it is compared with. What exceeds the variation in time within pods is lasting.
- The sums of columns show variation in time that all pods share (`autocorrelation`), less the part that the
  pods by themselves account for. Load that concurrent sides share cancels.
- Where rows (or columns) of both sides are paired, e of B minus e of A, each relative to its rate, replaces
  both, and their common part cancels.

Degrees of freedom are Satterthwaite's (Biometrics Bulletin 2, 1946).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.residuals import (
    Residuals,
    compute_between_variance,
    compute_paired_squares,
    scale_to_mean,
)
from sidelight_collector.statistics.inference.shrinkage import PriorVariance
from sidelight_collector.statistics.inference.student_t import MAX_DF

F64 = NDArray[np.float64]

MAX_COMMON_RATIO: Final = 2.0
"""Variation common to the pods of concurrent sides may be this many times what the pods explain, by chance.

With 8 cosines it exceeds this in one of twenty (the F distribution of 8 and 56 degrees of freedom).
"""
MIN_VARIANCE_SHARE: Final = 0.25
"""Least variance, as a part of the variance between pods: what is subtracted may exceed it by chance."""


@dataclass(frozen=True, slots=True)
class VarianceEstimate:
    """The variance of K differences and its reliability; every array has shape (K,).

    `variance_a` and `variance_b` are those of the rates of A and B. `df` are the degrees of freedom,
    `lasting_variance` is the part that more time does not reduce, `share_a` is A's part.
    """

    variance_a: F64
    variance_b: F64
    variance: F64
    df: F64
    lasting_variance: F64
    share_a: F64

    def shrink(self, prior: PriorVariance, counting: F64, rate: F64) -> VarianceEstimate:
        """Return the estimate moderated by the usual variance of its kind."""
        if not prior.df:
            return self
        variance = prior.shrink(self.variance, self.df, counting, rate)
        return replace(self, variance=variance, df=self.df + prior.df)


def build_error_matrix(design: Design, a: Residuals, b: Residuals) -> F64:
    """Return the components of each error, (K, D): pods, and times if not concurrent."""
    rows = [b.row_residuals - a.row_residuals] if design.same_pods else [a.row_residuals, b.row_residuals]
    if design.is_concurrent:
        return np.concatenate(rows, 1)
    times = [side.series * np.sqrt(side.wave_weight) for side in (a, b)]
    return np.concatenate([*rows, *times], 1)


def estimate_variance(design: Design, a: Residuals, b: Residuals) -> VarianceEstimate:
    """Estimate the variances of A's rate, B's rate and their difference.

    The difference takes paired parts together.
    """
    squares = [a.squares, b.squares]
    if design.same_time:
        squares = [_borrow_squares(a, b), _borrow_squares(b, a)]
    within = [of.sum(1) * own.wave_weight for own, of in zip((a, b), squares, strict=True)]
    common = [
        _estimate_common_variance(design, own.series, own, of)
        for own, of in zip((a, b), squares, strict=True)
    ]
    lasting, within_factor, df = _estimate_pod_variance(a, b, within)
    lasts = [lasting * side.variance_factor for side in (a, b)]
    pods = [last + own * within_factor for last, own in zip(lasts, within, strict=True)]
    sides = [np.maximum(own + time, 0.0) for own, time in zip(pods, common, strict=True)]
    # The common part of paired times cancels and is neither side's, so the rest decides the shares.
    share_a = compute_share_a(*(pods if design.same_time else sides))
    variance, lasting_variance, counts = pods[0] + pods[1], lasts[0] + lasts[1], [a.wave_count, b.wave_count]
    if design.same_pods:
        variance, lasting_variance, df = _estimate_paired_pod_variance(design, a, b, within)
    if design.same_time:
        common, counts = [_estimate_paired_common_variance(design, a, b, squares)], [b.wave_count]
    least, squared_parts = MIN_VARIANCE_SHARE * variance, variance**2 / df
    for time, count in zip(common, counts, strict=True):
        variance, squared_parts = variance + time, squared_parts + time**2 / count
    variance = np.maximum(variance, least)
    return VarianceEstimate(
        sides[0], sides[1], variance, compute_df(variance, squared_parts), lasting_variance, share_a
    )


def _estimate_paired_pod_variance(
    design: Design, a: Residuals, b: Residuals, within: Sequence[F64]
) -> tuple[F64, F64, float]:
    """Estimate variance, lasting part and degrees of freedom for the same pods."""
    like_a, like_b = scale_to_mean(a, b)
    own = compute_paired_squares(a, b).sum(1) * b.wave_weight if design.same_time else within[0] + within[1]
    between = compute_between_variance(
        b.row_residuals * like_b[:, None] - a.row_residuals * like_a[:, None], b.df
    )
    return between, np.maximum(between - own, 0.0), float(max(b.df, 1))


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


def _borrow_squares(own: Residuals, other: Residuals) -> F64:
    """Let a single row vary as each of the many that it is compared with does."""
    if own.df or not other.df:
        return own.squares
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = np.where(other.rate > 0, own.rate**2 / other.rate**2, 0.0) * (
            own.concentration / other.concentration
        )
    return other.squares * scale[:, None]


def _estimate_common_variance(design: Design, series: F64, residuals: Residuals, squares: F64) -> F64:
    """Estimate the variance common to all rows, which single rows do not explain.

    By chance it may be less than 0. Load that both sides had at once has cancelled. Up to what the rows
    explain by chance, the variance of concurrent sides is taken to be 0.
    """
    total = series**2
    common: F64 = (total - squares).sum(1) * residuals.wave_weight
    if design.is_concurrent:
        return np.where(total.sum(1) > MAX_COMMON_RATIO * squares.sum(1), common, 0.0)
    return common


def _estimate_pod_variance(a: Residuals, b: Residuals, within: Sequence[F64]) -> tuple[F64, F64, float]:
    """Estimate how much pods differ for good.

    Returns the lasting variance of one pod relative to its rate squared, (K,), the variation within pods as
    a part of the observed one, and the degrees of freedom of both together. Both parts together are the
    variance between pods, even where the variation within pods is larger: pods that happen to lie near each
    other may still differ, and the tails of few degrees of freedom allow for it.
    """
    zeros = np.zeros(len(a.rate))
    sides = [(side, own) for side, own in zip((a, b), within, strict=True) if side.df]
    scale = sum((side.df * side.rate**2 for side, _ in sides), zeros)
    between = sum((side.df * side.between_variance / side.concentration for side, _ in sides), zeros)
    own = sum((side.df * of / side.concentration for side, of in sides), zeros)
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(scale > 0, np.maximum(between - own, 0.0) / scale, 0.0)
        within_factor = np.where(own > 0, np.minimum(between / own, 1.0), 1.0)
    return relative, within_factor, float(max(a.df + b.df, 1))


def compute_df(variance: F64, squared_parts: F64) -> F64:
    """Return Satterthwaite's degrees of freedom of a variance.

    `squared_parts` is the sum of the squares of its parts, each divided by its degrees of freedom.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(squared_parts > 0, np.clip(variance**2 / squared_parts, 1.0, MAX_DF), MAX_DF)


def compute_share_a(a: F64, b: F64) -> F64:
    """Return A's part of the sum."""
    with np.errstate(divide="ignore", invalid="ignore"):
        part: F64 = np.where(a + b > 0, a / (a + b), 0.5)
    return part
