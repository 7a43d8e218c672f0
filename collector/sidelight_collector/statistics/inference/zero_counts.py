"""Test of quantities that all pods of one side have and no pod of the other.

Student's t considers how far pods of the side that has the quantity scatter, and few pods that scatter by a
third hide anything new. Its complete absence from every pod of the other side says more. Suppose that the
other side's pods took as much on average, and that their rates differed as widely as their mean (an
exponential distribution). Then the number of samples of each pod would have a geometric distribution: none
with probability 1/(1 + m), where m are expected.

That holds for sides that were observed at the same time: otherwise all pods may have had it, at another
hour. It also holds only for what every pod does: what one pod of a service does for all may be on either
side.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

MIN_POD_SHARE: Final = 0.2
"""A pod has a function if it takes this part of what the average pod takes."""
MIN_SAMPLES: Final = 10
"""Quantities with fewer samples are not tested."""


def compute_zero_count_p_value(seconds: F64, samples: F64, exposure: F64, other_exposure: F64) -> F64:
    """Return the probability that the other side shows nothing by chance, (K,).

    `seconds` (K, P) are the seconds in the rows of this side, `samples` (K,) their number of samples.
    `exposure` (P,) and `other_exposure` (Q,) are the exposures of the rows of both sides. The result is
    doubled, because the test by Student's t is two-sided too. It is 1 unless all rows, and at least two,
    have the quantity.
    """
    nothing = np.ones(len(seconds))
    alive, there = exposure > 0, other_exposure[other_exposure > 0]
    if alive.sum() < 2 or not len(there):
        return nothing
    whole = exposure[alive].sum()
    mean = seconds.sum(1) / whole
    everywhere = (seconds[:, alive] / exposure[alive]).min(1) >= MIN_POD_SHARE * mean
    is_testable = everywhere & (mean > 0) & (samples >= MIN_SAMPLES) & np.isfinite(samples)
    expected = np.where(is_testable, samples, 0.0)[:, None] * (there / whole)
    return np.where(is_testable, np.minimum(2 * np.exp(-np.log1p(expected).sum(1)), 1.0), nothing)


def upper_bound_for_zero(level: float, samples: F64, exposure: F64, other_exposure: F64) -> F64:
    """Return the largest rate that the other side may have, (K,), from 0 to 1.

    It is a part of this side's rate, with which the other side shows nothing with probability `level`.
    """
    rows = max(int((other_exposure > 0).sum()), 1)
    each = samples * (other_exposure.sum() / rows / exposure.sum())
    part: F64 = np.minimum((level ** (-1 / rows) - 1) / each, 1.0)
    return part
