"""Who holds the event loops of a comparison's sides, from the samples of all states."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sidelight_collector.comparison.cost_tables import Rows
from sidelight_collector.comparison.model import ToldLoop, effect
from sidelight_collector.query.call_tree import Drawn
from sidelight_collector.statistics.event_loop import OUTSIDE, WAITS, Loop, held, loop
from sidelight_collector.statistics.inference.cluster_variance import Effects
from sidelight_collector.statistics.inference.design import Design
from sidelight_model.frames import Frame, unescape


def looped(of: Design, tree: Drawn, sides: Sequence[Rows]) -> Loop | None:
    """The loops of two sides, whose rows of all states end in this tree; None where there is none."""
    found = held(tree.names, tree.level, tree.name)
    if not found.found:
        return None
    count = len(found.holders)
    part = np.where(found.part == WAITS, count, np.where(found.part == OUTSIDE, count + 1, found.part))
    node = np.array(tree.node, np.int64)
    of_stack = np.where(node >= 0, part[node], count + 1)
    a, b = (rows.table(of_stack, count + 2)[:-1] for rows in sides)
    return loop(of, found, a, b)


def told(found: Loop, unless_refused: Callable[[Effects], Effects]) -> ToldLoop:
    """The same as the API writes it."""
    shares = unless_refused(found.shares)
    frames = [Frame.parse(unescape(text)) for text in found.holders]
    return {
        "busy": effect(unless_refused(found.busy)),
        "blockers": [
            {
                "function": frame.function,
                "file": frame.file,
                "baseline": float(shares.baseline[at]),
                "comparison": float(shares.comparison[at]),
                "effect": effect(shares, at),
            }
            for at, frame in enumerate(frames)
        ],
    }
