"""Student's t distribution for fractional degrees of freedom, on whole arrays.

The distribution function is the incomplete beta function, computed by Lentz's method from its continued
fraction (DLMF 8.17.22). Quantiles start at Hill's expansion (CACM algorithm 396, 1970) and are refined by
Newton's method. The tests compare with published tables: the results agree to 1e-9 of the probability,
wherever that is above 1e-200.
"""

from __future__ import annotations

from functools import lru_cache
from math import log, pi
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike, NDArray

F64 = NDArray[np.float64]

POWER: Final = 0.8
"""The probability of detecting a change of the minimum detectable size."""
MAX_DF: Final = 1e6
"""More degrees count as this: the quantiles differ from the normal's by 1e-6."""
_MIN_DF: Final = 0.5
_CHEBYSHEV_NODES: Final = 32
_TINY: Final = 1e-300


def two_sided_p_value(t: ArrayLike, df: ArrayLike) -> F64:
    """Return the probability of a value at least as far from 0 as `t`, of either sign.

    NaN counts as no evidence: 1.
    """
    far, freedom = np.broadcast_arrays(np.abs(np.asarray(t, float)), _clip_df(df))
    far = np.where(np.isnan(far), 0.0, np.minimum(far, 1e150))
    square = far * far
    return _incomplete_beta(freedom / 2, freedom / (freedom + square), square / (freedom + square))


def t_quantile(p: float, df: ArrayLike) -> F64:
    """Return the value exceeded with probability 1 - `p`; `p` is between 0 and 1."""
    if p < 0.5:
        return -t_quantile(1 - p, df)
    freedom = _clip_df(df)
    if p == 0.5:
        return np.zeros_like(freedom)
    quantile: F64 = np.exp(chebyshev.chebval(2 * _MIN_DF / freedom - 1, _fit_log_quantiles(p)))
    return quantile


def compute_required_errors(level: float, df: ArrayLike) -> F64:
    """Return how many observed standard errors a change needs to be found.

    With a probability of `POWER` it is found at t(level) + t(`POWER`) standard errors (Bloom, Minimum
    detectable effects, Evaluation Review 19, 1995). The observed variance counts as its median, which is
    below the true one (Wilson and Hilferty, The distribution of chi-square, 1931).
    """
    freedom = _clip_df(df)
    return (t_quantile(level, freedom) + t_quantile(POWER, freedom)) * (1 - 2 / (9 * freedom)) ** -1.5


@lru_cache(maxsize=64)
def _fit_log_quantiles(p: float) -> F64:
    """Fit the logarithm of a quantile as a function of 1/df.

    It is smooth: a few exact quantiles give all others to nine digits.
    """
    at = np.cos(np.pi * (np.arange(_CHEBYSHEV_NODES) + 0.5) / _CHEBYSHEV_NODES)
    series = chebyshev.chebfit(at, np.log(_solve_quantiles(p, 2 * _MIN_DF / (at + 1))), _CHEBYSHEV_NODES - 1)
    return np.asarray(series, np.float64)


def _solve_quantiles(p: float, df: F64) -> F64:
    tail = 2 * (1 - p)
    quantiles: F64 = _approximate_quantiles(tail, NormalDist().inv_cdf(p), df)
    log_scale = _log_gamma_ratio(df / 2) - 0.5 * np.log(df * pi)
    for _ in range(5):
        density: F64 = np.exp(log_scale - (df + 1) / 2 * np.log1p(quantiles * quantiles / df))
        # Tails are nearly straight on the log scale, so no step overshoots.
        now = two_sided_p_value(quantiles, df)
        quantiles = quantiles + np.maximum(now / (2 * density) * np.log(now / tail), -0.9 * quantiles)
    return quantiles


def _clip_df(df: ArrayLike) -> F64:
    freedom: F64 = np.clip(np.asarray(df, float), _MIN_DF, MAX_DF)
    return freedom


def _log_gamma_ratio(a: F64) -> F64:
    """Return log Γ(a + 1/2)/Γ(a).

    Stirling's series (DLMF 5.11.13) at a + 8, and by recurrence back to a.
    """
    steps = np.ones_like(a)
    for step in range(8):
        steps = steps * ((a + step) / (a + step + 0.5))
    far = a + 8
    square = 1 / (far * far)
    series = (
        1 / 8 - square * (1 / 192 - square * (1 / 640 - square * (17 / 14336 - square * 31 / 18432)))
    ) / far
    ratio: F64 = 0.5 * np.log(far) - series + np.log(steps)
    return ratio


def _approximate_quantiles(tail: float, normal: float, df: F64) -> F64:
    """Approximate quantiles.

    A heavy tail uses the power law, a light one the normal quantile with its first terms in 1/df.
    """
    z = normal
    expansion = z + (z**3 + z) / (4 * df) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * df * df)
    power = np.exp(
        (
            _log_gamma_ratio(df / 2)
            - 0.5 * np.log(df * pi)
            + (df + 1) / 2 * np.log(df)
            - np.log(df)
            - log(tail / 2)
        )
        / df
    )
    return np.where(df < 3, np.minimum(power, 1e150), expansion) if tail < 1 else np.zeros_like(df)


def _incomplete_beta(a: F64, x: F64, complement: F64) -> F64:
    """Return the regularised incomplete beta function I_x(a, 1/2).

    `complement` is 1 - x without loss of digits.
    """
    turn = x >= (a + 1) / (a + 2.5)
    half = np.full_like(a, 0.5)
    first, second = np.where(turn, half, a), np.where(turn, a, half)
    at = np.where(turn, complement, x)
    with np.errstate(divide="ignore"):
        front = a * np.log(x) + 0.5 * np.log(complement)
    value = (
        np.exp(front + _log_gamma_ratio(a) - 0.5 * log(pi)) * _continued_fraction(first, second, at) / first
    )
    return np.clip(np.where(turn, 1 - value, value), 0.0, 1.0)


def _continued_fraction(a: F64, b: F64, x: F64) -> F64:
    total = a + b
    c = np.ones_like(x)
    d = 1 / _avoid_zero(1 - total * x / (a + 1))
    whole = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d = 1 / _avoid_zero(1 + even * d)
        c = _avoid_zero(1 + even / c)
        whole = whole * d * c
        odd = -(a + m) * (total + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d = 1 / _avoid_zero(1 + odd * d)
        c = _avoid_zero(1 + odd / c)
        step = d * c
        whole = whole * step
        if np.all(np.abs(step - 1) < 1e-14):
            break
    return whole


def _avoid_zero(value: F64) -> F64:
    return np.where(np.abs(value) < _TINY, _TINY, value)
