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

from sidelight_collector.statistics.inference.autocorrelation import build_cosines
from sidelight_collector.statistics.inference.empirical_null import NO_NULL, EmpiricalNull
from sidelight_model.change import spend_alpha

F64 = NDArray[np.float64]

MAX_ROWS: Final = 16
"""More pods than these share rows, so a thousand pods take no more memory."""
MAX_BLOCKS: Final = 16
"""Number of blocks that a range is cut into, if its windows are short enough."""


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
    equal. `same_pods`: a row of A and the same row of B are the same pods. `alpha`: the level that this
    analysis spends. `min_effect`: the relative change to detect. `min_relevant`: smaller changes are minor,
    in the unit of the rates. `null`: the differences of unchanged functions, for sides of different times.
    """

    a: SideMatrix
    b: SideMatrix
    same_time: bool
    other_days: bool
    same_pods: bool
    alpha: float
    min_effect: float
    min_relevant: float = 0.0
    null: EmpiricalNull = NO_NULL

    @property
    def is_concurrent(self) -> bool:
        """Whether both sides had the same load at the same time."""
        return self.same_time and not self.other_days

    @property
    def frequency_count(self) -> int:
        """Number of cosines that observe variation in time; 0 if there is one block."""
        return min(len(build_cosines(side.exposure.shape[1]).T) for side in (self.a, self.b))


def build_design(
    a: SideMatrix,
    b: SideMatrix,
    *,
    same_time: bool = False,
    other_days: bool = False,
    same_pods: bool = False,
    alpha: float = 0.05,
    analysis_index: int = 0,
    min_effect: float = 0.05,
    min_relevant: float = 0.0,
) -> Design:
    """Build the design that compares two sides.

    For the arguments see `Design` and `spend_alpha`.

    Raises ValueError if sides that are to be paired have different numbers of columns (or rows).
    """
    if same_time and a.exposure.shape[1] != b.exposure.shape[1]:
        raise ValueError("sides of the same time have as many blocks")
    if same_pods and a.exposure.shape[0] != b.exposure.shape[0]:
        raise ValueError("sides of the same pods have as many rows")
    level = spend_alpha(alpha, analysis_index)
    return Design(a, b, same_time, other_days, same_pods, level, min_effect, min_relevant)


def assign_row(namespace: str, pod: str, rows: int = MAX_ROWS) -> int:
    """Return the row that a pod shares if there are more pods than rows.

    It depends on the names alone, so it is the same in every request.
    """
    name = f"{namespace}/{pod}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(name, digest_size=8).digest(), "big") % rows
