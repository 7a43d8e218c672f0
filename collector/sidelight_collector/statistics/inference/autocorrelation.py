"""How slowly load changes beside the range that is compared, and what that does to the error of a mean.

Load of one minute resembles that of the next, so sixty minutes say less of an hour than sixty independent
ones would. What a range says of its own error is in the projections of its series of T blocks on cosines:
each is nearly independent of the others, and their variance is the spectrum at one frequency (Lazarus, Lewis,
Stock and Watson, 2018; Müller and Watson, 2018). The error of the mean is the spectrum at frequency 0, which
no projection sees, and averaging the nearest ones says too little of it as soon as load changes slowly: with
load that resembles itself for a sixth of the range, an average of eight finds false changes in one of four
comparisons.

So the spectrum is carried to 0 by the simplest load there is: a part that forgets exponentially, with a
correlation time that is not known, and beside it the course of a day, which comes again every 24 hours and
whose size is not known. Of that the mean holds what does not cancel: nothing where a range is whole days.
Every correlation time from a tenth of a block to three times the range, with every size of the day, is
weighed by how likely it makes the first projections (their scale integrated out, as in Müller and Watson),
and the interval is the one of that mixture of Student's t.

Of time at different hours this is a guess that no two ranges can check, so it is not used there. What is no
time (how deep stacks are, who of its callbacks holds a loop) has its own course alone, and is judged by it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.student_t import mixture_quantile, t_quantile

F64 = NDArray[np.float64]

DAY_SECONDS: Final = 86400.0
MAX_FREQUENCIES: Final = 8
"""Of higher ones sampling noise has most, and they are farther from what is asked."""
_CORRELATION_TIMES: Final = 16
_MAX_CORRELATION_RATIO: Final = 3.0
_DAILY_SHARES: Final = np.array([0.0, 0.5, 0.8, 0.95])
"""What part of the variance of load may be the day's."""
PRIOR_EXPONENT: Final = 0.3
"""Slow load is taken to be a little rarer than fast: by this power of its correlation time."""
HALF_DAY_SHARE: Final = 0.1
"""What part of the day comes twice a day: there is a noon, or two shifts."""
MIN_DAY_SHARE: Final = 0.9
"""What is shorter than this part of a day shows no more of it than load that changes slowly would."""
_ZERO_LAG: Final = 1e-9
"""Nearer than this a block is the same one."""
_REPLICATION_DF_FACTOR: Final = 0.7
"""A mixture's tails say less of how its interval scatters than a Student's t would: so many of its degrees.
By simulation (`bench/verdicts`): with it what is called detectable is found in four of five comparisons."""


@dataclass(frozen=True, slots=True)
class HarWeights:
    """What a sum of squared projections says of the variance of a mean.

    Of each series `waves` (T, count) are what it is projected on, orthonormal and each adding up to 0;
    `weights` (count,): the variance is the sum of the squares of the projections times these. With as many
    degrees of freedom it has the interval of the mixture. `replication_df_ratio`: in what part of these
    degrees it would be as large again, as the correlation time is not known. `correlation_seconds` is the
    time in seconds over which load resembles itself, as far as can be seen.
    """

    waves: tuple[F64, ...]
    weights: tuple[F64, ...]
    replication_df_ratio: float
    correlation_seconds: float


def build_cosine_basis(blocks: int, count: int) -> F64:
    """The first `count` type-II cosines over so many blocks, as columns (T, count).

    They are orthonormal, and each adds up to 0.
    """
    at = (np.arange(blocks) + 0.5) / blocks
    waves: F64 = np.sqrt(2 / blocks) * np.cos(np.pi * np.outer(at, np.arange(1, count + 1)))
    return waves


