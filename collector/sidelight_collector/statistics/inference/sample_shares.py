"""Shares of samples: rates per sample instead of per time.

A share does not depend on the number of samples per second. It is a ratio of two sums like every rate (see
`cluster_variance`; Cochran, Sampling Techniques, 1977, §6.3), with samples in place of exposure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.cluster_variance import estimate_variance
from sidelight_collector.statistics.inference.design import Design, SideMatrix, build_design
from sidelight_collector.statistics.inference.effect_size import Effects, compute_effects
from sidelight_collector.statistics.inference.empirical_null import NO_NULL
from sidelight_collector.statistics.inference.residuals import compute_residuals
from sidelight_collector.statistics.inference.student_t import t_quantile

F64 = NDArray[np.float64]

_NO_SIDE: Final = SideMatrix(np.zeros((1, 1)), ((),), 1.0)


@dataclass(frozen=True, slots=True)
class ShareInterval:
    """A share and its 95 % interval.

    The ends are None where one pod at one time shows no scatter.
    """

    share: float
    low: float | None
    high: float | None


def estimate_share(side: SideMatrix, part: F64, samples: float) -> ShareInterval:
    """Estimate a share of one side: `part` (P, T) of its exposure.

    The interval is that of the difference from a side that has nothing, and at least that of a binomial
    share of all `samples`.
    """
    own, nothing = compute_residuals(side, part[None]), compute_residuals(_NO_SIDE, np.zeros((1, 1, 1)))
    share = float(own.rate[0])
    if side.row_count < 2 and side.block_count < 2:
        return ShareInterval(share, None, None)
    design = build_design(side, _NO_SIDE)
    found = estimate_variance(design, own, nothing)
    variance = max(float(found.variance[0]), share * (1 - share) / samples)
    half = float(t_quantile(1 - design.alpha / 2, found.df)[0]) * variance**0.5
    return ShareInterval(share, max(share - half, 0.0), min(share + half, 1.0))


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
