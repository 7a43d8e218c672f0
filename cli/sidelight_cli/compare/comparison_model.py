"""A verdict as values, read once from what `/api/v1/verdict` answers, or what two files gave in its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight_model.gates import GateStatus

CHANGED_DIRECTIONS: Final = ("increased", "decreased", "new", "removed")
"""Directions of what is outside noise."""


@dataclass(frozen=True, slots=True)
class QuantityEffect:
    """The effect on one quantity; None is what has no value, such as a share of nothing."""

    baseline: float
    comparison: float
    delta: float
    low: float | None
    high: float | None
    relative: float | None
    relative_low: float | None
    relative_high: float | None
    p: float | None
    min_detectable_effect: float | None
    direction: str


@dataclass(frozen=True, slots=True)
class TestedEffect:
    """An effect on a function, among all functions: `pods_agreeing` of `pods_total` pods of B are on its
    side.
    """

    effect: QuantityEffect
    q_value: float | None
    pods_agreeing: int | None
    pods_total: int | None


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """One function."""

    function: str
    file: str
    renamed_from: str
    self_effect: TestedEffect
    total_effect: TestedEffect

    def select_effect(self, order: str) -> TestedEffect:
        return self.self_effect if order == "self" else self.total_effect


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """What one side stands on. Its range is in Unix seconds; files have none."""

    selector: str
    start: float | None
    until: float | None
    samples: int
    windows: int
    pods: int
    pod_seconds: float


@dataclass(frozen=True, slots=True)
class ComparabilityCheck:
    """Whether the sides are alike in one respect."""

    name: str
    state: str
    severity: str
    reason: str
    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class EvaluatedCondition:
    """What became of a condition; `effect` is what it was judged by, as in the answer."""

    condition: str
    state: GateStatus
    summary: str
    effect: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RequiredData:
    """What it would take to see a change as large as wanted: minutes, or pods where time does not help."""

    minutes: float | None
    pods: int | None


@dataclass(frozen=True, slots=True)
class ExplainedPath:
    """A call path that accounts for part of the change; frames without lines, the root first."""

    frames: Sequence[str]
    delta: float
    share: float


@dataclass(frozen=True, slots=True)
class ComparisonVerdict:
    """A comparison that can be written. `answer` is the whole answer as it came.

    `explained_share` is the share of the change that the call paths of `explained_paths` account for
    together.
    """

    type: str
    summary: str
    direction: str
    rate: QuantityEffect | None
    sides: Sequence[ComparedSide]
    checks: Sequence[ComparabilityCheck]
    conditions: Sequence[EvaluatedCondition]
    rows: Sequence[FunctionRow]
    function_count: int
    explained_paths: Sequence[ExplainedPath]
    explained_share: float | None
    method: Mapping[str, Any]
    required_data: RequiredData | None
    answer: Mapping[str, Any]

    @property
    def sides_without_windows(self) -> list[str]:
        """The sides without a window."""
        return [name for name, side in zip("AB", self.sides, strict=True) if not side.windows]

    @property
    def rate_unit(self) -> str:
        """What a rate is divided by."""
        return str(self.method.get("unit") or "pod-second")


def parse_verdict(answer: Any) -> ComparisonVerdict:
    """The values of an answer. Raises KeyError, TypeError or ValueError for what is none."""
    verdict = answer["verdict"]
    baseline, comparison = answer["sides"]
    required_data = verdict["required"]
    return ComparisonVerdict(
        type=answer["type"],
        summary=str(verdict["summary"]),
        direction=str(verdict["direction"]),
        rate=None if verdict["rate"] is None else _parse_effect(verdict["rate"]),
        sides=(_parse_side(baseline), _parse_side(comparison)),
        checks=tuple(_parse_check(check) for check in verdict["checks"]),
        conditions=tuple(_parse_condition(judged) for judged in verdict["conditions"]),
        rows=_parse_rows(verdict["functions"]),
        function_count=int(verdict["functions_total"]),
        explained_paths=tuple(_parse_path(part) for part in verdict["explanation"]["paths"]),
        explained_share=verdict["explanation"]["share"],
        method=verdict["method"] or {},
        required_data=None
        if required_data is None
        else RequiredData(required_data["minutes"], required_data["pods"]),
        answer=answer,
    )


def _parse_effect(document: Mapping[str, Any]) -> QuantityEffect:
    optional_numbers = {
        name: None if document.get(name) is None else float(document[name]) for name in _OPTIONAL_NUMBERS
    }
    numbers = {name: float(document[name] or 0.0) for name in ("baseline", "comparison", "delta")}
    return QuantityEffect(**numbers, **optional_numbers, direction=str(document["direction"]))  # type: ignore[arg-type]


_OPTIONAL_NUMBERS: Final = (
    *("low", "high", "relative", "relative_low", "relative_high", "p"),
    "min_detectable_effect",
)


def _parse_path(document: Mapping[str, Any]) -> ExplainedPath:
    return ExplainedPath(
        [str(name) for name in document["names"]], float(document["delta"]), float(document["share"])
    )


def _parse_rows(columns: Mapping[str, Any]) -> Sequence[FunctionRow]:
    renamed = columns.get("renamed_from") or [None] * len(columns["function"])
    own, total = (_parse_tested_effects(columns[of]) for of in ("self", "total"))
    return tuple(
        FunctionRow(str(function), str(file), was or "", its_self, its_total)
        for function, file, was, its_self, its_total in zip(
            columns["function"], columns["file"], renamed, own, total, strict=True
        )
    )


def _parse_tested_effects(columns: Mapping[str, Any]) -> Sequence[TestedEffect]:
    """The rows of columns, each with what its test needs."""
    names = [name for name, values in columns.items() if isinstance(values, list)]
    tested = []
    for values in zip(*(columns[name] for name in names), strict=True):
        values_by_name = dict(zip(names, values, strict=True))
        tested.append(
            TestedEffect(
                _parse_effect(values_by_name),
                values_by_name.get("q"),
                values_by_name.get("pods_agreeing"),
                values_by_name.get("pods_total"),
            )
        )
    return tested


def _parse_side(document: Mapping[str, Any]) -> ComparedSide:
    return ComparedSide(
        str(document["selector"]),
        document.get("from"),
        document.get("until"),
        int(document["samples"]),
        int(document["windows"]),
        int(document["pods"]),
        float(document["pod_seconds"]),
    )


def _parse_check(document: Mapping[str, Any]) -> ComparabilityCheck:
    words = ("name", "state", "severity", "reason", "text", "hint")
    return ComparabilityCheck(*(str(document[word]) for word in words))


def _parse_condition(document: Mapping[str, Any]) -> EvaluatedCondition:
    return EvaluatedCondition(
        str(document["condition"]),
        GateStatus(document["state"]),
        str(document["summary"]),
        document["effect"],
    )
