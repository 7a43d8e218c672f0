"""How far ranges of a service lie apart by themselves, from what came before the sides that are compared.

Sides at different times had different load, and how far load of an hour lies from that of the next no hour
can tell: what `slowness` makes of its sixty minutes is a guess. What came before can tell. A service that was
watched for three days has 72 hours to show how hours differ.

The rates of earlier ranges, as long as the sides, are taken to be normal on a logarithmic scale, with the
covariance that load has which forgets exponentially, beside what no two ranges share and the course of a day.
All but the day may have come to vary more than it did at first, as does what a machine makes of the same
work once others move in; that it came to vary less would be judged by few ranges, and is not taken to be so.
How slow, how much of each and how large is not known: all of them are weighed by their restricted likelihood
(Harville, 1974). For each of them what came before says which difference of the sides is to be expected, and
how far it may be off: the best linear prediction where the mean is not known (universal kriging; Cressie,
Statistics for Spatial Data, 1993, §3.4). So B at nine is expected to take more than A at eight, if nine
o'clock does, and what both have in common cancels. Neither side has a say in it. Together they make a mixture
of Student's t, as in `slowness`, of which the interval has its middle in the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight.verdicts.student import mixed

F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

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
_GREW: Final = np.array([1.0, 4.0])
"""How many times as large the variance that is not the day's may have become since the first range."""
RARER: Final = 0.5
"""That it grew is taken to be rarer: by this power of how much."""
TWICE_DAILY: Final = 0.1
"""What part of the day comes twice a day: there is a noon, or two shifts."""
LEAST_LEFT: Final = 1e-3
"""However well the rest is foretold, so much remains of the variance that sides have by themselves."""
_ITSELF: Final = 1e-9
"""Nearer than this a range is the same one."""
LEAST_OF_DAY: Final = 0.9
"""What is shorter than this part of a day shows no more of it than load that changes slowly would."""
_UNUSUAL: Final = 3.0
"""So many standard errors off the median a range is unusual,"""
_LEAST_UNUSUAL: Final = 0.05
"""and by so much of a logarithm at least: 5 %."""


@dataclass(frozen=True, slots=True)
class History:
    """The rates of ranges that came before either side or between them, none of them 0, and where each began,
    (N,), in lengths of one.

    `sides`: where the ranges began that A is made of, and B, none of them among the others; `day` is how long
    a day is. All are in such lengths. `directed`: B is judged by what is beyond the difference
    that is to be expected; else that is among what the interval allows for.
    """

    rates: F64
    starts: F64
    sides: tuple[F64, F64]
    day: float
    directed: bool = True

    @property
    def tells(self) -> bool:
        """Whether there is enough of it: before both sides also no less than lies between them."""
        if len(self.rates) < FEWEST:
            return False
        apart = abs(float(self.sides[1].mean() - self.sides[0].mean()))
        first = min(float(side.min()) for side in self.sides)
        return max(apart, 1.0) <= first - float(self.starts.min())

    def foretold(self, alpha: float) -> Foretold:
        """How far two sides that take the same are expected to lie apart."""
        logs = np.log(self.rates)
        logs = logs - logs.mean()
        freedom = len(logs) - 1
        longest = float(np.ptp(self.starts)) + 1
        daily = _DAILY if longest >= LEAST_OF_DAY * self.day else _DAILY[:1]
        spans = np.geomspace(_SHORTEST, _LONGEST * longest, _TIMES)
        grid = np.meshgrid(spans, _ALONE, daily, _GREW)
        times, alone, part, grew = (axis.ravel() for axis in grid)
        loads = _Loads(times, alone, part, self.day)
        sizes = grew[:, None] ** ((self.starts - self.starts.max()) / (2 * longest))
        one, two = (loads.shared(_lags(self.starts, side), sizes).mean(2) for side in self.sides)
        found = _conditioned(loads.shared(_lags(self.starts, self.starts), sizes, sizes), logs, two - one)
        likely = (
            -SHORTER * np.log(times)
            - RARER * np.log(grew)
            - 0.5 * (found.determinant + np.log(found.ones) + freedom * np.log(found.scale))
        )
        weighed = np.exp(likely - likely.max())
        weighed /= weighed.sum()
        # both sides have their own of what no two ranges share, also where they meet
        between = loads.shared(np.maximum(_lags(*self.sides), 1.0)).mean((1, 2))
        within = [loads.shared(_lags(side, side)).mean((1, 2)) for side in self.sides]
        apart = within[0] + within[1] - 2 * between
        left = np.maximum(apart - found.told, LEAST_LEFT * (within[0] + within[1]))
        middle = float(weighed @ found.mean) if self.directed else 0.0
        variance, df = left * found.scale / freedom, np.full(len(weighed), float(freedom))
        return Foretold(middle, *mixed(weighed, variance, df, alpha, found.mean - middle))


@dataclass(frozen=True, slots=True)
class Foretold:
    """What is expected of two sides that take the same: the logarithm of B's rate over A's, half the interval
    of it, and the degrees of freedom of that."""

    log: float
    half: float
    df: float


