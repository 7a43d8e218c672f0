"""Estimate the error of a mean of correlated blocks of time.

The load of one minute resembles that of the next, so sixty minutes say less about an hour than sixty
independent ones would. The information that a range has about its own error is in the projections of its
series of T blocks on cosines. Each projection is nearly independent of the others, and their variance is
the spectrum at one frequency (Lazarus, Lewis, Stock and Watson, 2018; Müller and Watson, 2018). The error
of the mean is the spectrum at frequency 0, which no projection observes. An average of the nearest
projections underestimates it as soon as load changes slowly: with load that is correlated over a sixth of
the range, an average of eight finds false changes in one of four comparisons.

The spectrum is therefore extrapolated to 0 by the simplest model of load. One part has an exponentially
decaying correlation with an unknown correlation time. The other is a daily cycle of unknown size, which
repeats every 24 hours. The mean contains the part of the cycle that does not cancel: nothing where a range
is whole days. The model takes every correlation time from a tenth of a block to three times the range, with
every size of the daily cycle. Each combination is weighted by its likelihood for the first projections
(their scale integrated out, as in Müller and Watson). The interval is that of the resulting mixture of
Student's t.

For time observed at different hours this is a guess that no two ranges can check, so it is not used there.
A quantity that is not time (stack depth, the share of a loop's callbacks) has only its own series and is
judged by it.
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
"""Higher frequencies are mostly sampling noise and farther from frequency 0."""
_CORRELATION_TIMES: Final = 16
_MAX_CORRELATION_RATIO: Final = 3.0
_DAILY_SHARES: Final = np.array([0.0, 0.5, 0.8, 0.95])
"""Candidate shares of the daily cycle in the variance of load."""
PRIOR_EXPONENT: Final = 0.3
"""Exponent of the prior of a correlation time.

Slow load is taken to be a little rarer than fast load: by this power of its correlation time.
"""
HALF_DAY_SHARE: Final = 0.1
"""Share of the daily cycle that repeats twice a day, as with a noon or two shifts."""
MIN_DAY_SHARE: Final = 0.9
"""A shorter part of a day shows no more of the cycle than slow load would."""
_ZERO_LAG: Final = 1e-9
"""At a smaller lag, two blocks are the same block."""
_REPLICATION_DF_FACTOR: Final = 0.7
"""Part of the mixture's degrees of freedom that tells how its interval scatters.

The tails of a mixture say less about this than those of a Student's t. By simulation (`bench/verdicts`):
with this factor, four of five comparisons find a change of the detectable size.
"""


@dataclass(frozen=True, slots=True)
class HarWeights:
    """Weights that turn squared projections into the variance of a mean.

    For each series, `waves` (T, count) are the orthonormal vectors that it is projected on; each adds up to
    0. `weights` (count,): the variance is the sum of the squared projections times the weights. With
    `count` degrees of freedom, its interval is that of the mixture. `replication_df_ratio` is the part of
    these degrees of freedom with which the variance would be as large again, because the correlation time
    is unknown. `correlation_seconds` is the estimated time in seconds over which load is correlated.
    """

    waves: tuple[F64, ...]
    weights: tuple[F64, ...]
    replication_df_ratio: float
    correlation_seconds: float


def build_cosine_basis(blocks: int, count: int) -> F64:
    """Return the first `count` type-II cosines over `blocks` blocks, (T, count).

    The columns are orthonormal, and each adds up to 0.
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
    """Estimate the weights for one or more series of block errors.

    Each of `series` (T,) holds what each block adds to the error of a mean; its blocks are `block_seconds`
    long. `day_seconds` is the length of a day, or None if the daily cycle has cancelled. `is_uncorrelated`
    means that nothing is correlated for longer than a block. The series share their correlation time and
    the share of the daily cycle, but not their scale. If a series has only one block, it says nothing, and
    the weights are 0.
    """
    counts = [min(MAX_FREQUENCIES, len(values) - 1) for values in series]
    waves = [build_cosine_basis(len(values), count) for values, count in zip(series, counts, strict=True)]
    if not min(counts):
        none = tuple(np.zeros(count) for count in counts)
        return HarWeights(tuple(waves), none, 1.0, 0.0)
    longest = max(len(values) * seconds for values, seconds in zip(series, block_seconds, strict=True))
    daily = (
        _DAILY_SHARES
        if day_seconds is not None and longest >= MIN_DAY_SHARE * day_seconds and not is_uncorrelated
        else _DAILY_SHARES[:1]
    )
    shortest = min(block_seconds) / 10
    correlation_times = np.geomspace(shortest, _MAX_CORRELATION_RATIO * longest, _CORRELATION_TIMES)
    grid = np.meshgrid(correlation_times[:1] if is_uncorrelated else correlation_times, daily)
    times, parts = (axis.ravel() for axis in grid)
    loads = [
        LoadModel(times / seconds, parts, (day_seconds or DAY_SECONDS) / seconds) for seconds in block_seconds
    ]
    model_weights, variances = _weigh_models(series, waves, loads, -PRIOR_EXPONENT * np.log(times))
    middle, part = np.exp(model_weights @ np.log(times)), model_weights @ parts
    diagonal_waves = [
        _diagonalize(
            wave,
            LoadModel(np.array([middle / seconds]), np.array([part]), (day_seconds or DAY_SECONDS) / seconds),
        )
        for wave, seconds in zip(waves, block_seconds, strict=True)
    ]
    plain = [
        float((values @ wave) ** 2 @ weight)
        for values, (wave, weight) in zip(series, diagonal_waves, strict=True)
    ]
    stretch, doubt = 1.0, 1.0
    if sum(plain):
        half, df = mixture_quantile(
            model_weights, np.sum(variances, axis=0), _satterthwaite_df(variances, counts), alpha
        )
        plain_df = float(_satterthwaite_df(plain, counts))
        stretch = (half / float(t_quantile(1 - alpha / 2, plain_df))) ** 2 / sum(plain)
        doubt = min(_REPLICATION_DF_FACTOR * df / plain_df, 1.0)
    return HarWeights(
        tuple(wave for wave, _ in diagonal_waves),
        tuple(weight * stretch for _, weight in diagonal_waves),
        doubt,
        float(middle),
    )


