"""A side of a comparison, cut into cells: rows are pods, columns are blocks of time.

Pods and stretches of time are what a comparison has to learn from: how far they differ among themselves says
how far two sides differ by luck. So a side is kept as an array of shape (P, T), P rows of pods by T blocks of
equal length, of how long was watched in each, and beside it one of the same shape for each thing that is
compared, its seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.autocorrelation import (
    DAY_SECONDS,
    HarWeights,
    estimate_har_weights,
)

F64 = NDArray[np.float64]

MAX_ROWS: Final = 16
"""More pods than these share rows, so that a thousand pods take no more memory."""
MAX_BLOCKS: Final = 16
"""Into so many blocks a range is cut, where its windows are short enough."""


SINGLE_TEST_LEVEL_FACTOR: Final = 0.8
"""What is tested for itself spends this part of its level. How often few pods differ by luck depends on which
pods they are: by recordings (`bench/verdicts`) false changes lie up to a quarter above what is spent."""


class LoadAssumption(StrEnum):
    """How it is known how far load alone makes two sides differ.

    `CONCURRENT`: both had it at the same time. `ASSUMED_EQUAL`: the caller says that both had the same, and
    what passes within the sides is luck that forgets fast. `OWN_SERIES`: what is compared is no time, and
    changes slowly as its own course within the sides shows. `UNKNOWN`: nothing tells, so that nothing is
    said of a difference.
    """

    CONCURRENT = "concurrent"
    ASSUMED_EQUAL = "assumed_equal"
    OWN_SERIES = "course"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class SideMatrix:
    """What was watched of one side: pod-seconds (or requests) in each of (P, T) cells.

    `pods` names the pods of each row, `block_seconds` is the length of a block. A cell that nobody watched
    is 0.
    """

    exposure: F64
    pods: tuple[tuple[str, ...], ...]
    block_seconds: float

    @property
    def total_exposure(self) -> float:
        return float(self.exposure.sum())

    @property
    def row_count(self) -> int:
        """The rows in which something was watched."""
        return int((self.exposure.sum(1) > 0).sum())

    @property
    def block_count(self) -> int:
        """The blocks in which something was watched."""
        return int((self.exposure.sum(0) > 0).sum())


@dataclass(frozen=True, slots=True)
class Design:
    """Two sides, and how they are compared: the same for every quantity of one comparison.

    `same_time`: a column of A and the same of B belong together, as they had the same load (a canary) or,
    with `other_days`, were the same hours of other days, whose loads resemble each other and are not the
    same. `same_pods`: a row of A and the same of B are the same pods. `har_weights`: how the passing of
    time is judged, for each side, or once for their difference where columns are paired. `alpha`: the level
    that is spent at this look. `min_effect`: the relative change one wants to see. `load`: how it is known
    what load does.
    """

    a: SideMatrix
    b: SideMatrix
    same_time: bool
    other_days: bool
    same_pods: bool
    har_weights: HarWeights
    alpha: float
    min_effect: float
    load: LoadAssumption = LoadAssumption.UNKNOWN

    @property
    def single_test_alpha(self) -> float:
        """At which level a single quantity is tested, so that `alpha` is kept whichever pods there are."""
        return SINGLE_TEST_LEVEL_FACTOR * self.alpha

    @property
    def frequency_count(self) -> int:
        """Of how many waves of each series the passing of time is judged; 0 where there is one block."""
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
    load: LoadAssumption = LoadAssumption.UNKNOWN,
) -> Design:
    """How these sides are compared; the whole time of each cell, (P, T) of each side, tells how slowly what
    is compared changes. `load`: how it is known what load does where sides are not of the same time.

    Sides that are to be paired have as many columns (or rows) each: ValueError where they do not.
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
    at_different_times = not same_time or other_days
    fast = load is LoadAssumption.ASSUMED_EQUAL
    found = estimate_har_weights(
        series,
        seconds,
        SINGLE_TEST_LEVEL_FACTOR * level,
        None if same_time else DAY_SECONDS,
        is_uncorrelated=fast,
    )
    assumption = load if at_different_times else LoadAssumption.CONCURRENT
    return Design(a, b, same_time, other_days, same_pods, found, level, min_effect, assumption)


def spend_alpha(alpha: float, analysis_index: int) -> float:
    """What of `alpha` a look spends: all of it where it is the only one (0).

    Where there are more to come the k-th spends alpha/(k(k+1)), which adds up to alpha over any number of
    looks.
    """
    return alpha / (analysis_index * (analysis_index + 1)) if analysis_index else alpha


def compute_cell_residuals(side: SideMatrix, cells: F64) -> F64:
    """What each cell adds to the error of the rate, relative to it: (P, T), their sum is 0."""
    whole, seconds = side.total_exposure, float(cells.sum())
    if whole <= 0 or seconds <= 0:
        return np.zeros_like(side.exposure)
    relative: F64 = cells / seconds - side.exposure / whole
    return relative


def assign_row(namespace: str, pod: str, rows: int = MAX_ROWS) -> int:
    """The row that a pod shares where there are more pods than rows: the same in every question."""
    name = f"{namespace}/{pod}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") % rows
