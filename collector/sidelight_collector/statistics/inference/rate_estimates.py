"""The rates of two sides with their variances, before periods and tests.

They do not depend on the empirical null, so functions that estimate it are not measured twice.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.cluster_variance import (
    VarianceEstimate,
    build_error_matrix,
    estimate_variance,
)
from sidelight_collector.statistics.inference.counting_noise import compute_counting_variances
from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.residuals import compute_residuals
from sidelight_collector.statistics.inference.shrinkage import (
    NO_PRIOR,
    PriorVariance,
    estimate_prior_variance,
)

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RateEstimates:
    """The rates of K quantities and their variances; every array has shape (K,).

    `counting_a` and `counting_b` are the least variances of both rates. `own` is moderated by `prior`, the
    usual variance of the family.
    """

    baseline: F64
    comparison: F64
    counting_a: F64
    counting_b: F64
    own: VarianceEstimate
    prior: PriorVariance

    @property
    def mean(self) -> F64:
        mean: F64 = (self.baseline + self.comparison) / 2
        return mean

    @property
    def variance(self) -> F64:
        """The variance of the difference, at least that of counting samples."""
        variance: F64 = np.maximum(self.own.variance, self.counting_a + self.counting_b)
        return variance


def estimate_rates(
    design: Design,
    a: F64,
    b: F64,
    samples_a: F64,
    samples_b: F64,
    *,
    with_shrinkage: bool = False,
    prior: PriorVariance = NO_PRIOR,
) -> RateEstimates:
    """Estimate the rates of K quantities and their variances.

    `a` and `b` are their seconds in the cells of each side, (K, P, T), `samples_a` and `samples_b` their
    samples, (K,). Infinitely many samples mean no counting noise. Quantities `with_shrinkage`, such as
    functions, estimate their usual variance together (see `shrinkage`). `prior` is such an estimate from
    others.
    """
    side_a, side_b = compute_residuals(design.a, a), compute_residuals(design.b, b)
    counting_a, counting_b = compute_counting_variances(side_a, side_b, samples_a, samples_b)
    own = estimate_variance(design, side_a, side_b)
    floor, mean = counting_a + counting_b, (side_a.rate + side_b.rate) / 2
    if with_shrinkage:
        errors = build_error_matrix(design, side_a, side_b)
        prior = estimate_prior_variance(own.variance, own.df, floor, mean, errors)
    own = own.shrink(prior, floor, mean)
    return RateEstimates(side_a.rate, side_b.rate, counting_a, counting_b, own, prior)
