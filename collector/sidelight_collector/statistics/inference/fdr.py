"""Tests of many quantities with control of the false-discovery rate.

After Benjamini and Hochberg (Journal of the Royal Statistical Society B 57, 1995).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

F64 = NDArray[np.float64]


def benjamini_hochberg(p: ArrayLike) -> F64:
    """Return the q-value of each p-value: `compute_q_values` for arrays."""
    values = np.nan_to_num(np.asarray(p, float), nan=1.0)
    order = np.argsort(-values)
    steps = values[order] * len(values) / np.arange(len(values), 0, -1)
    q: F64 = np.empty_like(values)
    q[order] = np.minimum.accumulate(np.minimum(steps, 1.0))
    return q
