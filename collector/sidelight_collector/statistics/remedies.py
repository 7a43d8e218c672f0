"""What a user can do about a check: a label, and the query parameters that do it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, NamedTuple

from sidelight_collector.statistics.basis import Basis
from sidelight_model.counts import ProfileType

MIN_OVERLAP_SECONDS: Final = 300.0
"""Shorter overlaps are not worth a comparison."""
MAX_LENGTH_RATIO: Final = 2.0
"""Ranges up to this ratio of lengths count as equally long."""


class RemedyAction(StrEnum):
    """An action, in a word for programs."""

    COMPARE_OVERLAP = "compare_overlap"
    ENTER_REQUESTS = "enter_requests"
    EQUALISE_RANGES = "equalise_ranges"
    CHOOSE_RANGE = "choose_range"
    EXCLUDE_PODS = "exclude_pods"
    USE_COMPOSITION = "use_composition"
    USE_CPU_TIME = "use_cpu_time"
    FOLD_LINES = "fold_lines"
    CHANGE_DEPLOYMENT = "change_deployment"
    """No parameter helps: the hint of the check says what to change about the sides."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """An action that answers a check.

    `label` is a verb phrase. `parameters` are the query parameters to change. The user enters empty ones.
    """

    action: RemedyAction
    label: str
    parameters: Mapping[str, str]


class ObservedRange(NamedTuple):
    """The first and the last moment in which a side was observed, in Unix seconds."""

    start: float
    end: float

    @property
    def seconds(self) -> float:
        return self.end - self.start

    def format(self) -> str:
        """Format the range in UTC, in minutes."""
        first, last = (datetime.fromtimestamp(at, UTC) for at in self)
        if f"{first:%Y-%m-%d %H:%M}" == f"{last:%Y-%m-%d %H:%M}":
            return f"{first:%Y-%m-%d %H:%M}"
        day = "%Y-%m-%d %H:%M" if first.date() != last.date() else "%H:%M"
        return f"{first.strftime('%Y-%m-%d %H:%M')}–{last.strftime(day)}"  # noqa: RUF001


ENTER_REQUESTS: Final = Remedy(
    RemedyAction.ENTER_REQUESTS,
    "Enter request counts",
    {"baseline_requests": "", "comparison_requests": ""},
)
CHOOSE_RANGE: Final = Remedy(RemedyAction.CHOOSE_RANGE, "Choose another range", {"from": "", "until": ""})
USE_COMPOSITION: Final = Remedy(
    RemedyAction.USE_COMPOSITION, "Compare shares of the profile", {"basis": Basis.COMPOSITION.value}
)
USE_CPU_TIME: Final = Remedy(RemedyAction.USE_CPU_TIME, "Compare CPU time", {"type": ProfileType.CPU.value})
FOLD_LINES: Final = Remedy(RemedyAction.FOLD_LINES, "Compare functions, not lines", {"lines": "0"})
CHANGE_DEPLOYMENT: Final = Remedy(RemedyAction.CHANGE_DEPLOYMENT, "Make both sides alike", {})


def find_time_remedy(a: ObservedRange, b: ObservedRange) -> Remedy:
    """Find what to do about sides that ran at different times.

    Request counts answer ranges that do not overlap and are equally long.
    """
    overlap = ObservedRange(max(a.start, b.start), min(a.end, b.end))
    if overlap.seconds >= MIN_OVERLAP_SECONDS:
        parameters = {**_to_parameters("baseline", overlap), **_to_parameters("comparison", overlap)}
        label = f"Compare {overlap.format()} UTC, while both ran"
        return Remedy(RemedyAction.COMPARE_OVERLAP, label, parameters)
    shorter, longer = sorted((a, b), key=lambda side: side.seconds)
    if shorter.seconds >= MIN_OVERLAP_SECONDS and longer.seconds > MAX_LENGTH_RATIO * shorter.seconds:
        side, letter = ("baseline", "A") if longer == a else ("comparison", "B")
        last = ObservedRange(longer.end - shorter.seconds, longer.end)
        label = f"Compare {last.format()} UTC of {letter}, as long as the other side"
        return Remedy(RemedyAction.EQUALISE_RANGES, label, _to_parameters(side, last))
    return ENTER_REQUESTS


def _to_parameters(side: str, observed: ObservedRange) -> dict[str, str]:
    """Return the parameters of a side's range, in whole seconds inside it."""
    edges = math.ceil(observed.start), math.floor(observed.end)
    return {
        f"{side}_{edge}": f"{datetime.fromtimestamp(at, UTC):%Y-%m-%dT%H:%M:%SZ}"
        for edge, at in zip(("from", "until"), edges, strict=True)
    }
