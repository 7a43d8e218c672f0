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

LEAST: Final = 0.2
"""A pod has a function where it takes so much of what the average pod takes of it."""
FEWEST: Final = 10
"""Of fewer samples nothing is said."""


def absent(seconds: F64, samples: F64, watched: F64, others: F64) -> F64:
    """The chance of seeing nothing in any of the other side's rows of what rows of this side took, (K, P), of
    so many samples, (K,).

    `watched` (P,) and `others` (Q,) are how long rows of either side were. Doubled, as Student's t is asked
    too; 1 where not all of two rows or more have it.
    """
    nothing = np.ones(len(seconds))
    alive, there = watched > 0, others[others > 0]
    if alive.sum() < 2 or not len(there):
        return nothing
    whole = watched[alive].sum()
    mean = seconds.sum(1) / whole
    everywhere = (seconds[:, alive] / watched[alive]).min(1) >= LEAST * mean
    told = everywhere & (mean > 0) & (samples >= FEWEST) & np.isfinite(samples)
    expected = np.where(told, samples, 0.0)[:, None] * (there / whole)
    return np.where(told, np.minimum(2 * np.exp(-np.log1p(expected).sum(1)), 1.0), nothing)


def at_most(level: float, samples: F64, watched: F64, others: F64) -> F64:
    """What part of this side's rate, from 0 to 1, the other may have and show nothing with the chance
    `level`, (K,)."""
    rows = max(int((others > 0).sum()), 1)
    each = samples * (others.sum() / rows / watched.sum())
    part: F64 = np.minimum((level ** (-1 / rows) - 1) / each, 1.0)
    return part
