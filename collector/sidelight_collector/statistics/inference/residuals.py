"""Contributions of a side's rows to the error of its rates.

The residuals are those of a linearised ratio (Cochran, Sampling Techniques, 1977, §6.3). `cluster_variance`
turns them into variances. Rows are pods, columns are times. Variation in time is
observed in cosines (`autocorrelation`), so the residuals of cells are projected on cosines and never
computed one by one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.autocorrelation import build_cosines
from sidelight_collector.statistics.inference.design import SideMatrix

F64 = NDArray[np.float64]

BATCH_QUANTITIES: Final = 512
"""Number of quantities in a batch, so that intermediate results fit the CPU cache."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Rates (K,) of one side, and the contribution of each row to their error.

    `row_residuals` (K, P) are the contributions as a whole, `wave_residuals` (K, P, q) those in each wave.
    `series` (K, q) is the contribution of all rows in each wave, `squares` (K, q) is the square of what
    single rows add beside it. `wave_weight` times the sum of squares of waves is a variance.
    `between_variance` (K,) is the variance between rows, with `df` degrees of freedom. `exposure_shares`
    (P,) is the share of the exposure in each row. `concentration` shows how unequal the exposure of the
    rows is: it is one over their number if all are equal.
    """

    total_exposure: float
    rate: F64
    row_residuals: F64
    wave_residuals: F64
    series: F64
    squares: F64
    wave_weight: float
    between_variance: F64
    df: int
    exposure_shares: F64

    @property
    def concentration(self) -> float:
        return float(self.exposure_shares @ self.exposure_shares)

    @property
    def wave_count(self) -> int:
        return max(len(self.series.T), 1)

    @property
    def variance_factor(self) -> F64:
        """Factor from the relative variance of a pod to the variance of the side.

        Relative means relative to the square of the rate.
        """
        return self.rate**2 * self.concentration


def compute_residuals(side: SideMatrix, cells: F64) -> Residuals:
    """Compute the residuals of K quantities of one side.

    `cells` (K, P, T) are their seconds in the cells of the side.
    """
    cosines = build_cosines(side.exposure.shape[1])
    blocks, cosine_count = cosines.shape
    whole, count = side.total_exposure or 1.0, len(cells)
    row_exposure, wave_exposure = side.exposure.sum(1), side.exposure @ cosines
    shares = row_exposure / whole
    rate, row = np.empty(count), np.empty(cells.shape[:2])
    wave = np.empty((*cells.shape[:2], cosine_count))
    series, squares = np.empty((count, cosine_count)), np.empty((count, cosine_count))
    df = max(side.row_count - 1, 0)
    basis = np.column_stack([np.ones(blocks), cosines])
    for start in range(0, count, BATCH_QUANTITIES):
        batch = slice(start, start + BATCH_QUANTITIES)
        # Flat matrices, because numpy multiplies stacks of small ones one by one.
        projected = (cells[batch].reshape(row[batch].size, blocks) @ basis).reshape(*row[batch].shape, -1)
        sums = projected[:, :, 0]
        rate[batch] = sums.sum(1) / whole
        # Divide at the end, so that even values stay even to the last digit.
        row[batch] = (sums - rate[batch, None] * row_exposure) / whole
        np.subtract(projected[:, :, 1:], rate[batch, None, None] * wave_exposure, out=wave[batch])
        wave[batch] /= whole
        series[batch], squares[batch] = _split_common(wave[batch], shares, df)
    return Residuals(
        whole, rate, row, wave, series, squares, blocks / max(cosine_count, 1),
        compute_between_variance(row, df), df, shares,
    )  # fmt: skip


def _split_common(wave: F64, shares: F64, df: int) -> tuple[F64, F64]:
    """Split waves into the series common to all rows and the squares of the rest.

    Each has shape (K, q). A single row has no rest.
    """
    count, rows, waves = wave.shape
    # A sum over an axis in the middle takes numpy five times as long.
    series = wave.reshape(count, rows * waves) @ np.tile(np.eye(waves), (rows, 1))
    if not df:
        return series, np.zeros_like(series)
    beside = wave - shares[:, None] * series[:, None, :]
    return series, np.einsum("kpq,kpq->kq", beside, beside) * ((df + 1) / df)


def compute_between_variance(row: F64, df: int) -> F64:
    """Return the variance of a sum over rows from their differences.

    A single row shows none: 0.
    """
    if not df:
        return np.zeros(len(row))
    between: F64 = (row**2).sum(1) * ((df + 1) / df)
    return between


def compute_paired_squares(a: Residuals, b: Residuals) -> F64:
    """Return the squares of the variation in B's rows beside that of A's, (K, q)."""
    like_a, like_b = scale_to_mean(a, b)
    wave = b.wave_residuals * like_b[:, None, None] - a.wave_residuals * like_a[:, None, None]
    return _split_common(wave, b.exposure_shares, b.df)[1]


def scale_to_mean(a: Residuals, b: Residuals) -> tuple[F64, F64]:
    """Return the factors that scale the errors of both sides to their mean rate, (K,).

    What the sides have in common is proportional to their rates. Without scaling, it would not cancel if
    one side takes more.
    """
    mean, both = (a.rate + b.rate) / 2, (a.rate > 0) & (b.rate > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(both, mean / a.rate, 1.0), np.where(both, mean / b.rate, 1.0)
