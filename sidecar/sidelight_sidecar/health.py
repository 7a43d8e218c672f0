"""What is wrong now: a board the parts write on and /readyz reads from."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight_model.errors import Reason, SidelightError

READINESS_REASONS = (
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
class HealthIssue:
    """One thing an operator may have to mend; `missing_permission` is a word of `permissions.Lack` or
    empty.
    """

    reason: Reason
    message: str
    hint: str = ""
    missing_permission: str = ""

    @classmethod
    def from_error(cls, error: SidelightError) -> HealthIssue:
        return cls(error.reason, error.message, error.hint, getattr(error, "lacks", ""))


class HealthBoard:
    """Problems by what they are about ("collector", "process 12"); a problem stands until cleared."""

    def __init__(self) -> None:
        self._issues: dict[str, HealthIssue] = {}

    def report(self, subject: str, issue: HealthIssue) -> bool:
        """Put up a problem; true when it is news."""
        is_new = self._issues.get(subject) != issue
        self._issues[subject] = issue
        return is_new

    def clear(self, subject: str) -> bool:
        """Take a subject's problem down; true when there was one."""
        return self._issues.pop(subject, None) is not None

    @property
    def issues(self) -> dict[str, HealthIssue]:
        return dict(sorted(self._issues.items()))
