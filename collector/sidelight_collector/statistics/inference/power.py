"""What would do to see a change that is too small to be seen yet: more time, or more pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sidelight_collector.statistics.inference.cluster_variance import Effects
from sidelight_collector.statistics.inference.design import MAX_ROWS, Design, LoadAssumption, SideMatrix
from sidelight_collector.statistics.inference.student_t import MAX_DF, compute_required_errors

MAX_PODS: Final = 1000
"""Where more pods would be needed no number is told."""
MAX_MINUTES_WITHOUT_PODS: Final = 1440
"""Where it takes longer, more pods are told too if they would do."""


@dataclass(frozen=True, slots=True)
class SampleSizeAdvice:
    """What would do to see the change that is to be detected.

    `minutes` of the same pods in all, or so many `pods` of each side; neither where not even the `max_pods`
    would, both where either would and time alone takes long. `pod_variation` is how far pods differ for good,
    relative to what they take. `is_too_brief`: it was watched for so short that luck and change cannot be
    told apart, and `minutes` is the least that would do. `is_transient`: most of what blurs it comes and
    goes, and may be load that both sides share at the same time.
    """

    minutes: float | None
    pods: int | None
    pod_variation: float = 0.0
    is_too_brief: bool = False
    is_transient: bool = False
    max_pods: int = MAX_PODS


def advise_sample_size(found: Effects, design: Design, index: int = 0) -> SampleSizeAdvice | None:
    """What is lacking, `None` where nothing is, or where load is unknown.

    Minutes are in all, of each side; time shrinks what does not last.
    """
    rate, other, variance, lasting, needed, detectable = (
        float(values[index])
        for values in (
            *(
                found.baseline,
                found.comparison,
                found.variance,
                found.lasting_variance,
                found.required_errors,
            ),
            found.min_detectable_effect,
        )
    )
    counted = float(found.counting_variance_a[index] + found.counting_variance_b[index])
    sides = (design.a, design.b)
    if rate <= 0 or min(side.total_exposure for side in sides) <= 0:
        return None
    level = 1 - design.single_test_alpha / 2
    # B's errors grow with it, at most as fast
    wanted = design.min_effect / (1 + design.min_effect) * rate
    watched = max(side.exposure.shape[1] * side.block_seconds for side in sides)
    is_too_brief = not design.frequency_count
    is_variance_unknown = is_too_brief and min(side.row_count for side in sides) == 1
    if not is_variance_unknown and (
        detectable <= design.min_effect or (design.load is LoadAssumption.UNKNOWN and not is_too_brief)
    ):
        return None
    if is_too_brief:
        surest = float(compute_required_errors(level, np.array(MAX_DF), np.array(MAX_DF)))
        block = min(side.block_seconds for side in sides if side.exposure.shape[1] == 1)
        least = watched * counted / (wanted / surest) ** 2
        return SampleSizeAdvice(max(watched + block, least) / 60, None, is_too_brief=True)
    target_variance = (wanted / needed) ** 2
    own = [_count_pods(side) for side in sides]
    # Of one pod a side nobody knows how far pods differ.
    several = min(side.row_count for side in sides) > 1
    pods = _find_pod_count(variance, own, design, wanted) if several else None
    if lasting < target_variance:
        passes = 2 * (variance - lasting - counted) > variance - lasting
        can_more_pods_help = not passes or (design.same_time and not design.other_days)
        minutes = watched * (variance - lasting) / (target_variance - lasting) / 60
        long = minutes - watched / 60 > MAX_MINUTES_WITHOUT_PODS
        return SampleSizeAdvice(
            minutes, pods if long and can_more_pods_help else None, is_transient=not can_more_pods_help
        )
    pod_variation = (lasting / (rate**2 / own[0] + other**2 / own[1])) ** 0.5
    return SampleSizeAdvice(None, pods, pod_variation)


def _find_pod_count(variance: float, own: Sequence[int], design: Design, wanted: float) -> int | None:
    """How many pods of each side would do; None where it is more than the most."""
    each = variance / (1 / own[0] + 1 / own[1])
    for count in range(min(own) + 1, MAX_PODS + 1):
        one, two = (max(pods, count) for pods in own)
        freedom = np.array(
            float(count - 1 if design.same_pods else min(one, MAX_ROWS) + min(two, MAX_ROWS) - 2)
        )
        needed = float(compute_required_errors(1 - design.single_test_alpha / 2, freedom, freedom))
        if needed * (each * (1 / one + 1 / two)) ** 0.5 <= wanted:
            return count
    return None


def _count_pods(side: SideMatrix) -> int:
    """How many pods were watched, also where several share a row."""
    rows = zip(side.pods, side.exposure.sum(1) > 0, strict=True)
    return max(sum(len(pods) for pods, seen in rows if seen), side.row_count, 1)
