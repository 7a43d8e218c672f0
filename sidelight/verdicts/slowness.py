"""How slowly load changes beside the range that is compared, and what that does to the error of a mean.

Load of one minute resembles that of the next, so sixty minutes say less of an hour than sixty independent
ones would. What a range says of its own error is in the projections of its series of T blocks on cosines:
each is nearly independent of the others, and their variance is the spectrum at one frequency (Lazarus, Lewis,
Stock and Watson, 2018; Müller and Watson, 2018). The error of the mean is the spectrum at frequency 0, which
no projection sees, and averaging the nearest ones says too little of it as soon as load changes slowly: with
load that resembles itself for a sixth of the range, an average of eight finds false changes in one of four
comparisons.

So the spectrum is carried to 0 by the simplest load there is: one that forgets exponentially, with a
correlation time that is not known. Every correlation time from a tenth of a block to three times the range is
weighed by how likely it makes the first projections (their scale integrated out, as in Müller and Watson),
and the interval is the one of that mixture of Student's t. `bench/verdicts` shows where it holds, and from
when on it does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight.verdicts.student import quantile, two_sided

F64 = NDArray[np.float64]

FREQUENCIES: Final = 8
"""Of higher ones sampling noise has most, and they are farther from what is asked."""
_TIMES: Final = 16
_LONGEST: Final = 3.0
_SHORTER: Final = 0.3
"""Slow load is taken to be a little rarer than fast: by this power of its correlation time."""


@dataclass(frozen=True, slots=True)
class Passing:
    """What a sum of squared projections says of the variance of a mean.

    `weights`, of each series (count,): the variance is the sum of the squares of its first projections times
    these. `stretch`: by how much that is to be multiplied, as the correlation time is not known.
    `correlation` is the time in seconds over which load resembles itself, as far as can be seen.
    """

    weights: tuple[F64, ...]
    stretch: float
    correlation: float


def cosines(blocks: int, count: int) -> F64:
    """The first `count` type-II cosines over so many blocks, as columns (T, count).

    They are orthonormal, and each adds up to 0.
    """
    at = (np.arange(blocks) + 0.5) / blocks
    waves: F64 = np.sqrt(2 / blocks) * np.cos(np.pi * np.outer(at, np.arange(1, count + 1)))
    return waves


def passing(series: Sequence[F64], seconds: Sequence[float], alpha: float) -> Passing:
    """Weights for series (T,) of what each block adds to the error of a mean, blocks being so many seconds
    long.

    They share their correlation time and not their scale. A series of one block says nothing: no weights.
    """
    counts = [min(FREQUENCIES, len(one) - 1) for one in series]
    if not min(counts):
        return Passing(tuple(np.zeros(count) for count in counts), 1.0, 0.0)
    longest = max(len(one) * each for one, each in zip(series, seconds, strict=True))
    times = np.geomspace(min(seconds) / 10, _LONGEST * longest, _TIMES)
    likely = -_SHORTER * np.log(times)
    squares, variances = [], []
    for one, each, count in zip(series, seconds, counts, strict=True):
        heights, error = _spectrum(len(one), count, times / each)
        square = (one @ cosines(len(one), count)) ** 2
        scale = np.maximum((square / heights).sum(1), np.finfo(float).tiny)
        likely = likely - 0.5 * np.log(heights).sum(1) - count / 2 * np.log(scale)
        squares.append(square)
        variances.append(error * scale / count)
    weighed = np.exp(likely - likely.max())
    weighed /= weighed.sum()
    middle = np.exp(weighed @ np.log(times))
    weights = tuple(
        _weights(len(one), count, middle / each)
        for one, each, count in zip(series, seconds, counts, strict=True)
    )
    plain = [float(square @ weight) for square, weight in zip(squares, weights, strict=True)]
    if not sum(plain):
        return Passing(weights, 1.0, float(middle))
    half = _half(weighed, np.sum(variances, axis=0), _freedom(variances, counts), alpha)
    stretch = (half / float(quantile(1 - alpha / 2, _freedom(plain, counts)))) ** 2 / sum(plain)
    return Passing(weights, stretch, float(middle))


def _weights(blocks: int, count: int, time: float) -> F64:
    """What squared projections are to be multiplied with, where load forgets in so many blocks."""
    heights, error = _spectrum(blocks, count, np.array([time]))
    weights: F64 = error[0] / (heights[0] * count)
    return weights


def _freedom(variances: Sequence[F64] | Sequence[float], counts: Sequence[int]) -> F64:
    """Satterthwaite's degrees of freedom of a sum of variances that have so many each."""
    each: F64 = np.asarray(variances, float)
    freedom: F64 = each.sum(0) ** 2 / (each.T**2 / counts).sum(-1)
    return freedom


def _spectrum(blocks: int, count: int, times: F64) -> tuple[F64, F64]:
    """Of load that forgets in so many blocks (G,): the variance of each projection (G, count), and of its
    sum.

    Load is averaged over blocks, as it is seen, so both are relative to its variance at one moment. The sum
    is that of the whole series, as the series are of what each block adds to the mean.
    """
    basis = np.column_stack([np.ones(blocks), cosines(blocks, count)])
    rate = (1 / times)[:, None, None]
    lag = np.abs(np.subtract.outer(np.arange(blocks), np.arange(blocks)))
    forgets = -np.expm1(-rate)
    same = 2 * (rate - forgets) / rate**2
    apart = np.exp(-np.maximum(lag - 1, 0) * rate) * (forgets / rate) ** 2
    variances: F64 = (np.where(lag == 0, same, apart) @ basis * basis).sum(1)
    return variances[:, 1:], variances[:, 0]


def _half(weighed: F64, variance: F64, freedom: F64, alpha: float) -> float:
    """Half of the interval of a mixture of Student's t, between the shortest and the longest of its parts."""
    halves = quantile(1 - alpha / 2, freedom) * np.sqrt(variance)
    at = np.geomspace(halves.min(), halves.max(), 32)
    beyond = two_sided(at[:, None] / np.sqrt(variance), freedom) @ weighed
    return float(np.exp(np.interp(np.log(alpha), np.log(beyond[::-1]), np.log(at[::-1]))))
