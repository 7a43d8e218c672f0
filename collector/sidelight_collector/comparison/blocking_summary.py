"""Functions that block the event loops of a comparison's sides.

They are found in the samples of all states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sidelight_collector.comparison.cost_tables import CostRows
from sidelight_collector.comparison.model import EventLoopJson, to_effect_json
from sidelight_collector.query.call_tree import TreeBuilder
from sidelight_collector.statistics.event_loop.loop_attribution import (
    LOOP_WAITING,
    OUTSIDE_LOOP,
    attribute_loop_time,
)
from sidelight_collector.statistics.event_loop.loop_comparison import LoopComparison, compare_loops
from sidelight_collector.statistics.inference.design import Design
from sidelight_collector.statistics.inference.effect_size import Effects
from sidelight_collector.statistics.renames.function_rename import FunctionRename, compute_canonical_ids
from sidelight_model.frames import Frame, unescape_frame


def compare_event_loops(
    design: Design, builder: TreeBuilder, sides: Sequence[CostRows], renames: Sequence[FunctionRename]
) -> LoopComparison | None:
    """Compare the event loops of two sides; None if there is none.

    `sides` are their rows of all states, of stacks in the pool of `builder`.
    """
    names = builder.frame_names()
    renamed = [names[at] for at in compute_canonical_ids(names, renames)]
    attribution = attribute_loop_time(renamed, builder.walk_stacks)
    if not attribution.has_loop:
        return None
    count = len(attribution.blockers)
    group_ids = np.where(
        attribution.blocker_ids == LOOP_WAITING,
        count,
        np.where(attribution.blocker_ids == OUTSIDE_LOOP, count + 1, attribution.blocker_ids),
    )
    a, b = (rows.sum_by_group(group_ids, count + 2)[:-1] for rows in sides)
    return compare_loops(design, attribution, a, b)


def to_event_loop_json(
    comparison: LoopComparison, apply_checks: Callable[[Effects], Effects]
) -> EventLoopJson:
    """Convert the comparison of loops to JSON, with the directions after the checks."""
    shares = apply_checks(comparison.shares)
    frames = [Frame.parse(unescape_frame(text)) for text in comparison.blockers]
    return {
        "busy": to_effect_json(apply_checks(comparison.busy)),
        "blockers": [
            {
                "function": frame.function,
                "file": frame.file,
                "baseline": float(shares.baseline[at]),
                "comparison": float(shares.comparison[at]),
                "effect": to_effect_json(shares, at),
            }
            for at, frame in enumerate(frames)
        ],
    }
