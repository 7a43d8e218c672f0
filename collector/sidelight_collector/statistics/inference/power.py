"""Sample size that detects a smaller change: more time or more pods.

It is the size with which the minimum detectable effect (Bloom, Evaluation Review 19, 1995; see
`effect_size`) is the required one. More time reduces the variance that does not last, and more pods reduce
all of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sidelight_collector.statistics.inference.design import MAX_ROWS, Design, SideMatrix
from sidelight_collector.statistics.inference.effect_size import Effects
from sidelight_collector.statistics.inference.student_t import MAX_DF, compute_required_errors

MAX_PODS: Final = 1000
"""If more pods would be needed, no number is given."""
MAX_MINUTES_WITHOUT_PODS: Final = 1440
"""If it takes longer, a sufficient number of pods is given as well."""


@dataclass(frozen=True, slots=True)
class SampleSizeAdvice:
    """The sample size that detects the required change.

    `minutes` is the total time of the same pods, `pods` the number of pods of each side. Neither is set if
    not even `max_pods` are sufficient. Both are set if either is sufficient and time alone takes long.
    `pod_variation` is the lasting difference between pods relative to their rate. `is_too_brief`: the
    observation is too short to distinguish change from chance, and `minutes` is the minimum.
    `is_transient`: most of the noise does not last, and may be load that concurrent sides share.
    """

    minutes: float | None
    pods: int | None
    pod_variation: float = 0.0
    is_too_brief: bool = False
    is_transient: bool = False
    max_pods: int = MAX_PODS


def advise_sample_size(effects: Effects, design: Design) -> SampleSizeAdvice | None:
    """Return the sample size that is lacking.

    It is None if nothing is lacking. Minutes are the total of each side. More time reduces only the
    variance that does not last.
    """
    rate, other, variance, lasting, needed, detectable = (
        float(values[0])
        for values in (
            effects.baseline,
            effects.comparison,
            effects.variance,
            effects.lasting_variance,
            effects.required_errors,
            effects.min_detectable_effect,
        )
    )
    counting_variance = float(effects.counting_variance_a[0] + effects.counting_variance_b[0])
    sides = (design.a, design.b)
    if rate <= 0 or min(side.total_exposure for side in sides) <= 0:
        return None
    level = 1 - design.alpha / 2
    # B's errors grow with its rate, at most as fast.
    target = design.min_effect / (1 + design.min_effect) * rate
    observed_seconds = max(side.exposure.shape[1] * side.block_seconds for side in sides)
    is_too_brief = not design.frequency_count
    is_variance_unknown = is_too_brief and min(side.row_count for side in sides) == 1
    if not is_variance_unknown and detectable <= design.min_effect:
        return None
    if is_too_brief:
        surest = float(compute_required_errors(level, MAX_DF))
        block = min(side.block_seconds for side in sides if side.exposure.shape[1] == 1)
        least = observed_seconds * counting_variance / (target / surest) ** 2
        return SampleSizeAdvice(max(observed_seconds + block, least) / 60, None, is_too_brief=True)
    target_variance = (target / needed) ** 2
    own = [_count_pods(side) for side in sides]
    # One pod of a side does not show how far pods differ.
    has_several_rows = min(side.row_count for side in sides) > 1
    pods = _find_pod_count(variance, own, design, target) if has_several_rows else None
    if lasting < target_variance:
        passes = 2 * (variance - lasting - counting_variance) > variance - lasting
        can_more_pods_help = not passes or (design.is_concurrent)
        minutes = observed_seconds * (variance - lasting) / (target_variance - lasting) / 60
        long = minutes - observed_seconds / 60 > MAX_MINUTES_WITHOUT_PODS
        return SampleSizeAdvice(
            minutes, pods if long and can_more_pods_help else None, is_transient=not can_more_pods_help
        )
    pod_variation = (lasting / (rate**2 / own[0] + other**2 / own[1])) ** 0.5
    return SampleSizeAdvice(None, pods, pod_variation)


def _find_pod_count(variance: float, own: Sequence[int], design: Design, target: float) -> int | None:
    """Return the sufficient number of pods of each side, None if above `MAX_PODS`."""
    each = variance / (1 / own[0] + 1 / own[1])
    for count in range(min(own) + 1, MAX_PODS + 1):
        pods_a, pods_b = (max(pods, count) for pods in own)
        df = count - 1 if design.same_pods else min(pods_a, MAX_ROWS) + min(pods_b, MAX_ROWS) - 2
        needed = float(compute_required_errors(1 - design.alpha / 2, df))
        if needed * (each * (1 / pods_a + 1 / pods_b)) ** 0.5 <= target:
            return count
    return None


def _count_pods(side: SideMatrix) -> int:
    """Count the observed pods, including pods that share a row."""
    rows = zip(side.pods, side.exposure.sum(1) > 0, strict=True)
    return max(sum(len(pods) for pods, is_observed in rows if is_observed), side.row_count, 1)
