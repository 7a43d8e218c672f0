"""The sides of a comparison as matrices: rows are pods, columns blocks of time.

A comparison learns from pods and blocks of time: how far they differ among themselves shows how far two
sides differ by chance. A side is therefore an array of exposure, (P, T), with P rows of pods and T blocks
of equal length. Each compared quantity has an array of the same shape with its seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.autocorrelation import (
    DAY_SECONDS,
    HarWeights,
    estimate_har_weights,
)
from sidelight_collector.statistics.inference.empirical_null import NO_NULL, EmpiricalNull
from sidelight_model.change import spend_alpha

F64 = NDArray[np.float64]

MAX_ROWS: Final = 16
"""More pods than these share rows, so a thousand pods take no more memory."""
MAX_BLOCKS: Final = 16
"""Number of blocks that a range is cut into, if its windows are short enough."""


SINGLE_TEST_LEVEL_FACTOR: Final = 0.8
"""Part of its level that the test of a single quantity spends.

How often few pods differ by chance depends on the pods. In recordings (`bench/verdicts`) the rate of false
changes is up to a quarter above the level that is spent.
"""


@dataclass(frozen=True, slots=True)
class SideMatrix:
    """The exposure of one side: pod-seconds (or requests) in each of (P, T) cells.

    `pods` names the pods of each row. `block_seconds` is the length of a block. A cell that was not
    observed is 0.
    """

    exposure: F64
    pods: tuple[tuple[str, ...], ...]
    block_seconds: float

    @property
    def total_exposure(self) -> float:
        return float(self.exposure.sum())

    @property
    def row_count(self) -> int:
        """Number of rows with any exposure."""
        return int((self.exposure.sum(1) > 0).sum())

    @property
    def block_count(self) -> int:
        """Number of blocks with any exposure."""
        return int((self.exposure.sum(0) > 0).sum())


@dataclass(frozen=True, slots=True)
class Design:
    """Two sides and how to compare them, for every quantity of one comparison.

    `same_time`: a column of A and the same column of B belong together. They had the same load (concurrent
    sides) or, with `other_days`, they are the same hours of other days, whose loads are similar but not
    equal. `same_pods`: a row of A and the same row of B are the same pods. `har_weights`: the weights for
    variation in time, for each side, or once for their difference if columns are paired. `alpha`: the level
    that this analysis spends. `min_effect`: the relative change to detect. `min_relevant`: smaller changes
    are minor, in the unit of the rates. `is_uncorrelated`: blocks of time vary independently. `null`: the
    differences of unchanged functions, for sides of different times.
    """

    a: SideMatrix
    b: SideMatrix
    same_time: bool
    other_days: bool
    same_pods: bool
    har_weights: HarWeights
    alpha: float
    min_effect: float
    min_relevant: float = 0.0
    is_uncorrelated: bool = False
    null: EmpiricalNull = NO_NULL

    @property
    def is_concurrent(self) -> bool:
        """Whether both sides had the same load at the same time."""
        return self.same_time and not self.other_days

    @property
    def single_test_alpha(self) -> float:
        """Level of the test of a single quantity that keeps `alpha` for any pods."""
        return SINGLE_TEST_LEVEL_FACTOR * self.alpha

    @property
    def frequency_count(self) -> int:
        """Number of waves that measure variation in time; 0 if there is one block."""
        return min(len(weights) for weights in self.har_weights.weights)


def build_design(
    a: SideMatrix,
    b: SideMatrix,
    whole_a: F64,
    whole_b: F64,
    *,
    same_time: bool = False,
    other_days: bool = False,
    same_pods: bool = False,
    alpha: float = 0.05,
    analysis_index: int = 0,
    min_effect: float = 0.05,
    min_relevant: float = 0.0,
    is_uncorrelated: bool = False,
) -> Design:
    """Build the design that compares two sides.

    `whole_a` and `whole_b` are the total time in each cell, (P, T). They show how slowly the compared
    quantity changes. For the other arguments see `Design` and `spend_alpha`.

    Raises ValueError if a side does not match its sums, or if sides that are to be paired have different
    numbers of columns (or rows).
    """
    for side, whole in ((a, whole_a), (b, whole_b)):
        if side.exposure.shape != whole.shape or len(side.pods) != len(side.exposure):
            raise ValueError(
                f"a side of {side.exposure.shape} cells and {len(side.pods)} rows has {whole.shape} sums"
            )
    if same_time and a.exposure.shape[1] != b.exposure.shape[1]:
        raise ValueError("sides of the same time have as many blocks")
    if same_pods and a.exposure.shape[0] != b.exposure.shape[0]:
        raise ValueError("sides of the same pods have as many rows")
    rows = [compute_cell_residuals(side, whole) for side, whole in ((a, whole_a), (b, whole_b))]
    series = [cells.sum(0) for cells in rows]
    if same_time:
        series = [series[1] - series[0]]
    level = spend_alpha(alpha, analysis_index)
    seconds = [a.block_seconds] if same_time else [a.block_seconds, b.block_seconds]
    har_weights = estimate_har_weights(
        series,
        seconds,
        SINGLE_TEST_LEVEL_FACTOR * level,
        None if same_time else DAY_SECONDS,
        is_uncorrelated=is_uncorrelated,
    )
    return Design(
        a, b, same_time, other_days, same_pods, har_weights, level, min_effect, min_relevant, is_uncorrelated
    )


def compute_cell_residuals(side: SideMatrix, cells: F64) -> F64:
    """Return what each cell adds to the relative error of the rate.

    The residuals have shape (P, T) and add up to 0.
    """
    whole, seconds = side.total_exposure, float(cells.sum())
    if whole <= 0 or seconds <= 0:
        return np.zeros_like(side.exposure)
    relative: F64 = cells / seconds - side.exposure / whole
    return relative


def assign_row(namespace: str, pod: str, rows: int = MAX_ROWS) -> int:
    """Return the row that a pod shares if there are more pods than rows.

    It depends on the names alone, so it is the same in every request.
    """
    name = f"{namespace}/{pod}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") % rows
