"""What would do to see a change that is too small to be seen yet: more time, or more pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sidelight_collector.statistics.inference.cluster_variance import Effects
from sidelight_collector.statistics.inference.design import ROWS, Design, Load, Side
from sidelight_collector.statistics.inference.student_t import MOST_DF, power_needs

MOST_PODS: Final = 1000
"""Where more pods would be needed no number is told."""
LONG_MINUTES: Final = 1440
"""Where it takes longer, more pods are told too if they would do."""


@dataclass(frozen=True, slots=True)
class More:
    """What would do to see the change that is to be detected.

    `minutes` of the same pods in all, or so many `pods` of each side; neither where not even the `most`
    would, both where either would and time alone takes long. `differ` is how far pods differ for good,
    relative to what they take. `brief`: it was watched for so short that luck and change cannot be told
    apart, and `minutes` is the least that would do. `passing`: most of what blurs it comes and goes, and may
    be load that both sides share at the same time.
    """

    minutes: float | None
    pods: int | None
    differ: float = 0.0
    brief: bool = False
    passing: bool = False
    most: int = MOST_PODS


def more(found: Effects, design: Design, index: int = 0) -> More | None:
    """What is lacking, `None` where nothing is, or where load is unknown.

    Minutes are in all, of each side; time shrinks what does not last.
    """
    rate, other, variance, lasting, needed, detectable = (
        float(values[index])
        for values in (
            *(found.baseline, found.comparison, found.variance, found.lasting, found.needed),
            found.min_detectable_effect,
        )
    )
    counted = float(found.counting_a[index] + found.counting_b[index])
    sides = (design.a, design.b)
    if rate <= 0 or min(side.whole for side in sides) <= 0:
        return None
    level = 1 - design.tested / 2
    # B's errors grow with it, at most as fast
    wanted = design.detect / (1 + design.detect) * rate
    watched = max(side.watched.shape[1] * side.seconds for side in sides)
    brief = not design.frequencies
    blind = brief and min(side.rows for side in sides) == 1
    if not blind and (detectable <= design.detect or (design.load is Load.UNKNOWN and not brief)):
        return None
    if brief:
        surest = float(power_needs(level, np.array(MOST_DF), np.array(MOST_DF)))
        block = min(side.seconds for side in sides if side.watched.shape[1] == 1)
        least = watched * counted / (wanted / surest) ** 2
        return More(max(watched + block, least) / 60, None, brief=True)
    aim = (wanted / needed) ** 2
    own = [_pods(side) for side in sides]
    # Of one pod a side nobody knows how far pods differ.
    several = min(side.rows for side in sides) > 1
    pods = _more_pods(variance, own, design, wanted) if several else None
    if lasting < aim:
        passes = 2 * (variance - lasting - counted) > variance - lasting
        helps = not passes or (design.same_time and not design.other_days)
        minutes = watched * (variance - lasting) / (aim - lasting) / 60
        long = minutes - watched / 60 > LONG_MINUTES
        return More(minutes, pods if long and helps else None, passing=not helps)
    differ = (lasting / (rate**2 / own[0] + other**2 / own[1])) ** 0.5
    return More(None, pods, differ)


def _more_pods(variance: float, own: Sequence[int], design: Design, wanted: float) -> int | None:
    """How many pods of each side would do; None where it is more than the most."""
    each = variance / (1 / own[0] + 1 / own[1])
    for count in range(min(own) + 1, MOST_PODS + 1):
        one, two = (max(pods, count) for pods in own)
        freedom = np.array(float(count - 1 if design.same_pods else min(one, ROWS) + min(two, ROWS) - 2))
        needed = float(power_needs(1 - design.tested / 2, freedom, freedom))
        if needed * (each * (1 / one + 1 / two)) ** 0.5 <= wanted:
            return count
    return None


def _pods(side: Side) -> int:
    """How many pods were watched, also where several share a row."""
    rows = zip(side.pods, side.watched.sum(1) > 0, strict=True)
    return max(sum(len(pods) for pods, seen in rows if seen), side.rows, 1)