@dataclass(frozen=True, slots=True)
class LoadModel:
    """G models of load with variance 1: decaying correlation and a daily cycle.

    `correlation_times` (G,) are in blocks. `daily_shares` (G,) are the shares of the cycle, which repeats
    every `day_blocks` blocks.
    """

    correlation_times: F64
    daily_shares: F64
    day_blocks: float

    def compute_covariances(self, blocks: int) -> tuple[F64, F64]:
        """Return the covariances of `blocks` blocks: decaying part and daily cycle.

        Each has shape (G, T, T). Load is averaged over each block, as it is observed.
        """
        lag = np.abs(np.subtract.outer(np.arange(blocks), np.arange(float(blocks))))
        slow = average_covariance(lag, self.correlation_times[:, None, None])
        daily_covariance = (1 - HALF_DAY_SHARE) * _compute_periodic_covariance(
            lag, self.day_blocks
        ) + HALF_DAY_SHARE * _compute_periodic_covariance(lag, self.day_blocks / 2)
        part = self.daily_shares[:, None, None]
        return (1 - part) * slow, part * daily_covariance

    def project_covariance(self, waves: F64) -> tuple[F64, F64]:
        """Return the covariance of the projections and the variance of the sum.

        The shapes are (G, count, count) and (G,). The remainder of a daily cycle in the sums of two sides
        may have either sign in each, so it counts twice: the sides may be half a day apart.
        """
        slow, daily = self.compute_covariances(len(waves))
        return waves.T @ (slow + daily) @ waves, slow.sum((1, 2)) + 2 * daily.sum((1, 2))


def average_covariance(lag: F64, times: F64) -> F64:
    """Return the covariance of load, averaged over each of two stretches of time.

    Load has variance 1 and an exponentially decaying correlation. `times` are its correlation times and
    `lag` the distance between the starts of the stretches, both in lengths of a stretch. `lag` is 0, or 1
    and more.
    """
    rate = 1 / times
    decay = -np.expm1(-rate)
    same = 2 * (rate - decay) / rate**2
    apart = np.exp(-np.maximum(lag - 1, 0.0) * rate) * (decay / rate) ** 2
    covariance: F64 = np.where(lag < _ZERO_LAG, same, apart)
    return covariance


def _weigh_models(
    series: Sequence[F64], waves: Sequence[F64], loads: Sequence[LoadModel], prior: F64
) -> tuple[F64, list[F64]]:
    """Weigh the models of load by their likelihood.

    `prior` (G,) is the logarithm of the prior. Returns the weights of the models, (G,), and for each series
    the variance of its sum under each model, (G,).
    """
    log_likelihood, variances = prior, []
    for values, wave, load in zip(series, waves, loads, strict=True):
        inside, error = load.project_covariance(wave)
        projections, count = values @ wave, wave.shape[1]
        scale = np.maximum(
            np.linalg.solve(inside, projections[:, None])[:, :, 0] @ projections, np.finfo(float).tiny
        )
        log_likelihood = log_likelihood - 0.5 * np.linalg.slogdet(inside)[1] - count / 2 * np.log(scale)
        variances.append(error * scale / count)
    weighed = np.exp(log_likelihood - log_likelihood.max())
    return weighed / weighed.sum(), variances


def _compute_periodic_covariance(lag: F64, period: float) -> F64:
    """Return the covariance of the block averages of a wave at a random phase.

    `period` is in blocks.
    """
    covariance: F64 = np.cos(2 * np.pi * lag / period) * np.sinc(1 / period) ** 2
    return covariance


def _diagonalize(waves: F64, load: LoadModel) -> tuple[F64, F64]:
    """Rotate the waves so that projections of this load are independent of each other.

    Returns the waves and the factors for their squared projections.
    """
    inside, error = load.project_covariance(waves)
    heights, axes = np.linalg.eigh(inside[0])
    return waves @ axes, error[0] / (heights * len(heights))


def _satterthwaite_df(variances: Sequence[F64] | Sequence[float], counts: Sequence[int]) -> F64:
    """Return Satterthwaite's degrees of freedom of a sum of variances.

    `counts` are the degrees of freedom of each variance.
    """
    each: F64 = np.asarray(variances, float)
    freedom: F64 = each.sum(0) ** 2 / (each.T**2 / counts).sum(-1)
    return freedom
