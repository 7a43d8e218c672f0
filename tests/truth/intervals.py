"""What a share that was sampled may be off by.

The estimator of a share p is k/n: of the n samples of a window, k were seen there. Its 95 % interval is
Clopper and Pearson's, the exact one for a binomial k: it never covers the truth less often than it says.
Samples at jittered intervals are no more variable than independent ones (they are spread more evenly
than luck would), so the interval is right or too wide, never too narrow: `test_intervals` shows it on a
simulated sampler. For the same reason an interval alone is a weak test. What every window was off by,
averaged over all of them, is the strong one: its error is taken from the windows themselves, and shrinks
with their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

TAIL = 0.025
Z = 1.96


def share_is_covered(hits: int, samples: int, truth: float) -> bool:
    """Whether the 95 % interval of Clopper and Pearson around hits/samples holds the truth."""
    if not 0 < truth < 1:
        return hits == (samples if truth >= 1 else 0)
    return _likely(hits, samples, truth) and _likely(samples - hits, samples, 1 - truth)


def mean_is_covered(seen: float, samples: int, truth: float, variance: float) -> bool:
    """Whether the 95 % interval around the mean of so many samples, of this variance, holds the truth."""
    return abs(seen - truth) <= Z * math.sqrt(variance / samples) + 1e-9


@dataclass(frozen=True, slots=True)
class Bias:
    """What the windows were off by on average, and the standard error of that."""

    mean: float
    error: float

    def beyond(self, allowed: float, sigmas: float) -> bool:
        """Whether luck explains no more than `sigmas` standard errors of what is not allowed."""
        return abs(self.mean) > allowed + sigmas * self.error


def bias(differences: Sequence[float]) -> Bias:
    count = len(differences)
    mean = math.fsum(differences) / count
    variance = math.fsum((difference - mean) ** 2 for difference in differences) / (count - 1)
    return Bias(mean, math.sqrt(variance / count))


def _likely(hits: int, samples: int, truth: float) -> bool:
    """Whether a binomial gives at most `hits` of `samples` in more than one case of 40."""
    ways = math.lgamma(samples + 1) - math.lgamma(hits + 1) - math.lgamma(samples - hits + 1)
    term = math.exp(ways + hits * math.log(truth) + (samples - hits) * math.log1p(-truth))
    sum_of_terms = term
    for k in range(hits, 0, -1):
        if sum_of_terms > TAIL:
            break
        term *= k / (samples - k + 1) * (1 - truth) / truth
        sum_of_terms += term
    return sum_of_terms > TAIL