@dataclass(frozen=True, slots=True)
class _Conditioned:
    """What rates (N,) say with each of G covariances: each (G,).

    1'C⁻¹1; what is left of logs'C⁻¹logs when their mean is taken out (`scale`); log |C|; the mean of the
    difference of two ranges given the rates, and how much smaller they make its variance (`told`), with what
    is lost as the mean of all is not known.
    """

    ones: F64
    scale: F64
    determinant: F64
    mean: F64
    told: F64


def _conditioned(inside: F64, logs: F64, shared: F64) -> _Conditioned:
    """Of covariances C (G, N, N) and how much rates have in common with the difference, d (G, N).

    One decomposition tells all: below that of C, that of C with more rows b has b'L⁻ᵀ.
    """
    count = len(logs)
    whole = np.zeros((len(inside), count + 3, count + 3))
    whole[:, :count, :count] = inside
    whole[:, count, :count], whole[:, count + 1, :count], whole[:, count + 2, :count] = 1.0, logs, shared
    # whatever stands there, it changes nothing above; so large it is never less than what is taken off
    rows = np.arange(count, count + 3)
    whole[:, rows, rows] = 1e30
    lower = np.linalg.cholesky(whole)
    one, own, of = (lower[:, row, :count] for row in rows)
    pairs = ((one, one), (one, own), (own, own), (of, one), (of, own), (of, of))
    ones, cross, square, of_one, of_own, of_of = (np.einsum("gn,gn->g", *pair) for pair in pairs)
    scale = np.maximum(square - cross**2 / ones, np.finfo(float).tiny)
    diagonal = np.diagonal(lower, axis1=1, axis2=2)[:, :count]
    mean = of_own - of_one * cross / ones
    return _Conditioned(ones, scale, 2 * np.log(diagonal).sum(1), mean, of_of - of_one**2 / ones)


def averaged(lag: F64, times: F64) -> F64:
    """The covariance of load of variance 1 that forgets exponentially in so many `times` a stretch, averaged
    over each of two stretches whose beginnings are so far apart: 0, or 1 and more."""
    rate = 1 / times
    forgets = -np.expm1(-rate)
    same = 2 * (rate - forgets) / rate**2
    apart = np.exp(-np.maximum(lag - 1, 0.0) * rate) * (forgets / rate) ** 2
    found: F64 = np.where(lag < _ITSELF, same, apart)
    return found


def crowded(sampled: F64, clock: F64) -> Flags:
    """In which ranges processes waited for a CPU unusually long, or unusually little: (N,) of the CPU seconds
    of each by samples and by the kernel's clock, both zero or more.

    Samples count a thread that waits for a CPU as running. How long it waits is no load, and a few ranges of
    a crowded machine would make it seem that load varies. They are known by the logarithm of what samples
    make of the clock's time: as far off its median as no luck explains, by the median absolute deviation.
    Rates may lie as far off as they like. Where either is 0 nothing is told.
    """
    known = (sampled > 0) & (clock > 0)
    if not known.any():
        return known
    off = np.zeros(len(sampled))
    ratio = np.log(sampled[known] / clock[known])
    off[known] = np.abs(ratio - np.median(ratio))
    error = float(np.median(off[known])) / NormalDist().inv_cdf(0.75)
    found: Flags = off > max(_UNUSUAL * error, _LEAST_UNUSUAL)
    return found


def _lags(one: F64, two: F64) -> F64:
    lags: F64 = np.abs(np.subtract.outer(one, two)).round(6)
    return lags


@dataclass(frozen=True, slots=True)
class _Loads:
    """Loads of variance 1 that forget in so many ranges, but for the part that no two ranges share and that
    which is the day's, (G,) each."""

    times: F64
    alone: F64
    daily: F64
    day: float

    def shared(self, lags: F64, *sizes: F64) -> F64:
        """The covariance of ranges whose beginnings are so far apart, (N, M): (G, N, M).

        Load is averaged over each range, as it is seen. `sizes`: how large what is not the day's was in each
        of N, (G, N), and of M, (G, M), against what it is by now; else as large.
        """
        away, where = np.unique(lags, return_inverse=True)
        lag = away[:, None]
        apart = averaged(lag, self.times) / averaged(np.zeros(1), self.times)
        slow = np.where(lag < _ITSELF, 1.0, (1 - self.alone) * apart)
        once, twice = np.sinc(1 / self.day) ** 2, np.sinc(2 / self.day) ** 2
        again = (1 - TWICE_DAILY) * once * np.cos(2 * np.pi * lag / self.day)
        again = again + TWICE_DAILY * twice * np.cos(4 * np.pi * lag / self.day)
        whole = (1 - TWICE_DAILY) * once + TWICE_DAILY * twice
        # ranges of whole days hold nothing of it
        daily = self.daily * (whole > 1e-6)
        slow, again = (
            np.ascontiguousarray(part.T).take(where.reshape(lags.shape), 1)
            for part in ((1 - daily) * slow, daily * again / max(whole, 1e-6))
        )
        for size, axis in zip(sizes, (2, 1), strict=False):
            slow *= np.expand_dims(size, axis)
        slow += again
        return slow
