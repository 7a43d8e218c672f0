"""How far functions differ between two periods although nothing changed in them.

Blocks of time within a period do not show how far two periods differ. But a comparison has many functions,
and most of them did not change: their differences show it. This is Efron's empirical null (Large-scale
simultaneous hypothesis testing, Journal of the American Statistical Association 99, 2004): the center and
the spread of the differences that no change explains are estimated from all functions together.

- The center is the shift that all unchanged functions have in common. If one function doubles, the shares
  of all others shrink; if load is not accounted for, the rates of all grow. It is the weighted median of
  the log ratios.
- The spread is the variance between periods that a function's own variance does not explain. With it, the
  weighted median of the squared standardized differences is that of a chi-squared distribution.

Both are medians, so functions that did change hardly move them. Weights are the inverse standard errors:
precise functions count for more, but a single large one does not decide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

MIN_FUNCTIONS: Final = 10
"""Fewer functions do not show a spread; `DEFAULT_SPREAD` is assumed."""
DEFAULT_SPREAD: Final = 0.1
"""Standard deviation of log ratios between two periods, where functions cannot show it."""
MEDIAN_EFFICIENCY: Final = 0.37
"""Efficiency of the median absolute deviation (Huber, Robust Statistics, 1981, §1.2)."""
_MEDIAN_CHI_SQUARED: Final = 0.45494
"""Median of the chi-squared distribution with one degree of freedom."""
_STEPS: Final = 40
_ROUNDS: Final = 4


@dataclass(frozen=True, slots=True)
class EmpiricalNull:
    """The differences of unchanged functions: `shift` and `variance` of log ratios.

    `df` are the degrees of freedom of the variance. With `of_shares` the quantities are shares, whose ratio
    to the rest varies: the share of everything is 1 in every period.
    """

    shift: float = 0.0
    variance: float = 0.0
    df: float = 1.0
    of_shares: bool = False


NO_NULL: Final = EmpiricalNull()
"""Both sides were observed at the same time, so there is no variation between periods."""


def estimate_empirical_null(log_ratios: F64, variances: F64) -> EmpiricalNull:
    """Estimate the empirical null from the log ratios of K functions, (K,).

    `variances` (K,) are their own variances, above 0.
    """
    count = len(log_ratios)
    if count < MIN_FUNCTIONS:
        return EmpiricalNull(0.0, DEFAULT_SPREAD**2, float(MIN_FUNCTIONS))
    shift, variance = 0.0, 0.0
    for _ in range(_ROUNDS):
        weights = 1 / np.sqrt(variances + variance)
        shift = _weighted_median(log_ratios, weights)
        variance = _find_excess((log_ratios - shift) ** 2, variances, weights)
    return EmpiricalNull(shift, variance, max(MEDIAN_EFFICIENCY * (count - 1), 1.0))


def _find_excess(squares: F64, variances: F64, weights: F64) -> float:
    """Find the additional variance that explains the squares; 0 if none is needed."""
    if _weighted_median(squares / variances, weights) <= _MEDIAN_CHI_SQUARED:
        return 0.0
    low, high = 0.0, float(squares.max()) / _MEDIAN_CHI_SQUARED
    for _ in range(_STEPS):
        middle = (low + high) / 2
        is_short = _weighted_median(squares / (variances + middle), weights) > _MEDIAN_CHI_SQUARED
        low, high = (middle, high) if is_short else (low, middle)
    return high


def _weighted_median(values: F64, weights: F64) -> float:
    """Return the value with half of the weight on either side, between two neighbours."""
    order = np.argsort(values)
    below = np.cumsum(weights[order]) - weights[order] / 2
    return float(np.interp(weights.sum() / 2, below, values[order]))