def estimate_har_weights(
    series: Sequence[F64],
    block_seconds: Sequence[float],
    alpha: float,
    day_seconds: float | None = DAY_SECONDS,
    *,
    is_uncorrelated: bool = False,
) -> HarWeights:
    """Weights for series (T,) of what each block adds to the error of a mean, blocks being so many seconds
    long; `day_seconds` is how long a day is, None where it has cancelled. `is_uncorrelated`: it is known
    that nothing resembles itself for longer than a block.

    They share their correlation time and how much of them is the day's, and not their scale. A series of one
    block says nothing: no weights.
    """
    counts = [min(MAX_FREQUENCIES, len(one) - 1) for one in series]
    waves = [build_cosine_basis(len(one), count) for one, count in zip(series, counts, strict=True)]
    if not min(counts):
        none = tuple(np.zeros(count) for count in counts)
        return HarWeights(tuple(waves), none, 1.0, 0.0)
    longest = max(len(one) * each for one, each in zip(series, block_seconds, strict=True))
    daily = (
        _DAILY_SHARES
        if day_seconds is not None and longest >= MIN_DAY_SHARE * day_seconds and not is_uncorrelated
        else _DAILY_SHARES[:1]
    )
    shortest = min(block_seconds) / 10
    lasting = np.geomspace(shortest, _MAX_CORRELATION_RATIO * longest, _CORRELATION_TIMES)
    grid = np.meshgrid(lasting[:1] if is_uncorrelated else lasting, daily)
    times, parts = (axis.ravel() for axis in grid)
    loads = [LoadModel(times / each, parts, (day_seconds or DAY_SECONDS) / each) for each in block_seconds]
    weighed, variances = _weigh_models(series, waves, loads, -PRIOR_EXPONENT * np.log(times))
    middle, part = np.exp(weighed @ np.log(times)), weighed @ parts
    diagonal_waves = [
        _diagonalize(
            wave, LoadModel(np.array([middle / each]), np.array([part]), (day_seconds or DAY_SECONDS) / each)
        )
        for wave, each in zip(waves, block_seconds, strict=True)
    ]
    plain = [
        float((one @ wave) ** 2 @ weight) for one, (wave, weight) in zip(series, diagonal_waves, strict=True)
    ]
    stretch, doubt = 1.0, 1.0
    if sum(plain):
        half, df = mixture_quantile(
            weighed, np.sum(variances, axis=0), _satterthwaite_df(variances, counts), alpha
        )
        freedom = float(_satterthwaite_df(plain, counts))
        stretch = (half / float(t_quantile(1 - alpha / 2, freedom))) ** 2 / sum(plain)
        doubt = min(_REPLICATION_DF_FACTOR * df / freedom, 1.0)
    return HarWeights(
        tuple(wave for wave, _ in diagonal_waves),
        tuple(weight * stretch for _, weight in diagonal_waves),
        doubt,
        float(middle),
    )


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Loads of variance 1 that forget in so many blocks (G,), but for the part (G,) that comes again every
    `day_blocks` blocks."""

    correlation_times: F64
    daily_shares: F64
    day_blocks: float

    def compute_covariances(self, blocks: int) -> tuple[F64, F64]:
        """The covariance of so many blocks, averaged over each, as load is seen: (G, T, T) of what forgets
        and of the day."""
        lag = np.abs(np.subtract.outer(np.arange(blocks), np.arange(float(blocks))))
        slow = average_covariance(lag, self.correlation_times[:, None, None])
        daily_covariance = (1 - HALF_DAY_SHARE) * _compute_periodic_covariance(
            lag, self.day_blocks
        ) + HALF_DAY_SHARE * _compute_periodic_covariance(lag, self.day_blocks / 2)
        part = self.daily_shares[:, None, None]
        return (1 - part) * slow, part * daily_covariance

    def project_covariance(self, waves: F64) -> tuple[F64, F64]:
        """The covariance of the projections (G, count, count), and the variance of the sum (G,).

        What remains of a day in the sums of two sides may have either sign in each, so it counts twice: they
        may be half a day apart.
        """
        slow, daily = self.compute_covariances(len(waves))
        return waves.T @ (slow + daily) @ waves, slow.sum((1, 2)) + 2 * daily.sum((1, 2))


def average_covariance(lag: F64, times: F64) -> F64:
    """The covariance of load of variance 1 that forgets exponentially in so many `times` a stretch, averaged
    over each of two stretches whose beginnings are so far apart: 0, or 1 and more."""
    rate = 1 / times
    forgets = -np.expm1(-rate)
    same = 2 * (rate - forgets) / rate**2
    apart = np.exp(-np.maximum(lag - 1, 0.0) * rate) * (forgets / rate) ** 2
    found: F64 = np.where(lag < _ZERO_LAG, same, apart)
    return found


def _weigh_models(
    series: Sequence[F64], waves: Sequence[F64], loads: Sequence[LoadModel], prior: F64
) -> tuple[F64, list[F64]]:
    """How likely each load is (G,), given the logarithm of that before anything is seen, and the variance of
    each series' sum with it."""
    likely, variances = prior, []
    for one, wave, load in zip(series, waves, loads, strict=True):
        inside, error = load.project_covariance(wave)
        seen, count = one @ wave, wave.shape[1]
        scale = np.maximum(np.linalg.solve(inside, seen[:, None])[:, :, 0] @ seen, np.finfo(float).tiny)
        likely = likely - 0.5 * np.linalg.slogdet(inside)[1] - count / 2 * np.log(scale)
        variances.append(error * scale / count)
    weighed = np.exp(likely - likely.max())
    return weighed / weighed.sum(), variances


def _compute_periodic_covariance(lag: F64, period: float) -> F64:
    """The covariance of the averages of two blocks of a wave with so many blocks a period, at any phase."""
    found: F64 = np.cos(2 * np.pi * lag / period) * np.sinc(1 / period) ** 2
    return found


def _diagonalize(waves: F64, load: LoadModel) -> tuple[F64, F64]:
    """The waves turned to where projections of this load do not depend on each other, and what to multiply
    their squares with."""
    inside, error = load.project_covariance(waves)
    heights, axes = np.linalg.eigh(inside[0])
    return waves @ axes, error[0] / (heights * len(heights))


def _satterthwaite_df(variances: Sequence[F64] | Sequence[float], counts: Sequence[int]) -> F64:
    """Satterthwaite's degrees of freedom of a sum of variances that have so many each."""
    each: F64 = np.asarray(variances, float)
    freedom: F64 = each.sum(0) ** 2 / (each.T**2 / counts).sum(-1)
    return freedom
