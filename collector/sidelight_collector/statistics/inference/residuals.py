"""What each row of a side adds to the error of its rates, of which `spread` makes variances.

Rows are pods, columns times. What passes in the course of time is seen in waves (`slowness`): so the
residuals of cells are projected on waves and never made one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import Design

F64 = NDArray[np.float64]

BATCH_QUANTITIES: Final = 512
"""So many quantities are worked on together: what is made of them stays near the processor."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Rates (K,) of one side, and what each row adds to their error: as a whole (K, P), in each wave (K, P,
    q).

    `series` (K, q) is what all rows add in each wave, `squares` (K, q) what rows beside it do, squared.
    `wave_weights` (q,) makes variances of squares of waves. `between_variance` (K,) is the variance between
    rows with `df` degrees, `exposure_shares` (P,) what part of all was watched in each row, `concentration`
    how unequally rows were watched: one over their number where all were alike.
    """

    total_exposure: float
    rate: F64
    row_residuals: F64
    wave_residuals: F64
    series: F64
    squares: F64
    wave_weights: F64
    between_variance: F64
    df: int
    exposure_shares: F64

    @property
    def concentration(self) -> float:
        return float(self.exposure_shares @ self.exposure_shares)

    @property
    def wave_count(self) -> int:
        return max(len(self.wave_weights), 1)

    @property
    def variance_factor(self) -> F64:
        """What one pod's variance, relative to its rate squared, is in the variance of the side."""
        return self.rate**2 * self.concentration


def compute_residuals(design: Design, side_index: int, cells: F64) -> Residuals:
    """The residuals of K quantities, of which one side has so many seconds in its cells, (K, P, T)."""
    side, har_weights = (design.a, design.b)[side_index], design.har_weights
    waves, weight = har_weights.waves[-side_index], har_weights.weights[-side_index]
    whole, count, wave_count = side.total_exposure or 1.0, len(cells), waves.shape[1]
    row_exposure, wave_exposure = side.exposure.sum(1), side.exposure @ waves
    shares = row_exposure / whole
    rate, row, wave = np.empty(count), np.empty(cells.shape[:2]), np.empty((*cells.shape[:2], wave_count))
    series, squares = np.empty((count, wave_count)), np.empty((count, wave_count))
    df = max(side.row_count - 1, 0)
    for start in range(0, count, BATCH_QUANTITIES):
        batch = slice(start, start + BATCH_QUANTITIES)
        # products of flat matrices: numpy multiplies stacks of small ones one by one
        flat = cells[batch].reshape(row[batch].size, len(waves))
        sums = (flat @ np.ones(len(waves))).reshape(row[batch].shape)
        rate[batch] = sums.sum(1) / whole
        # divided at the end: what is even stays so to the last digit
        row[batch] = (sums - rate[batch, None] * row_exposure) / whole
        projected = (flat @ waves).reshape(wave[batch].shape)
        np.subtract(projected, rate[batch, None, None] * wave_exposure, out=wave[batch])
        wave[batch] /= whole
        series[batch], squares[batch] = _split_common(wave[batch], shares, df)
    return Residuals(
        whole,
        rate,
        row,
        wave,
        series,
        squares,
        weight,
        compute_between_variance(row, df),
        df,
        shares,
    )


def _split_common(wave: F64, shares: F64, df: int) -> tuple[F64, F64]:
    """What passes in all rows at once, and squares of what passes in each beside it, (K, q): one row shows
    none of these."""
    count, rows, waves = wave.shape
    # to add up over an axis in the middle takes numpy five times as long
    series = wave.reshape(count, rows * waves) @ np.tile(np.eye(waves), (rows, 1))
    if not df:
        return series, np.zeros_like(series)
    beside = wave - shares[:, None] * series[:, None, :]
    return series, np.einsum("kpq,kpq->kq", beside, beside) * ((df + 1) / df)


def compute_between_variance(row: F64, df: int) -> F64:
    """The variance of a sum over rows, from how far they lie apart; of one row nothing can be seen."""
    if not df:
        return np.zeros(len(row))
    between: F64 = (row**2).sum(1) * ((df + 1) / df)
    return between


def compute_paired_squares(a: Residuals, b: Residuals) -> F64:
    """Squares of what passes in B's rows beside the same of A, (K, q)."""
    like_a, like_b = scale_to_mean(a, b)
    wave = b.wave_residuals * like_b[:, None, None] - a.wave_residuals * like_a[:, None, None]
    return _split_common(wave, b.exposure_shares, b.df)[1]


def scale_to_mean(a: Residuals, b: Residuals) -> tuple[F64, F64]:
    """What makes errors of both sides those of their mean rate, (K,) each.

    What they have in common they have in parts of their rates: it would not cancel where one takes more.
    """
    mean, both = (a.rate + b.rate) / 2, (a.rate > 0) & (b.rate > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(both, mean / a.rate, 1.0), np.where(both, mean / b.rate, 1.0)
