"""Pods that were sampled in another way than the rest of their side."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from sidelight_collector.statistics.comparability.check_result import CheckResult, CheckSeverity
from sidelight_collector.statistics.comparability.load_checks import MAX_CONTENTION_DIFFERENCE
from sidelight_collector.statistics.comparability.sampling_summary import (
    CheckContext,
    PodSampling,
    list_minor_versions,
)
from sidelight_collector.statistics.remedies import Remedy, RemedyAction
from sidelight_model.counts import WAIT_REASONS
from sidelight_model.export_formats.provenance import format_count
from sidelight_model.selectors import Matcher, Op, Selector

MIN_PODS: Final = 2
"""Pods of a side that must remain: one pod does not show how pods differ."""
MAX_EXCLUDED_PODS: Final = 20

Sides = tuple[Sequence[PodSampling], Sequence[PodSampling]]

_PROPERTIES: Final[Mapping[str, Callable[[PodSampling], frozenset[str]]]] = {
    "mode": lambda pod: frozenset(pod.modes),
    "states": lambda pod: frozenset(pod.missing_states).difference(WAIT_REASONS),
    "sampler": lambda pod: frozenset(pod.samplers),
    "reader": lambda pod: frozenset(pod.readers),
    "python": lambda pod: frozenset(list_minor_versions(pod.python_versions)),
}


@dataclass(frozen=True, slots=True)
class PodExclusion:
    """The pods of each side to leave out, sorted; at least one."""

    baseline: Sequence[str]
    comparison: Sequence[str]


def find_pod_exclusion(check: str, sides: Sides, context: CheckContext) -> PodExclusion | None:
    """Find the pods without which the sides pass a check, by its name.

    At least half of the pods of each side remain, and MIN_PODS where any is left out. The result is None if
    no few pods are the cause.
    """
    if check in _PROPERTIES:
        value_of = _PROPERTIES[check]
        shared = {value_of(pod) for pod in sides[0]} & {value_of(pod) for pod in sides[1]}
        candidates = [
            _select_pods(sides, partial(_has_other_value, value_of, value))
            for value in sorted(shared, key=sorted)
            if value or check == "states"
        ]
    elif check == "coverage":
        candidates = [
            _select_pods(sides, lambda pod: pod.coverage is not None and pod.coverage < context.min_coverage)
        ]
    elif check == "contention":
        waits = [pod.cpu_wait_share for pods in sides for pod in pods if pod.cpu_wait_share is not None]
        limit = min(waits, default=0.0) + MAX_CONTENTION_DIFFERENCE
        candidates = [_select_pods(sides, lambda pod: (pod.cpu_wait_share or 0.0) > limit)]
    else:
        return None
    possible = [excluded for excluded in candidates if _is_worthwhile(excluded, sides)]
    if not possible:
        return None
    baseline, comparison = min(possible, key=lambda excluded: sum(map(len, excluded)))
    return PodExclusion(sorted(baseline), sorted(comparison))


def _select_pods(sides: Sides, is_selected: Callable[[PodSampling], bool]) -> list[list[str]]:
    """Return the names of the selected pods of each side."""
    return [[pod.pod for pod in pods if is_selected(pod)] for pods in sides]


def _has_other_value(
    value_of: Callable[[PodSampling], frozenset[str]], value: frozenset[str], pod: PodSampling
) -> bool:
    return value_of(pod) != value


def _is_worthwhile(excluded: Sequence[Sequence[str]], sides: Sides) -> bool:
    """Return whether some pods are left out, and enough of each side remain."""
    if not 0 < sum(map(len, excluded)) <= MAX_EXCLUDED_PODS:
        return False
    return all(
        not pods or (len(pods) <= len(side) / 2 and len(side) - len(pods) >= MIN_PODS)
        for pods, side in zip(excluded, sides, strict=True)
    )


def add_pod_exclusions(
    checks: Sequence[CheckResult],
    load_pods: Callable[[], Sides],
    selectors: tuple[Selector, Selector],
    context: CheckContext,
) -> list[CheckResult]:
    """Replace the remedy of each check that fails because of few pods.

    `selectors` select the windows of each side. `load_pods` is called only if a check fails.
    """
    failed = {check.name for check in checks if check.severity is not CheckSeverity.OK}
    failed &= {*_PROPERTIES, "coverage", "contention"}
    if not failed or not context.has_pod_rows:
        return list(checks)
    sides = load_pods()
    exclusions = {name: find_pod_exclusion(name, sides, context) for name in failed}
    return [
        replace(check, remedy=build_exclusion_remedy(exclusion, selectors))
        if (exclusion := exclusions.get(check.name))
        else check
        for check in checks
    ]


def build_exclusion_remedy(exclusion: PodExclusion, selectors: tuple[Selector, Selector]) -> Remedy:
    """Build the remedy that leaves these pods out."""
    sides = {"baseline": exclusion.baseline, "comparison": exclusion.comparison}
    parameters, labels = {}, []
    for (name, pods), letter, selector in zip(sides.items(), "AB", selectors, strict=True):
        if pods:
            without = Selector(tuple(Matcher("pod", Op.NOT_EQUAL, pod) for pod in pods))
            parameters[name] = str(selector & without)
            labels.append(f"{pods[0] if len(pods) == 1 else format_count(len(pods), 'pod')} of {letter}")
    return Remedy(RemedyAction.EXCLUDE_PODS, f"Leave out {' and '.join(labels)}", parameters)
