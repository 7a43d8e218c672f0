"""How far functions differ between two periods although nothing changed in them.

Blocks of time within a period do not show how far two periods differ. But a comparison has many functions,
and most of them did not change: their differences show it. This is Efron's empirical null (Large-scale
simultaneous hypothesis testing, Journal of the American Statistical Association 99, 2004): the center and
the spread of the differences that no change explains are estimated from all functions together.

- The center is the shift that all unchanged functions have in common. If one function doubles, the shares
  of all others shrink; if load is not accounted for, the rates of all grow. It is the weighted median of
  the log ratios.
- The spread is the variance between periods that a function's own variance does not explain. With it, the
  weighted mean of the squared standardized differences, each cut at `CUT` squared, is what it is for a
  normal distribution (Huber's proposal 2, Robust Statistics, 1981, §6.4).

Functions that did change hardly move either. Weights are the inverse standard errors: precise functions
count for more, but a single large one does not decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

MIN_FUNCTIONS: Final = 10
"""Fewer functions do not show a spread; `DEFAULT_SPREAD` is assumed. They do show a shift."""
DEFAULT_SPREAD: Final = 0.1
"""Standard deviation of log ratios between two periods, where functions cannot show it."""
CUT: Final = 1.5
"""Standardized differences beyond this count as this."""
_MEAN_CUT_SQUARE: Final = 0.7785
"""Mean of the squares of a standard normal variable, cut at `CUT` squared."""
_EFFICIENCY: Final = 0.725
"""Efficiency of the spread, cut at `CUT`, where differences are normal."""
_STEPS: Final = 40
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class EmpiricalNull:
    """The differences of unchanged functions: `shift` and `variance` of log ratios.

    `df` are the degrees of freedom of the variance. With `are_shares` a share near 1 differs as little as
    its rest, so the variance is that of the odds.
    """

    shift: float = 0.0
    variance: float = 0.0
    df: float = 1.0
    are_shares: bool = False

    def compute_variance(self, rate: F64) -> F64:
        """Return the variance between periods of rates (K,)."""
        scale = rate * np.clip(1 - rate, 0.0, 1.0) if self.are_shares else rate
        variance: F64 = self.variance * scale**2
        return variance


NO_NULL: Final = EmpiricalNull()
"""Both sides were observed at the same time, so there is no variation between periods."""


def estimate_empirical_null(
    log_ratios: F64, variances: F64, *, rests: F64 | None = None, shift: float | None = None
) -> EmpiricalNull:
    """Estimate the empirical null from the log ratios of K functions, (K,).

    `variances` (K,) are their own variances, above 0. `rests` (K,) are what is left of the whole, above 0,
    if the functions are compared by their shares. `shift` is given if it is known from others.
    """
    count, are_shares = len(log_ratios), rests is not None
    rest = np.ones(count) if rests is None else rests
    if count < MIN_FUNCTIONS:
        if shift is None:
            shift = _weighted_median(log_ratios, 1 / np.sqrt(variances)) if count else 0.0
        return EmpiricalNull(shift, DEFAULT_SPREAD**2, float(MIN_FUNCTIONS), are_shares)
    own, variance, center = variances / rest**2, 0.0, shift or 0.0
    for _ in range(_ROUNDS):
        weights = 1 / np.sqrt(own + variance)
        if shift is None:
            center = _weighted_median(log_ratios, weights / rest)
        variance = _find_excess(((log_ratios - center) / rest) ** 2, own, weights)
    # Unequal weights are worth fewer functions (Kish, Survey Sampling, 1965, §11.7).
    equal_count = float(weights.sum() ** 2 / (weights**2).sum())
    return EmpiricalNull(center, variance, max(_EFFICIENCY * (equal_count - 1), 1.0), are_shares)


def _find_excess(squares: F64, variances: F64, weights: F64) -> float:
    """Find the additional variance that explains the squares; 0 if none is needed."""

    def is_short(variance: float) -> bool:
        cut = np.minimum(squares / (variances + variance), CUT**2)
        return float(cut @ weights) > _MEAN_CUT_SQUARE * float(weights.sum())

    if not is_short(0.0):
        return 0.0
    low, high = 0.0, float(squares.max()) / _MEAN_CUT_SQUARE
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if is_short(middle) else (low, middle)
    return high


def _weighted_median(values: F64, weights: F64) -> float:
    """Return the value with half of the weight on either side, between two neighbours."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(weights.sum() / 2, below, values[order]))
