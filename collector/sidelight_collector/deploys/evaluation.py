"""Runs one analysis: `/api/v1/verdict` on the two sides of a deploy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sidelight_collector.comparison.answer import query_verdict
from sidelight_collector.comparison.request import ComparisonOptions
from sidelight_collector.deploys.baseline_selection import DeploySides, select_sides
from sidelight_collector.deploys.deploy import Deploy, DeployPolicy, DeployState, TimeRange
from sidelight_collector.deploys.version_discovery import build_version_selector, find_observed_span
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.matchers import make_pattern_check
from sidelight_collector.query.stack_filter import StackFilter
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS, ObservedSpan
from sidelight_model.counts import ProfileType
from sidelight_model.gates import combine_statuses, parse_condition

CompareSides = Callable[[QueryContext, Sequence[WindowQuery], int, DeployPolicy], Mapping[str, Any]]
"""Returns the verdict of the k-th analysis of two sides, as the API does.

It includes the conditions of the policy.
"""
MAX_FUNCTIONS: Final = 20
"""Maximum number of a verdict's functions stored with a deploy; its link has all."""


def make_compare_function(limits: QueryLimits, fail_on: Iterable[str]) -> CompareSides:
    """Make a function that compares as `/api/v1/verdict` does.

    It uses these limits and conditions. Raises BadCondition.
    """
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
"""Analyses a deploy at an offset (seconds), as its k-th analysis."""


def make_analyser(compare: CompareSides, policy: DeployPolicy) -> Analyser:
    """Make an analyser that selects the sides and compares them with `compare`."""

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
    """Build the queries of the previous and the new version, each with its time."""
    versions = ((deploy.previous, selected.baseline), (deploy.version, selected.comparison))
    return [
        WindowQuery(
            build_version_selector(deploy.namespace, deploy.service, version),
            round(time_range.start * SECOND_NS),
            round(time_range.until * SECOND_NS),
        )
        for version, time_range in versions
    ]


def build_result(verdict: Mapping[str, Any], selected: DeploySides) -> AnalysisResult:
    conditions = tuple(verdict["conditions"])
    state = DeployState(combine_statuses(str(condition["state"]) for condition in conditions).value)
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
