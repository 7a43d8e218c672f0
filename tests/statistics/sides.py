"""Sides made up for tests: pods by windows, all watched alike unless said otherwise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.inference.design import Design, SideMatrix, build_design
from sidelight_collector.statistics.inference.effect_size import Effects, compute_effects

F64 = NDArray[np.float64]


def side(watched: F64, seconds: float = 60.0) -> SideMatrix:
    return SideMatrix(watched, tuple((f"pod-{row}",) for row in range(len(watched))), seconds)


def even(pods: int, blocks: int = 16) -> SideMatrix:
    return side(np.full((pods, blocks), 60.0))


def judge(a: F64, b: F64, **how: object) -> tuple[Design, Effects]:
    """Effects of seconds (K, P, T) of sides that were watched evenly, no counting noise; the first is the
    whole."""
    return judged_on(even(*a.shape[1:]), even(*b.shape[1:]), a, b, **how)


def judged_on(one: SideMatrix, two: SideMatrix, a: F64, b: F64, **how: object) -> tuple[Design, Effects]:
    plan = build_design(one, two, **how)  # type: ignore[arg-type]
    none = np.full(len(a), np.inf)
    return plan, compute_effects(plan, a, b, none, none)


def pods(seed: int, count: int, *, spread: float = 0.03, passing: float = 0.05, quantities: int = 1) -> F64:
    """Seconds that differ by pods for good and pass by themselves."""
    luck = np.random.default_rng(seed)
    lasting = luck.normal(0, spread, (quantities, count, 1))
    return 20 * np.exp(lasting + luck.normal(0, passing, (quantities, count, 16)))
