"""What a look finds: the verdict of `/api/v1/verdict` about a deploy's sides, asked in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from sidelight_collector.comparison.answer import verdict
from sidelight_collector.comparison.request import Wanted
from sidelight_collector.deploys.baseline_selection import Sides, sides
from sidelight_collector.deploys.deploy import Deploy, Range, Rules, Span, State
from sidelight_collector.deploys.version_discovery import of_version, span_of
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.select.matchers import pattern_check
from sidelight_collector.query.stack_filter import Pick
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType
from sidelight_model.gates import State as Gate
from sidelight_model.gates import parse, worst

Compare = Callable[[Reading, Sequence[Question], int, Rules], Mapping[str, Any]]
"""The verdict on two sides at the k-th look, with the rules' conditions, as the API answers it."""
FUNCTIONS: Final = 20
"""So many functions of a verdict are kept with a deploy; its link asks for all."""

_STATES: Final = {
    Gate.FINE: State.FINE,
    Gate.REGRESSED: State.REGRESSED,
    Gate.UNCLEAR: State.UNCLEAR,
    Gate.INCOMPARABLE: State.INCOMPARABLE,
}


def comparing(limits: QueryLimits, fail_on: Iterable[str]) -> Compare:
    """Compares as `/api/v1/verdict` does, with these limits and conditions. Raises BadCondition."""
    check = pattern_check()
    wanted = Wanted(
        limit=FUNCTIONS,
        conditions=tuple(parse(text, check) for text in fail_on),
        most_rows=limits.max_verdict_rows,
        most_tested=limits.max_verdict_tests,
    )
    judged = partial(verdict, kind=ProfileType.CPU, pick=Pick(), most=limits.default_nodes)

    def compare(reading: Reading, sides: Sequence[Question], k: int, rules: Rules) -> Mapping[str, Any]:
        found = judged(reading, sides, wanted=replace(wanted, look=k, detect=rules.detect))
        return found["verdict"]

    return compare


@dataclass(frozen=True, slots=True)
class Found:
    """What one comparison found."""

    state: State
    way: str = "none"
    baseline: Range | None = None
    comparison: Range | None = None
    sentence: str = ""
    rate: Mapping[str, Any] | None = None
    conditions: tuple[Mapping[str, Any], ...] = ()
    verdict: Mapping[str, Any] | None = None
    problem: str = ""


Judge = Callable[[Reading, Deploy, float, int], Found]
"""Compares a deploy at an offset, as its k-th look."""


def judge_with(compare: Compare, rules: Rules) -> Judge:
    """A judge that takes the previous version's time as `sides` says, and compares as `compare` does."""

    def judge(reading: Reading, deploy: Deploy, offset: float, k: int) -> Found:
        def ran(version: str, start: float, until: float) -> Span | None:
            selector = of_version(deploy.namespace, deploy.service, version)
            return span_of(reading, selector, start, until)

        chosen = sides(deploy, offset, ran, rules)
        if chosen is None:
            return Found(State.UNCLEAR, problem="There are no windows of both versions to compare.")
        return found(compare(reading, questions(deploy, chosen), k, rules), chosen)

    return judge


def questions(deploy: Deploy, chosen: Sides) -> list[Question]:
    """The previous version and the new one, each in its time."""
    named = ((deploy.previous, chosen.baseline), (deploy.version, chosen.comparison))
    return [
        Question(
            of_version(deploy.namespace, deploy.service, version),
            round(of.start * SECOND_NS),
            round(of.until * SECOND_NS),
        )
        for version, of in named
    ]


def found(said: Mapping[str, Any], chosen: Sides) -> Found:
    """A verdict as a look keeps it."""
    conditions = tuple(said["conditions"])
    state = _STATES[worst(Gate(one["state"]) for one in conditions)]
    return Found(
        state,
        chosen.way,
        chosen.baseline,
        chosen.comparison,
        str(said["summary"]),
        said["rate"],
        conditions,
        said,
    )
