"""What functions tell of each other's noise.

Of few pods the variance of a function is known badly, and the tails that follow from that hide most changes.
But there are hundreds of functions, and many scatter alike beside what counting them misses. So the variance
of each is moderated: drawn to what is usual for a function of its size, as if that had been seen with more
degrees of freedom (Smyth, Statistical Applications in Genetics and Molecular Biology 3, 2004).

- What is usual is counting noise and a part of the rate's square, the same part for all. How alike functions
  are is in how far the logarithms of their variances lie apart beyond what their degrees of freedom explain.
- Functions that scatter together say the same thing many times. How many say something of their own is in
  the directions that their errors have (the participation ratio): no more is learned than from so many.
- What scatters more than is usual keeps its own variance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

MIN_FUNCTIONS: Final = 10
"""So many functions (and samples of each) at least tell what is usual."""
_HALF_DF_GRID: Final = np.geomspace(0.05, 1000, 200)
_BISECTION_STEPS: Final = 40


@dataclass(frozen=True, slots=True)
class PriorVariance:
    """How functions usually scatter: `rate_factor` of their rate's square beside counting noise, as if that
    had been seen with `df` degrees of freedom."""

    rate_factor: float = 0.0
    df: float = 0.0

    def shrink(self, variance: F64, df: F64, counting: F64, rate: F64) -> F64:
        """The variances of K quantities of so many degrees each, (K,), drawn to what is usual, and never
        lower."""
        prior_variance = counting + self.rate_factor * rate**2
        both: F64 = (df * variance + self.df * prior_variance) / (df + self.df)
        return np.maximum(variance, both)


def estimate_prior_variance(variance: F64, df: F64, counting: F64, rate: F64, errors: F64) -> PriorVariance:
    """What K quantities tell of how they scatter.

    Each has a variance with degrees of freedom, of which `counting` is counting noise, and takes `rate`,
    (K,). `errors` (K, D) are what each is made of: their directions tell who scatters together.
    """
    is_usable = (rate**2 >= MIN_FUNCTIONS * counting) & (rate**2 > 0) & (variance > 0)
    if is_usable.sum() < MIN_FUNCTIONS:
        return PriorVariance()
    independent = count_independent(errors[is_usable])
    if independent <= 1:
        return PriorVariance()
    seen, half, least, square = (
        variance[is_usable],
        df[is_usable] / 2,
        counting[is_usable],
        rate[is_usable] ** 2,
    )
    beyond = np.log(seen) - _digamma(half) + np.log(half)
    unknown = float(_trigamma(half).mean())
    # the logarithm of the part with which what is usual lies in the middle
    high = float((np.log(seen) - np.log(square)).max()) + 3
    low, gained = high - 50, 0.0
    for _ in range(_BISECTION_STEPS):
        tried = (low + high) / 2
        apart = beyond - np.log(least + np.exp(tried) * square)
        gained, spare = _fit_prior_df(apart, unknown, independent)
        low, high = (tried, high) if spare > 0 else (low, tried)
    return PriorVariance(
        float(np.exp(high)), min(gained, (independent - 1) * float(np.median(df[is_usable])))
    )


def count_independent(errors: F64) -> float:
    """How many of K quantities scatter for themselves, by the directions of their errors, (K, D).

    Squares of cosines between directions at random are 1/D; what is said twice has 1. Errors of a side add up
    to nothing, so that they have fewer directions than D: that keeps what few pods can tell small.
    """
    size = np.sqrt((errors**2).sum(1))
    ways = errors[size > 0] / size[size > 0, None]
    if not len(ways):
        return 0.0
    among = ways.T @ ways / len(ways)
    random = 1 / errors.shape[1]
    found: float = (1 - random) / max(float((among**2).sum()) - random, 1e-9)
    return found


def _fit_prior_df(log_ratios: F64, unknown: float, independent: float) -> tuple[float, float]:
    """The degrees of freedom that what is usual stands for, and by how much variances exceed it in the
    middle."""
    scatter = float(log_ratios.var(ddof=1)) * (1 + np.sqrt(2 / independent)) - unknown
    half = float(np.interp(-scatter, -_TRIGAMMA_GRID, _HALF_DF_GRID))
    middle = _digamma(np.array([half])) - np.log(half)
    return 2 * half, float(log_ratios.mean() + middle[0])


def _digamma(x: F64) -> F64:
    """The logarithmic derivative of Γ (DLMF 5.11.2 of x + 8, and by steps back to x)."""
    steps = sum((1 / (x + step) for step in range(8)), np.zeros_like(x))
    far = x + 8
    square = 1 / (far * far)
    found: F64 = np.log(far) - 0.5 / far - square * (1 / 12 - square * (1 / 120 - square / 252)) - steps
    return found


def _trigamma(x: F64) -> F64:
    """The derivative of that (DLMF 5.15.8)."""
    steps = sum((1 / (x + step) ** 2 for step in range(8)), np.zeros_like(x))
    far = x + 8
    square = 1 / (far * far)
    found: F64 = 1 / far + square / 2 + square / far * (1 / 6 - square * (1 / 30 - square / 42)) + steps
    return found


_TRIGAMMA_GRID: Final = _trigamma(_HALF_DF_GRID)
