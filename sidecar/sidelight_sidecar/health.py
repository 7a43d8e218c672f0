"""What is wrong now: a board the parts write on and /readyz reads from."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight_model.errors import Reason, SidelightError

READINESS = (
    Reason.NOTHING_TO_WATCH,
    Reason.PTRACE_DENIED,
    Reason.NOT_PYTHON,
    Reason.UNSUPPORTED_PYTHON,
    Reason.PID_GONE,
    Reason.SAMPLER_FAILED,
    Reason.SAMPLER_MISSING,
    Reason.OVER_BUDGET,
    Reason.THROTTLED,
    Reason.OVERLOADED,
    Reason.COLLECTOR_UNREACHABLE,
    Reason.UNAUTHORIZED,
    Reason.NO_POD,
    Reason.WRONG_NAMESPACE,
    Reason.WRONG_POD,
    Reason.WRONG_SERVICE,
    Reason.CLUSTER_UNAVAILABLE,
    Reason.CLUSTER_DENIED,
    Reason.SPOOL_UNWRITABLE,
)
"""Every word that /readyz may show as `error`; docs/sidecar.md has a section for each."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing an operator may have to mend; `lacks` is a word of `permissions.Lack` or empty."""

    reason: Reason
    message: str
    hint: str = ""
    lacks: str = ""

    @classmethod
    def of(cls, error: SidelightError) -> Problem:
        return cls(error.reason, error.message, error.hint, getattr(error, "lacks", ""))


class Board:
    """Problems by what they are about ("collector", "process 12"); a problem stands until cleared."""

    def __init__(self) -> None:
        self._problems: dict[str, Problem] = {}

    def report(self, subject: str, problem: Problem) -> bool:
        """Put up a problem; true when it is news."""
        news = self._problems.get(subject) != problem
        self._problems[subject] = problem
        return news

    def clear(self, subject: str) -> bool:
        """Take a subject's problem down; true when there was one."""
        return self._problems.pop(subject, None) is not None

    @property
    def problems(self) -> dict[str, Problem]:
        return dict(sorted(self._problems.items()))
