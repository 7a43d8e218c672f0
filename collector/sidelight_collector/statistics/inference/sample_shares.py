"""Shares of samples: rates per sample instead of per time.

A share does not depend on the number of samples per second. It is a ratio of two sums like every rate (see
`cluster_variance`; Cochran, Sampling Techniques, 1977, §6.3), with samples in place of exposure.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import Design, SideMatrix
from sidelight_collector.statistics.inference.effect_size import Effects, compute_effects
from sidelight_collector.statistics.inference.empirical_null import NO_NULL

F64 = NDArray[np.float64]


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


def compute_share_effects(per_sample: Design, a: F64, b: F64) -> Effects:
    """Compute the effects of shares.

    `a` and `b` (K, P, T) are the samples that make up the shares, out of the exposure of `per_sample`.
    """
    return compute_effects(
        per_sample,
        a,
        b,
        _compute_share_sample_sizes(a, per_sample.a),
        _compute_share_sample_sizes(b, per_sample.b),
    )


def _compute_share_sample_sizes(samples: F64, side: SideMatrix) -> F64:
    """Return the size of a count that scatters as much as a share: n R/(1-R), (K,).

    The relative variance of a share R of n samples is (1-R)/(n R) (binomial), that of a count its inverse.
    """
    rate = samples.sum((1, 2)) / side.total_exposure
    with np.errstate(divide="ignore"):
        return np.where(rate > 0, side.total_exposure * rate / (1 - rate), 0.0)
