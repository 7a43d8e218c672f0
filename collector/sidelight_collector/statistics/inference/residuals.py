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

AT_ONCE: Final = 512
"""So many quantities are worked on together: what is made of them stays near the processor."""


@dataclass(frozen=True, slots=True)
class Residuals:
    """Rates (K,) of one side, and what each row adds to their error: as a whole (K, P), in each wave (K, P,
    q).

    `series` (K, q) is what all rows add in each wave, `squares` (K, q) what rows beside it do, squared.
    `weight` (q,) makes variances of squares of waves. `between` (K,) is the variance between rows with
    `freedom` degrees, `shares` (P,) what part of all was watched in each row, `concentration` how unequally
    rows were watched: one over their number where all were alike.
    """

    whole: float
    rate: F64
    row: F64
    wave: F64
    series: F64
    squares: F64
    weight: F64
    between: F64
    freedom: int
    shares: F64

    @property
    def concentration(self) -> float:
        return float(self.shares @ self.shares)

    @property
    def cosines(self) -> int:
        return max(len(self.weight), 1)

    @property
    def part(self) -> F64:
        """What one pod's variance, relative to its rate squared, is in the variance of the side."""
        return self.rate**2 * self.concentration


def residuals(design: Design, which: int, cells: F64) -> Residuals:
    """The residuals of K quantities, of which one side has so many seconds in its cells, (K, P, T)."""
    side, passing = (design.a, design.b)[which], design.passing
    waves, weight = passing.waves[-which], passing.weights[-which]
    whole, count, waved = side.whole or 1.0, len(cells), waves.shape[1]
    at_once, watched = side.watched.sum(1), side.watched @ waves
    shares = at_once / whole
    rate, row, wave = np.empty(count), np.empty(cells.shape[:2]), np.empty((*cells.shape[:2], waved))
    series, squares = np.empty((count, waved)), np.empty((count, waved))
    freedom = max(side.rows - 1, 0)
    for start in range(0, count, AT_ONCE):
        some = slice(start, start + AT_ONCE)
        # products of flat matrices: numpy multiplies stacks of small ones one by one
        flat = cells[some].reshape(row[some].size, len(waves))
        sums = (flat @ np.ones(len(waves))).reshape(row[some].shape)
        rate[some] = sums.sum(1) / whole
        # divided at the end: what is even stays so to the last digit
        row[some] = (sums - rate[some, None] * at_once) / whole
        projected = (flat @ waves).reshape(wave[some].shape)
        np.subtract(projected, rate[some, None, None] * watched, out=wave[some])
        wave[some] /= whole
        series[some], squares[some] = _passing(wave[some], shares, freedom)
    return Residuals(
        whole,
        rate,
        row,
        wave,
        series,
        squares,
        weight,
        between_rows(row, freedom),
        freedom,
        shares,
    )


def _passing(wave: F64, shares: F64, freedom: int) -> tuple[F64, F64]:
    """What passes in all rows at once, and squares of what passes in each beside it, (K, q): one row shows
    none of these."""
    count, rows, waves = wave.shape
    # to add up over an axis in the middle takes numpy five times as long
    series = wave.reshape(count, rows * waves) @ np.tile(np.eye(waves), (rows, 1))
    if not freedom:
        return series, np.zeros_like(series)
    beside = wave - shares[:, None] * series[:, None, :]
    return series, np.einsum("kpq,kpq->kq", beside, beside) * ((freedom + 1) / freedom)


def between_rows(row: F64, freedom: int) -> F64:
    """The variance of a sum over rows, from how far they lie apart; of one row nothing can be seen."""
    if not freedom:
        return np.zeros(len(row))
    between: F64 = (row**2).sum(1) * ((freedom + 1) / freedom)
    return between


def paired_squares(a: Residuals, b: Residuals) -> F64:
    """Squares of what passes in B's rows beside the same of A, (K, q)."""
    like_a, like_b = of_mean(a, b)
    wave = b.wave * like_b[:, None, None] - a.wave * like_a[:, None, None]
    return _passing(wave, b.shares, b.freedom)[1]


def of_mean(a: Residuals, b: Residuals) -> tuple[F64, F64]:
    """What makes errors of both sides those of their mean rate, (K,) each.

    What they have in common they have in parts of their rates: it would not cancel where one takes more.
    """
    mean, both = (a.rate + b.rate) / 2, (a.rate > 0) & (b.rate > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(both, mean / a.rate, 1.0), np.where(both, mean / b.rate, 1.0)
