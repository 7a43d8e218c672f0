"""Observe the variation of a rate in time by its projections on cosines.

The load of one minute resembles that of the next, so sixty minutes say less about an hour than sixty
independent ones would. The projections of a series of T blocks on its slowest cosines are nearly
independent of each other, and have the variance that the sum of the series has, divided by T. The variance
of a sum is therefore T times the mean of their squares, with one degree of freedom each: the estimator with
equal-weighted cosines (Lazarus, Lewis, Stock and Watson, HAR Inference, Journal of Business and Economic
Statistics 36, 2018). Variation slower than the range is observed by no block of it; see `empirical_null`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

MAX_COSINES: Final = 8
"""Higher frequencies are mostly sampling noise and farther from frequency 0."""


@lru_cache(maxsize=64)
def build_cosines(blocks: int) -> F64:
    """Return the slowest type-II cosines over `blocks` blocks, (T, count).

    The columns are orthonormal, and each adds up to 0. Their number is at most `MAX_COSINES` and less than
    the number of blocks: none for one block.
    """
    count = min(MAX_COSINES, blocks - 1)
    at = (np.arange(blocks) + 0.5) / blocks
    cosines: F64 = np.sqrt(2 / blocks) * np.cos(np.pi * np.outer(at, np.arange(1, count + 1)))
    cosines.flags.writeable = False
    return cosines
