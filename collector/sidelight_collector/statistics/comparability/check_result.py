"""The result of one check of comparability."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from sidelight_collector.statistics.remedies import CHANGE_DEPLOYMENT, Remedy
from sidelight_model.change import format_percent


class CheckState(StrEnum):
    """Whether a property is the same on both sides."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNKNOWN = "unknown"


class CheckSeverity(StrEnum):
    """The effect of a check on the verdict.

    A `blocking` result means that a difference would show how the sides were sampled and not what they did.
    A `warn` result names something else that could explain a difference.
    """

    OK = "ok"
    WARN = "warn"
    BLOCKING = "blocking"


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The check of one property that must be alike.

    A property that a side does not report is `unknown`, never a `match`. `reason` is a word for programs. It
    is empty for a match. `remedy` is what a user can do. Every check that is not `ok` has one.
    """

    name: str
    state: CheckState
    severity: CheckSeverity
    reason: str
    text: str
    hint: str = ""
    remedy: Remedy | None = None


def make_match(name: str, text: str) -> CheckResult:
    return CheckResult(name, CheckState.MATCH, CheckSeverity.OK, "", text)


def make_unknown(name: str, text: str, hint: str = "") -> CheckResult:
    return CheckResult(name, CheckState.UNKNOWN, CheckSeverity.OK, f"{name}_unknown", text, hint)


def make_unreported(name: str, a: str, b: str) -> CheckResult:
    """Make the result of a property that is empty for a side which does not report it."""
    return make_unknown(name, f"not told by {'either side' if a == b == '' else 'A' if a == '' else 'B'}")


def make_mismatch(name: str, text: str, hint: str, remedy: Remedy = CHANGE_DEPLOYMENT) -> CheckResult:
    """Make a warning."""
    return CheckResult(name, CheckState.MISMATCH, CheckSeverity.WARN, f"{name}_differs", text, hint, remedy)


def make_note(name: str, text: str, hint: str) -> CheckResult:
    """Make the result of a difference that changes no verdict."""
    return CheckResult(name, CheckState.MISMATCH, CheckSeverity.OK, f"{name}_differs", text, hint)


def join_values(values: Iterable[str]) -> str:
    return ", ".join(sorted(values))


def format_share(part: float) -> str:
    return format_percent(part, 0 if part in (0, 1) else 1)
