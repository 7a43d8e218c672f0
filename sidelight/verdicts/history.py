"""How far ranges of a service lie apart by themselves, from what came before the sides that are compared.

Sides at different times had different load, and how far load of an hour lies from that of the next no hour
can tell: `slowness` has to guess from its sixty minutes how much slower than an hour load changes. What came
before can tell. A service that was watched for three days has 72 hours to show how hours differ.

The rates of earlier ranges, as long as the sides, are taken to be normal on a logarithmic scale, with the
covariance that load has which forgets exponentially, beside what no two ranges share and the course of a day.
How slow, how much of each and how large is not known: all of them are weighed by their restricted likelihood
(Harville, 1974), and half the interval is that of the mixture of Student's t, as in `slowness`. What two
ranges so far apart have in common cancels, and of the day all that comes again at the same hour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight.verdicts.student import mixed

F64 = NDArray[np.float64]

FEWEST: Final = 8
"""Fewer earlier ranges say less of how ranges differ than the sides themselves do."""
MOST: Final = 72
"""So many are looked at: three days of hours. Twice as many take seven times as long."""
_TIMES: Final = 10
_SHORTEST: Final = 0.2
_LONGEST: Final = 3.0
SHORTER: Final = 0.3
"""Slow load is taken to be a little rarer than fast: by this power of its correlation time."""
_ALONE: Final = np.array([0.0, 0.5, 0.9])
"""What part of the variance that is not the day's no two ranges may share."""
_DAILY: Final = np.array([0.0, 0.5, 0.9, 0.98, 0.996])
"""What part of the variance may be the day's."""
TWICE_DAILY: Final = 0.1
"""What part of the day comes twice a day: there is a noon, or two shifts."""
_ITSELF: Final = 1e-9
"""Nearer than this a range is the same one."""
LEAST_OF_DAY: Final = 0.9
"""What is shorter than this part of a day shows no more of it than load that changes slowly would."""


@dataclass(frozen=True, slots=True)
class History:
    """The rates of ranges that came before, none of them 0, and where each began, (N,), in lengths of one.

    `apart`: how far apart the two sides that are compared began, at least 1; `day`: both in such lengths.
    """

    rates: F64
    starts: F64
    apart: float
    day: float

    @property
    def tells(self) -> bool:
        """Whether there is enough of it: also no less than lies between the sides."""
        count = len(self.rates)
        return count >= FEWEST and self.apart <= float(np.ptp(self.starts)) + 1

    def half(self, alpha: float) -> tuple[float, float]:
        """Half the interval of the relative difference of two sides that took the same, and its degrees of
        freedom."""
        logs = np.log(self.rates)
        logs = logs - logs.mean()
        freedom = len(logs) - 1
        daily = _DAILY if np.ptp(self.starts) + 1 >= LEAST_OF_DAY * self.day else _DAILY[:1]
        grid = np.meshgrid(
            np.geomspace(_SHORTEST, _LONGEST * (float(np.ptp(self.starts)) + 1), _TIMES), _ALONE, daily
        )
        times, alone, part = (axis.ravel() for axis in grid)
        lags, where = np.unique(
            np.abs(np.subtract.outer(self.starts, self.starts)).round(6), return_inverse=True
        )
        slow, again = _shared(lags, times, alone, part, self.day)
        inside = np.ascontiguousarray((slow + again).T)[:, where.reshape(len(logs), len(logs))]
        ones, scale, determinant = _likelihood(inside, logs)
        likely = -SHORTER * np.log(times) - 0.5 * (determinant + np.log(ones) + freedom * np.log(scale))
        weighed = np.exp(likely - likely.max())
        slow, again = _shared(np.array([0.0, self.apart]), times, alone, part, self.day)
        error = 2 * (slow[0] - slow[1] + np.maximum(again[0] - again[1], 0.0))
        return mixed(
            weighed / weighed.sum(), error * scale / freedom, np.full(len(times), float(freedom)), alpha
        )


def _likelihood(inside: F64, logs: F64) -> tuple[F64, F64, F64]:
    """What the restricted likelihood of rates (N,) is made of, for each of their covariances C (G, N, N):
    1'C⁻¹1, what is left of logs'C⁻¹logs when their mean is taken out, and log |C|; each (G,).

    One decomposition tells all: below that of C, that of C with more rows b has b'L⁻ᵀ.
    """
    count = len(logs)
    whole = np.zeros((len(inside), count + 2, count + 2))
    whole[:, :count, :count] = inside
    whole[:, count, :count], whole[:, count + 1, :count] = 1.0, logs
    # whatever stands there, it changes nothing above; so large it is never less than what is taken off
    whole[:, [count, count + 1], [count, count + 1]] = 1e30
    lower = np.linalg.cholesky(whole)
    one, own = lower[:, count, :count], lower[:, count + 1, :count]
    ones, cross, square = (np.einsum("gn,gn->g", *of) for of in ((one, one), (one, own), (own, own)))
    scale = np.maximum(square - cross**2 / ones, np.finfo(float).tiny)
    diagonal = np.diagonal(lower, axis1=1, axis2=2)[:, :count]
    return ones, scale, 2 * np.log(diagonal).sum(1)


def averaged(lag: F64, times: F64) -> F64:
    """The covariance of load of variance 1 that forgets exponentially in so many `times` a stretch, averaged
    over each of two stretches whose beginnings are so far apart: 0, or 1 and more."""
    rate = 1 / times
    forgets = -np.expm1(-rate)
    same = 2 * (rate - forgets) / rate**2
    apart = np.exp(-np.maximum(lag - 1, 0.0) * rate) * (forgets / rate) ** 2
    found: F64 = np.where(lag < _ITSELF, same, apart)
    return found


def _shared(lag: F64, times: F64, alone: F64, daily: F64, day: float) -> tuple[F64, F64]:
    """The covariance (L, G) of ranges so far apart (L,): of what is not the day's, and of the day's.

    Load of variance 1 is averaged over each range, as it is seen.
    """
    away = lag[:, None]
    apart = averaged(away, times) / averaged(np.zeros(1), times)
    slow = np.where(away < _ITSELF, 1.0, (1 - alone) * apart)
    once, twice = np.sinc(1 / day) ** 2, np.sinc(2 / day) ** 2
    again = (1 - TWICE_DAILY) * once * np.cos(2 * np.pi * away / day)
    again = again + TWICE_DAILY * twice * np.cos(4 * np.pi * away / day)
    whole = (1 - TWICE_DAILY) * once + TWICE_DAILY * twice
    # ranges of whole days hold nothing of it
    known = whole > 1e-6
    return (1 - daily * known) * slow, daily * known * again / max(whole, 1e-6)
