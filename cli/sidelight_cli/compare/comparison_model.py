"""A verdict as values, read once from what `/api/v1/verdict` answers, or what two files gave in its form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight_model.gates import State

CHANGED: Final = ("increased", "decreased", "new", "removed")
"""Directions of what is outside noise."""


@dataclass(frozen=True, slots=True)
class Effect:
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
class Tested:
    """An effect on a function, among all functions: `agree` of `of` pods of B are on its side."""

    effect: Effect
    q: float | None
    agree: int | None
    of: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """One function."""

    function: str
    file: str
    renamed_from: str
    own: Tested
    total: Tested

    def by(self, order: str) -> Tested:
        return self.own if order == "self" else self.total


@dataclass(frozen=True, slots=True)
class Side:
    """What one side stands on. Its range is in Unix seconds; files have none."""

    selector: str
    from_: float | None
    until: float | None
    samples: int
    windows: int
    pods: int
    pod_seconds: float


@dataclass(frozen=True, slots=True)
class Check:
    """Whether the sides are alike in one respect."""

    name: str
    state: str
    severity: str
    reason: str
    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a condition; `effect` is what it was judged by, as in the answer."""

    condition: str
    state: State
    sentence: str
    effect: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class More:
    """What it would take to see a change as large as wanted: minutes, or pods where time does not help."""

    minutes: float | None
    pods: int | None


@dataclass(frozen=True, slots=True)
class Part:
    """A call path that accounts for part of the change; frames without lines, the root first."""

    frames: Sequence[str]
    delta: float
    share: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """A comparison that can be written. `told` is the whole answer as it came.

    `explained` is the share of the change that the call paths of `explanation` account for together.
    """

    type: str
    sentence: str
    direction: str
    rate: Effect | None
    sides: Sequence[Side]
    checks: Sequence[Check]
    conditions: Sequence[Judged]
    rows: Sequence[Row]
    functions: int
    explanation: Sequence[Part]
    explained: float | None
    method: Mapping[str, Any]
    more: More | None
    told: Mapping[str, Any]

    @property
    def unwatched(self) -> list[str]:
        """The sides without a window."""
        return [name for name, side in zip("AB", self.sides, strict=True) if not side.windows]

    @property
    def per(self) -> str:
        """What a rate is divided by."""
        return str(self.method.get("unit") or "pod-second")


def read(answer: Any) -> Verdict:
    """The values of an answer. Raises KeyError, TypeError or ValueError for what is none."""
    verdict = answer["verdict"]
    first, second = answer["sides"]
    more = verdict["required"]
    return Verdict(
        type=answer["type"],
        sentence=str(verdict["summary"]),
        direction=str(verdict["direction"]),
        rate=None if verdict["rate"] is None else _effect(verdict["rate"]),
        sides=(_side(first), _side(second)),
        checks=tuple(_check(check) for check in verdict["checks"]),
        conditions=tuple(_judged(judged) for judged in verdict["conditions"]),
        rows=_rows(verdict["functions"]),
        functions=int(verdict["functions_total"]),
        explanation=tuple(_part(part) for part in verdict["explanation"]["paths"]),
        explained=verdict["explanation"]["share"],
        method=verdict["method"] or {},
        more=None if more is None else More(more["minutes"], more["pods"]),
        told=answer,
    )


def _effect(told: Mapping[str, Any]) -> Effect:
    known = {name: None if told.get(name) is None else float(told[name]) for name in _NUMBERS}
    numbers = {name: float(told[name] or 0.0) for name in ("baseline", "comparison", "delta")}
    return Effect(**numbers, **known, direction=str(told["direction"]))  # type: ignore[arg-type]


_NUMBERS: Final = (
    *("low", "high", "relative", "relative_low", "relative_high", "p"),
    "min_detectable_effect",
)


def _part(told: Mapping[str, Any]) -> Part:
    return Part([str(name) for name in told["names"]], float(told["delta"]), float(told["share"]))


def _rows(columns: Mapping[str, Any]) -> Sequence[Row]:
    renamed = columns.get("renamed_from") or [None] * len(columns["function"])
    own, total = (_tested(columns[of]) for of in ("self", "total"))
    return tuple(
        Row(str(function), str(file), was or "", its_self, its_total)
        for function, file, was, its_self, its_total in zip(
            columns["function"], columns["file"], renamed, own, total, strict=True
        )
    )


def _tested(columns: Mapping[str, Any]) -> Sequence[Tested]:
    """The rows of columns, each with what its test needs."""
    names = [name for name, values in columns.items() if isinstance(values, list)]
    tested = []
    for values in zip(*(columns[name] for name in names), strict=True):
        one = dict(zip(names, values, strict=True))
        tested.append(Tested(_effect(one), one.get("q"), one.get("pods_agreeing"), one.get("pods_total")))
    return tested


def _side(told: Mapping[str, Any]) -> Side:
    return Side(
        str(told["selector"]),
        told.get("from"),
        told.get("until"),
        int(told["samples"]),
        int(told["windows"]),
        int(told["pods"]),
        float(told["pod_seconds"]),
    )


def _check(told: Mapping[str, Any]) -> Check:
    words = ("name", "state", "severity", "reason", "text", "hint")
    return Check(*(str(told[word]) for word in words))


def _judged(told: Mapping[str, Any]) -> Judged:
    return Judged(str(told["condition"]), State(told["state"]), str(told["summary"]), told["effect"])
