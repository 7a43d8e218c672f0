"""One comparison of samples by pod and window, as the collector makes it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.cluster_variance import Effects, compute_effects
from sidelight_collector.statistics.inference.design import (
    MAX_BLOCKS,
    Design,
    LoadAssumption,
    SideMatrix,
    build_design,
)
from sidelight_collector.statistics.inference.shrinkage import PriorVariance

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Windows:
    """A recorded side.

    `watched` is the observed time (P, N) of pods by windows of `seconds`. `samples` is (K, P, N) for K
    quantities, of which the first is the total.
    """

    watched: F64
    samples: F64
    seconds: float = 60.0

    def side(self) -> SideMatrix:
        watched = cells(self.watched)
        names = tuple((f"pod-{row}",) for row in range(len(watched)))
        return SideMatrix(watched, names, self.watched.shape[1] * self.seconds / watched.shape[1])

    def until(self, window: int) -> Windows:
        """Return the data of the first `window` windows."""
        return Windows(self.watched[:, :window], self.samples[:, :, :window], self.seconds)


def cells(windows: F64) -> F64:
    """Sum windows (..., P, N) into blocks (..., P, T) by the start of the window."""
    count = windows.shape[-1]
    blocks = min(MAX_BLOCKS, count)
    starts = np.ceil(np.arange(blocks) * count / blocks).astype(int)
    folded: F64 = np.add.reduceat(windows, starts, axis=-1)
    return folded


def compared(
    a: Windows,
    b: Windows,
    *,
    same_time: bool = False,
    same_pods: bool = False,
    look: int = 0,
    load: LoadAssumption = LoadAssumption.UNKNOWN,
) -> tuple[Design, Effects]:
    """Compute the effects of all quantities of two sides, each independently."""
    plan, of_a, of_b = _planned(a, b, same_time, same_pods, look, load)
    return plan, compute_effects(plan, of_a, of_b, a.samples.sum((1, 2)), b.samples.sum((1, 2)))


def families(a: Windows, b: Windows, functions: int, *, same_time: bool = False) -> tuple[F64, F64, F64]:
    """Compute the p-values of self and total of functions, and of call paths.

    The quantities are the total, then self and total of each function, then the call paths.
    """
    plan, of_a, of_b = _planned(a, b, same_time)
    count_a, count_b = (one.samples.sum((1, 2)) for one in (a, b))

    def judged(start: int, end: int | None, usual: PriorVariance | None = None) -> Effects:
        at = slice(start, end)
        sides = of_a[at], of_b[at], count_a[at], count_b[at]
        return (
            compute_effects(plan, *sides, is_family=True, prior=usual)
            if usual
            else compute_effects(plan, *sides, with_shrinkage=True)
        )

    own, total = judged(1, 1 + functions), judged(1 + functions, 1 + 2 * functions)
    return own.p, total.p, judged(1 + 2 * functions, None, total.prior).p


def _planned(
    a: Windows,
    b: Windows,
    same_time: bool,
    same_pods: bool = False,
    look: int = 0,
    load: LoadAssumption = LoadAssumption.UNKNOWN,
) -> tuple[Design, F64, F64]:
    of_a, of_b = cells(a.samples), cells(b.samples)
    plan = build_design(
        a.side(),
        b.side(),
        of_a[0],
        of_b[0],
        same_time=same_time,
        same_pods=same_pods,
        analysis_index=look,
        load=load,
    )
    return plan, of_a, of_b
