"""What all pods of one side have and none of the other.

Student's t asks how far pods of the side that has it scatter, and few that scatter by a third hide whatever
is new. But that nothing at all was seen of it in any pod of the other side says more. Were pods of the other
side to take as much on average, and did what they take differ as widely as their mean (an exponential
distribution), each would have n samples with the chance of a geometric distribution: none with 1/(1 + m),
where m are to be expected.

That holds for sides that were watched at the same time: else all pods may have had it, at another hour. And
it holds for what every pod does: what one pod of a service does for all may be on either side.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]

MIN_POD_SHARE: Final = 0.2
"""A pod has a function where it takes so much of what the average pod takes of it."""
MIN_SAMPLES: Final = 10
"""Of fewer samples nothing is said."""


def compute_zero_count_p_value(seconds: F64, samples: F64, exposure: F64, other_exposure: F64) -> F64:
    """The chance of seeing nothing in any of the other side's rows of what rows of this side took, (K, P), of
    so many samples, (K,).

    `exposure` (P,) and `other_exposure` (Q,) are how long rows of either side were. Doubled, as Student's t
    is asked too; 1 where not all of two rows or more have it.
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
    """What part of this side's rate, from 0 to 1, the other may have and show nothing with the chance
    `level`, (K,)."""
    rows = max(int((other_exposure > 0).sum()), 1)
    each = samples * (other_exposure.sum() / rows / exposure.sum())
    part: F64 = np.minimum((level ** (-1 / rows) - 1) / each, 1.0)
    return part
