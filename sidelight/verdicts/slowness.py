"""How slowly load changes beside the range that is compared."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

F64 = NDArray[np.float64]


def cosines(blocks: int, count: int) -> F64:
    """The first `count` type-II cosines over so many blocks, as columns (T, count): orthonormal, and each
    adds to 0."""
    at = (np.arange(blocks) + 0.5) / blocks
    waves: F64 = np.sqrt(2 / blocks) * np.cos(np.pi * np.outer(at, np.arange(1, count + 1)))
    return waves


def frequencies(lengths: Sequence[int]) -> int:
    """Of how many cosines the variance in time is the mean."""
    return max(0, min(8, min(lengths) // 2, min(lengths) - 1))


def slowness(series: Sequence[F64], count: int) -> float:
    """By how much the variance in time is raised, at least 1."""
    return 1.0
