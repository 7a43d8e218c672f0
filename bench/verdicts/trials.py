"""One comparison as the collector makes it, of samples by pods and windows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidelight.verdicts.cells import BLOCKS, Design, Side, design
from sidelight.verdicts.spread import Effects, effects

F64 = NDArray[np.float64]


def cells(windows: F64, blocks: int = BLOCKS) -> F64:
    """What windows (..., P, N) have, in blocks (..., P, T): windows go to the block that they start in."""
    count = windows.shape[-1]
    blocks = min(blocks, count)
    starts = np.ceil(np.arange(blocks) * count / blocks).astype(int)
    folded: F64 = np.add.reduceat(windows, starts, axis=-1)
    return folded


def side(pods: int, windows: int, seconds: float = 60.0) -> Side:
    watched = cells(np.full((pods, windows), seconds))
    return Side(watched, tuple((f"pod-{row}",) for row in range(pods)), windows * seconds / watched.shape[1])


def compared(
    a: F64, b: F64, whole_a: F64 | None = None, whole_b: F64 | None = None, *,
    same_time: bool, other_days: bool = False, same_pods: bool = False, look: int = 1, alpha: float = 0.05, detect: float = 0.05,
) -> tuple[Design, Effects]:  # fmt: skip
    """The effects of samples (K, P, N) of each side, the whole being their sum where it is not given (P, N)."""
    plan = design(
        side(*a.shape[1:]), side(*b.shape[1:]),
        cells(a.sum(0) if whole_a is None else whole_a), cells(b.sum(0) if whole_b is None else whole_b),
        same_time=same_time, other_days=other_days, same_pods=same_pods, look=look, alpha=alpha, detect=detect,
    )  # fmt: skip
    return plan, effects(plan, cells(a), cells(b), a.sum((1, 2)), b.sum((1, 2)))
