"""What a look finds: the verdict of `/api/v1/verdict` about a deploy's sides, asked in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sidelight_collector.comparison.answer import query_verdict
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.deploys.baseline_selection import DeploySides, select_sides
from sidelight_collector.deploys.deploy import Deploy, DeployPolicy, DeployState, ObservedSpan, TimeRange
from sidelight_collector.deploys.version_discovery import build_version_selector, find_observed_span
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.matchers import make_pattern_check
from sidelight_collector.query.stack_filter import StackFilter
from sidelight_collector.query.windows import (
    WindowQuery,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType
from sidelight_model.gates import combine_statuses, parse_condition

CompareSides = Callable[[QueryContext, Sequence[WindowQuery], int, DeployPolicy], Mapping[str, Any]]
"""The verdict on two sides at the k-th look, with the rules' conditions, as the API answers it."""
MAX_FUNCTIONS: Final = 20
"""So many functions of a verdict are kept with a deploy; its link asks for all."""


def make_compare_function(limits: QueryLimits, fail_on: Iterable[str]) -> CompareSides:
    """Compares as `/api/v1/verdict` does, with these limits and conditions. Raises BadCondition."""
    check = make_pattern_check()
    options = ComparisonOptions(
        max_functions=MAX_FUNCTIONS,
        conditions=tuple(parse_condition(text, check) for text in fail_on),
        max_rows=limits.max_verdict_rows,
        max_tests=limits.max_verdict_tests,
    )
    compute_verdict = partial(
        query_verdict, kind=ProfileType.CPU, stack_filter=StackFilter(), max_nodes=limits.default_nodes
    )

    def compare(
        reading: QueryContext, sides: Sequence[WindowQuery], analysis_index: int, policy: DeployPolicy
    ) -> Mapping[str, Any]:
        answer = compute_verdict(
            reading,
            sides,
            options=replace(options, analysis_index=analysis_index, min_effect=policy.min_effect),
        )
        return answer["verdict"]

    return compare


@dataclass(frozen=True, slots=True)
class AnalysisResult:
    """What one comparison found."""

    state: DeployState
    comparison_mode: str = "none"
    baseline: TimeRange | None = None
    comparison: TimeRange | None = None
    summary: str = ""
    rate: Mapping[str, Any] | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()
    verdict: Mapping[str, Any] | None = None
    problem: str = ""


Analyser = Callable[[QueryContext, Deploy, float, int], AnalysisResult]
"""Compares a deploy at an offset, as its k-th look."""


def make_analyser(compare: CompareSides, policy: DeployPolicy) -> Analyser:
    """A judge that takes the previous version's time as `sides` says, and compares as `compare` does."""

    def analyse(reading: QueryContext, deploy: Deploy, offset: float, analysis_index: int) -> AnalysisResult:
        def find_span(version: str, start: float, until: float) -> ObservedSpan | None:
            selector = build_version_selector(deploy.namespace, deploy.service, version)
            return find_observed_span(reading, selector, start, until)

        selected = select_sides(deploy, offset, find_span, policy)
        if selected is None:
            return AnalysisResult(
                DeployState.INCONCLUSIVE, problem="There are no windows of both versions to compare."
            )
        return build_result(
            compare(reading, build_window_queries(deploy, selected), analysis_index, policy), selected
        )

    return analyse


def build_window_queries(deploy: Deploy, selected: DeploySides) -> list[WindowQuery]:
    """The previous version and the new one, each in its time."""
    named = ((deploy.previous, selected.baseline), (deploy.version, selected.comparison))
    return [
        WindowQuery(
            build_version_selector(deploy.namespace, deploy.service, version),
            round(of.start * SECOND_NS),
            round(of.until * SECOND_NS),
        )
        for version, of in named
    ]


def build_result(verdict: Mapping[str, Any], selected: DeploySides) -> AnalysisResult:
    """A verdict as a look keeps it."""
    conditions = tuple(verdict["conditions"])
    state = DeployState(combine_statuses(str(one["state"]) for one in conditions).value)
    return AnalysisResult(
        state,
        selected.comparison_mode,
        selected.baseline,
        selected.comparison,
        str(verdict["summary"]),
        verdict["rate"],
        conditions,
        verdict,
    )
