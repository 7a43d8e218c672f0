"""Fieller's interval of a ratio.

Some problems in interval estimation, Journal of the Royal Statistical Society B 16, 1954.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def compute_fieller_interval(a: F64, b: F64, square_a: F64, square_b: F64) -> tuple[F64, F64]:
    """Compute the ends of the interval of K ratios b/a, (K,) each.

    It holds the ratios r with b - r a within half an interval of 0. `square_a` and `square_b` are the
    squares of half the intervals of A and B. Both ends are NaN where A is 0.
    """
    first, third = a * a - square_a, b * b - square_b
    inner = (a * b) ** 2 - first * third
    # The smaller root by the product of both, because a difference would lose digits where `first` is small.
    larger = a * b + np.sqrt(np.maximum(inner, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        low, high = third / larger, larger / first
    # If A may be 0, any large ratio is possible, and the lower end is the larger root.
    bounded = first > 0
    least = np.where(bounded, low, np.where((inner > 0) & (third > 0), low, 0.0))
    return (
        np.where(a > 0, np.maximum(least, 0.0), np.nan),
        np.where(a > 0, np.where(bounded, high, np.inf), np.nan),
    )
