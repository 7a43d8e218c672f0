"""Compare which functions block the event loops of two sides."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.statistics.event_loop.loop_attribution import LoopAttribution
from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.effect_size import Effects
from sidelight_collector.statistics.inference.sample_shares import (
    build_per_sample_design,
    compute_share_effects,
)

F64 = NDArray[np.float64]

MAX_BLOCKERS: Final = 20


@dataclass(frozen=True, slots=True)
class LoopComparison:
    """How long a loop was blocked on each side, and by which functions.

    `busy` (1,) is the share of its thread's time in which the loop was blocked. `shares` (K,) are the
    shares of `blockers`, largest first.
    """

    busy: Effects
    blockers: tuple[str, ...]
    shares: Effects


def compare_loops(design: Design, attribution: LoopAttribution, a: F64, b: F64) -> LoopComparison | None:
    """Compare which functions block the event loop.

    `a` and `b` hold samples of all states by blocker, (K + 1, P, T). The last row is where the loop waits.
    Returns None if a side has no time on a loop.
    """
    whole_a, whole_b = a.sum(0), b.sum(0)
    if not whole_a.any() or not whole_b.any():
        return None
    busy_a, busy_b = a[:-1].sum(0), b[:-1].sum(0)
    per_sample = build_per_sample_design(design, whole_a, whole_b)
    busy = compute_share_effects(per_sample, busy_a[None], busy_b[None])
    share = np.maximum(a[:-1].sum((1, 2)) / whole_a.sum(), b[:-1].sum((1, 2)) / whole_b.sum())
    largest = [int(at) for at in np.argsort(-share, kind="stable")[:MAX_BLOCKERS] if share[at] > 0]
    return LoopComparison(
        busy,
        tuple(attribution.blockers[at] for at in largest),
        compute_share_effects(per_sample, a[largest], b[largest]),
    )
