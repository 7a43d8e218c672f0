"""Shrink the variances of functions towards the usual variance.

With few pods the variance of a function is uncertain, and the resulting tails hide most changes. But there
are hundreds of functions, and many scatter alike beside their counting noise. The variance of each is
therefore moderated: it is drawn to what is usual for a function of its size, as if that had been observed
with more degrees of freedom (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004).

- The usual variance is counting noise and a part of the squared rate, the same part for all. How alike
  functions are follows from how far the logarithms of their variances lie apart beyond what their degrees
  of freedom explain.
- Functions that scatter together repeat the same information. The number of independent ones follows from
  the directions of their errors (the participation ratio; Bretherton et al., Journal of Climate 12, 1999),
  and no more is learned than from that number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

MIN_FUNCTIONS: Final = 10
"""Least number of functions (and samples of each) that show what is usual."""
_HALF_DF_GRID: Final = np.geomspace(0.05, 1000, 200)
_BISECTION_STEPS: Final = 40
_LEAST_WEIGHT: Final = 1e-12
_ROUNDED_ONE: Final = 1.001
"""One independent quantity, in single precision."""


@dataclass(frozen=True, slots=True)
class PriorVariance:
    """The usual variance of a function.

    It is counting noise and `rate_factor` of the squared rate, as if observed with `df` degrees of freedom.
    """

    rate_factor: float = 0.0
    df: float = 0.0

    def shrink(self, variance: F64, df: F64, counting: F64, rate: F64) -> F64:
        """Return the variances of K quantities, (K,), drawn to the usual variance.

        `df` are their degrees of freedom.
        """
        prior_variance = counting + self.rate_factor * rate**2
        shrunk: F64 = (df * variance + self.df * prior_variance) / (df + self.df)
        return shrunk


NO_PRIOR: Final = PriorVariance()
"""The prior of a quantity that has no others of its kind."""


def estimate_prior_variance(variance: F64, df: F64, counting: F64, rate: F64, errors: F64) -> PriorVariance:
    """Estimate the usual variance from K quantities.

    `variance` with `df` degrees of freedom, its counting noise `counting` and `rate` have shape (K,).
    `errors` (K, D) are the components of each error; their directions show which quantities scatter
    together.
    """
    is_usable = (rate**2 >= MIN_FUNCTIONS * counting) & (rate**2 > 0) & (variance > 0)
    if is_usable.sum() < MIN_FUNCTIONS:
        return PriorVariance()
    independent = count_independent(errors[is_usable])
    if independent <= _ROUNDED_ONE:
        return PriorVariance()
    variances, half, least, square = (
        variance[is_usable],
        df[is_usable] / 2,
        counting[is_usable],
        rate[is_usable] ** 2,
    )
    beyond = np.log(variances) - _digamma(half) + np.log(half)
    unknown = float(_trigamma(half).mean())
    # Find the log of the part at which the variances lie about the usual one on average.
    high = float((np.log(variances) - np.log(square)).max()) + 3
    low, prior_df = high - 50, 0.0
    for _ in range(_BISECTION_STEPS):
        middle = (low + high) / 2
        prior = least + np.exp(middle) * square
        # Functions whose variance is mostly counting noise say little about the rest (least squares).
        weights = np.maximum(1 - least / prior, _LEAST_WEIGHT)
        prior_df, excess = _fit_prior_df(
            beyond - np.log(prior), weights / weights.sum(), unknown, independent
        )
        low, high = (middle, high) if excess > 0 else (low, middle)
    return PriorVariance(
        float(np.exp(high)), min(prior_df, (independent - 1) * float(np.median(df[is_usable])))
    )


def count_independent(errors: F64) -> float:
    """Return how many of K quantities scatter independently.

    `errors` (K, D) are the components of their errors. Squared cosines between random directions are 1/D,
    those of repeated ones 1. The errors of a side add up to 0, so they have fewer directions than D; that
    keeps the result small for few pods.
    """
    size = np.sqrt((errors**2).sum(1))
    # Single precision is a hundred times more exact than needed, and takes half the time.
    directions = (errors[size > 0] / size[size > 0, None]).astype(np.float32)
    if not len(directions):
        return 0.0
    among = directions.T @ directions / len(directions)
    random = 1 / errors.shape[1]
    independent: float = (1 - random) / max(float((among.astype(np.float64) ** 2).sum()) - random, 1e-9)
    return independent


def _fit_prior_df(log_ratios: F64, weights: F64, unknown: float, independent: float) -> tuple[float, float]:
    """Fit the degrees of freedom of the usual variance.

    Returns them, and by how much the variances exceed the usual variance on average.
    """
    mean = float(weights @ log_ratios)
    spread = float(weights @ (log_ratios - mean) ** 2) / max(1 - float(weights @ weights), 1e-9)
    scatter = spread * (1 + np.sqrt(2 / independent)) - unknown
    half = float(np.interp(-scatter, -_TRIGAMMA_GRID, _HALF_DF_GRID))
    middle = _digamma(np.array([half])) - np.log(half)
    return 2 * half, mean + float(middle[0])


def _digamma(x: F64) -> F64:
    """Return the logarithmic derivative of Γ.

    DLMF 5.11.2 at x + 8, and by recurrence back to x.
    """
    steps = sum((1 / (x + step) for step in range(8)), np.zeros_like(x))
    far = x + 8
    square = 1 / (far * far)
    digamma: F64 = np.log(far) - 0.5 / far - square * (1 / 12 - square * (1 / 120 - square / 252)) - steps
    return digamma


def _trigamma(x: F64) -> F64:
    """Return the derivative of the digamma function (DLMF 5.15.8)."""
    steps = sum((1 / (x + step) ** 2 for step in range(8)), np.zeros_like(x))
    far = x + 8
    square = 1 / (far * far)
    trigamma: F64 = 1 / far + square / 2 + square / far * (1 / 6 - square * (1 / 30 - square / 42)) + steps
    return trigamma


_TRIGAMMA_GRID: Final = _trigamma(_HALF_DF_GRID)
