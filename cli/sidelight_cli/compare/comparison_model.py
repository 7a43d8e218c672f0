"""A comparison's verdict as typed values.

`parse_verdict` reads the response of `/api/v1/verdict`, or the same form built from two files by
`local_comparison`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight_model.gates import GateStatus


@dataclass(frozen=True, slots=True)
class QuantityEffect:
    """The effect on one quantity.

    A number is None if it is undefined, such as the change relative to a baseline of 0.
    """

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
    """An effect on a function, tested together with all other functions.

    `pods_agreeing` of `pods_total` pods of the comparison changed in the same direction.
    """

    effect: QuantityEffect
    q_value: float | None
    pods_agreeing: int | None
    pods_total: int | None


@dataclass(frozen=True, slots=True)
class FunctionRow:
    """A function with its effects on self and total."""

    function: str
    file: str
    renamed_from: str
    self_effect: TestedEffect
    total_effect: TestedEffect

    def select_effect(self, order: str) -> TestedEffect:
        return self.self_effect if order == "self" else self.total_effect


@dataclass(frozen=True, slots=True)
class ComparedSide:
    """The data behind one side.

    `start` and `until` are Unix seconds, or None for files.
    """

    selector: str
    start: float | None
    until: float | None
    samples: int
    windows: int
    pods: int
    pod_seconds: float


@dataclass(frozen=True, slots=True)
class CheckRemedy:
    """What a user can do about a check.

    `parameters` are query parameters by name; empty ones are for the user to enter.
    """

    label: str
    parameters: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class ComparabilityCheck:
    """A check that the sides are comparable in one respect."""

    name: str
    state: str
    severity: str
    reason: str
    text: str
    hint: str
    remedy: CheckRemedy | None


@dataclass(frozen=True, slots=True)
class EvaluatedCondition:
    """A condition's result, with the `effect` it was evaluated on as in the response."""

    condition: str
    state: GateStatus
    summary: str
    effect: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class RequiredData:
    """The data needed to detect the minimum effect.

    `minutes` of further data, or `pods` of each side where time alone does not help.
    """

    minutes: float | None
    pods: int | None


@dataclass(frozen=True, slots=True)
class CulpritRow:
    """A function where the change starts.

    `folded` are functions between it and the code that changed. `share` is its part of all changes in its
    direction.
    """

    function: str
    file: str
    folded: Sequence[str]
    delta: float
    share: float


@dataclass(frozen=True, slots=True)
class ComparisonVerdict:
    """A comparison as the reports render it.

    `answer` is the complete response. `basis` is what was compared: `concurrent`, `per_request`,
    `equal_load` or `composition`. `culprit_share` is the share of the change that all `culprits`
    together account for.
    """

    type: str
    summary: str
    basis: str
    basis_reason: str
    direction: str
    rate: QuantityEffect | None
    sides: Sequence[ComparedSide]
    checks: Sequence[ComparabilityCheck]
    conditions: Sequence[EvaluatedCondition]
    rows: Sequence[FunctionRow]
    function_count: int
    culprits: Sequence[CulpritRow]
    culprit_share: float | None
    method: Mapping[str, Any]
    required_data: RequiredData | None
    answer: Mapping[str, Any]

    @property
    def sides_without_windows(self) -> list[str]:
        """The sides (A, B) without a window."""
        return [name for name, side in zip("AB", self.sides, strict=True) if not side.windows]

    @property
    def range_sentence(self) -> str:
        """Which times the collector chose; empty if it did not."""
        ranges = self.answer.get("ranges") or {"reason": "given"}
        return "" if ranges["reason"] == "given" else str(ranges["text"])

    @property
    def rate_unit(self) -> str:
        """The denominator of functions' rates: pod-second, request or second; or share."""
        return str(self.method.get("unit") or "pod-second")


def parse_verdict(answer: Any) -> ComparisonVerdict:
    """Parse a response into values.

    Raises AttributeError, KeyError, TypeError or ValueError if it is not a verdict.
    """
    verdict = answer["verdict"]
    baseline, comparison = answer["sides"]
    required_data = verdict["required"]
    return ComparisonVerdict(
        type=answer["type"],
        summary=str(verdict["summary"]),
        basis=str(verdict.get("basis") or ""),
        basis_reason=str(verdict.get("basis_reason") or ""),
        direction=str(verdict["direction"]),
        rate=None if verdict["rate"] is None else _parse_effect(verdict["rate"]),
        sides=(_parse_side(baseline), _parse_side(comparison)),
        checks=tuple(_parse_check(check) for check in verdict["checks"]),
        conditions=tuple(_parse_condition(condition) for condition in verdict["conditions"]),
        rows=_parse_rows(verdict["functions"]),
        function_count=int(verdict["functions_total"]),
        culprits=tuple(_parse_culprit(row) for row in verdict["culprits"]["rows"]),
        culprit_share=verdict["culprits"]["share"],
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


def _parse_culprit(document: Mapping[str, Any]) -> CulpritRow:
    return CulpritRow(
        str(document["function"]),
        str(document["file"]),
        [str(name) for name in document["folded"]],
        float(document["delta"]),
        float(document["share"]),
    )


def _parse_rows(columns: Mapping[str, Any]) -> Sequence[FunctionRow]:
    renamed = columns.get("renamed_from") or [None] * len(columns["function"])
    self_effects, total_effects = (_parse_tested_effects(columns[of]) for of in ("self", "total"))
    return tuple(
        FunctionRow(str(function), str(file), renamed_from or "", self_effect, total_effect)
        for function, file, renamed_from, self_effect, total_effect in zip(
            columns["function"], columns["file"], renamed, self_effects, total_effects, strict=True
        )
    )


def _parse_tested_effects(columns: Mapping[str, Any]) -> Sequence[TestedEffect]:
    """Turn columns into one tested effect per function."""
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
    found = document.get("remedy")
    remedy = CheckRemedy(str(found["label"]), found["parameters"]) if found else None
    name, state, severity, reason, text, hint = (str(document[word]) for word in _CHECK_WORDS)
    return ComparabilityCheck(name, state, severity, reason, text, hint, remedy)


_CHECK_WORDS: Final = ("name", "state", "severity", "reason", "text", "hint")


def _parse_condition(document: Mapping[str, Any]) -> EvaluatedCondition:
    return EvaluatedCondition(
        str(document["condition"]),
        GateStatus(document["state"]),
        str(document["summary"]),
        document["effect"],
    )
