"""Differences of rates between two sides, with intervals and tests.

- The variance of a difference is `cluster_variance`, for functions moderated by the others (`shrinkage`),
  and at least that of counting its samples: n samples scatter by the square root of n.
- Sides of different times also vary between periods, and all unchanged functions may have a common shift
  (`empirical_null`). A change must exceed the variance about both 0 and the shift, and intervals include
  both.
- The test is Student's. The interval of the relative change is Fieller's (`fieller`). It contains 0 exactly
  where the test of the difference does not reject, and has no upper end where A's rate may be 0.
- The minimum detectable effect is the change that a test of this variance finds in four of five cases
  (Bloom, Evaluation Review 19, 1995).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.cluster_variance import compute_df, compute_share_a
from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.fieller import compute_fieller_interval
from sidelight_collector.statistics.inference.rate_estimates import RateEstimates, estimate_rates
from sidelight_collector.statistics.inference.shrinkage import NO_PRIOR, PriorVariance
from sidelight_collector.statistics.inference.student_t import (
    compute_required_errors,
    t_quantile,
    two_sided_p_value,
)
from sidelight_model.change import Direction

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]


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
    prior: PriorVariance = NO_PRIOR,
) -> Effects:
    """Compute the effects of K quantities (see `estimate_rates`).

    Every quantity is tested by itself; for a family see `fdr` and `assign_directions`.
    """
    rates = estimate_rates(design, a, b, samples_a, samples_b, with_shrinkage=with_shrinkage, prior=prior)
    return compute_rate_effects(design, rates)


def compute_rate_effects(design: Design, rates: RateEstimates) -> Effects:
    """Compute the effects of K quantities from their rates."""
    own, counting_a, counting_b, mean = rates.own, rates.counting_a, rates.counting_b, rates.mean
    rate_a, rate_b, variance, df = rates.baseline, rates.comparison, rates.variance, own.df
    share_a = np.where(variance > own.variance, compute_share_a(counting_a, counting_b), own.share_a)
    period = design.null.compute_variance(mean)
    if design.null.variance:
        share_a = compute_share_a(share_a * variance + period / 2, (1 - share_a) * variance + period / 2)
        df = compute_df(variance + period, variance**2 / df + period**2 / design.null.df)
        variance = variance + period
    least = t_quantile(1 - design.alpha / 2, df)
    half = least * np.sqrt(variance)
    delta = rate_b - rate_a
    # What all unchanged functions have in common is no change of one of them.
    shifted = rate_b * np.exp(-design.null.shift)
    other = shifted - rate_a
    nearest = np.where(delta * other > 0, np.where(np.abs(delta) < np.abs(other), delta, other), 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        p = two_sided_p_value(
            np.where(variance > 0, nearest / np.sqrt(variance), np.where(nearest == 0, 0.0, np.inf)), df
        )
        relative = np.where(rate_a > 0, rate_b / rate_a - 1, np.nan)
    if not (design.a.total_exposure > 0 and design.b.total_exposure > 0):
        p = np.ones_like(p)
    needed = compute_required_errors(1 - design.alpha / 2, df)
    ends = [
        compute_fieller_interval(rate_a, rate, share_a * half**2, (1 - share_a) * half**2)
        for rate in (rate_b, shifted)
    ]
    effects = Effects(
        rate_a, rate_b, delta, variance, df, needed,
        np.minimum(delta, other) - half, np.maximum(delta, other) + half,
        relative, np.minimum(ends[0][0], ends[1][0]) - 1, np.maximum(ends[0][1], ends[1][1]) - 1,
        p, _compute_detectable(rate_a, needed**2 * variance, share_a), (),
        np.minimum(own.lasting_variance + period, variance), np.maximum(own.variance_a, counting_a),
        np.maximum(own.variance_b, counting_b), counting_a, counting_b, rates.prior,
    )  # fmt: skip
    return assign_directions(effects, design, effects.p <= design.alpha)


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
    # The first that holds is the direction.
    cases = {
        Direction.MINOR: is_significant & (np.abs(effects.delta) < design.min_relevant),
        Direction.NEW: is_significant & (effects.baseline == 0),
        Direction.REMOVED: is_significant & (effects.comparison == 0),
        Direction.INCREASED: is_significant & (effects.delta > 0),
        Direction.DECREASED: is_significant,
        Direction.UNCHANGED: (effects.min_detectable_effect <= design.min_effect)
        | ((effects.baseline == 0) & (effects.comparison == 0)),
    }
    directions = (*cases, Direction.INCONCLUSIVE)
    places = np.select(list(cases.values()), list(range(len(cases))), len(cases))
    return replace(effects, direction=tuple(directions[place] for place in places.tolist()))


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
