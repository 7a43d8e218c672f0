"""Current problems of the sidecar; the parts report them and /readyz shows them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from sidelight_model.errors import Reason, SidelightError, mask_urls
from sidelight_sidecar.descriptors import (
    OUT_OF_DESCRIPTORS_HINT,
    explain_out_of_descriptors,
    is_out_of_descriptors,
)

READINESS_REASONS = (
    Reason.NOTHING_TO_WATCH,
    Reason.PTRACE_DENIED,
    Reason.NOT_PYTHON,
    Reason.UNSUPPORTED_PYTHON,
    Reason.PID_GONE,
    Reason.SAMPLER_FAILED,
    Reason.SAMPLER_MISSING,
    Reason.ATTACH_LIMIT,
    Reason.OVER_BUDGET,
    Reason.THROTTLED,
    Reason.OVERLOADED,
    Reason.COLLECTOR_UNREACHABLE,
    Reason.UNTRUSTED_CERTIFICATE,
    Reason.UNAUTHORIZED,
    Reason.NO_POD,
    Reason.WRONG_NAMESPACE,
    Reason.WRONG_POD,
    Reason.WRONG_SERVICE,
    Reason.WRONG_NODE,
    Reason.CLUSTER_UNAVAILABLE,
    Reason.CLUSTER_DENIED,
    Reason.SPOOL_UNWRITABLE,
    Reason.OUT_OF_DESCRIPTORS,
)
"""Every reason that /readyz may show as `error`; docs/troubleshooting.md has a section for each."""
_ABOUT_PROCESS: Final = re.compile(r"(?:.* )?process (\d+)")


def parse_pid(subject: str) -> int | None:
    """Return the process that a problem is about, None if it is about none.

    `subject` is that of a HealthBoard.
    """
    match = _ABOUT_PROCESS.fullmatch(subject)
    return int(match[1]) if match else None


@dataclass(frozen=True, slots=True)
class HealthIssue:
    """A problem that an operator may have to solve.

    `missing_permission` is a word of `permissions.MissingPermission`, or empty.
    """

    reason: Reason
    message: str
    hint: str = ""
    missing_permission: str = ""

    @classmethod
    def from_error(cls, error: SidelightError) -> HealthIssue:
        return cls(error.reason, error.message, error.hint, getattr(error, "lacks", ""))

    @classmethod
    def out_of_descriptors(cls, error: OSError) -> HealthIssue:
        return cls(Reason.OUT_OF_DESCRIPTORS, explain_out_of_descriptors(error), OUT_OF_DESCRIPTORS_HINT)

    @classmethod
    def from_scan_error(cls, error: OSError) -> HealthIssue:
        """Return the problem of processes that cannot be listed."""
        if is_out_of_descriptors(error):
            return cls.out_of_descriptors(error)
        return cls(Reason.SAMPLER_FAILED, f"/proc cannot be read: {error.strerror}", "It is tried again.")


class HealthBoard:
    """Problems by subject ("collector", "process 12"); each stays until it is cleared.

    Without `needs_processes`, problems of single processes leave this program ready.
    """

    def __init__(self, *, needs_processes: bool = True) -> None:
        self._needs_processes = needs_processes
        self._issues: dict[str, HealthIssue] = {}

    @property
    def is_ready(self) -> bool:
        """Return whether nothing keeps this program from its work."""
        return all(not self._needs_processes and parse_pid(subject) is not None for subject in self._issues)

    def report(self, subject: str, issue: HealthIssue) -> bool:
        """Set the problem of a subject; return whether it changed.

        Secrets in its URLs are masked.
        """
        issue = replace(issue, message=mask_urls(issue.message), hint=mask_urls(issue.hint))
        is_new = self._issues.get(subject) != issue
        self._issues[subject] = issue
        return is_new

    def clear(self, subject: str) -> bool:
        """Remove the problem of a subject; return whether there was one."""
        return self._issues.pop(subject, None) is not None

    @property
    def issues(self) -> dict[str, HealthIssue]:
        return dict(sorted(self._issues.items()))
