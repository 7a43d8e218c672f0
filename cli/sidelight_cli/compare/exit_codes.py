"""Exit codes of `sidelight compare`.

Codes 0 to 3 are outcomes that a pipeline acts on. Errors are 64 and above, as in sysexits.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from sidelight.terminal_output import StandardOutputError
from sidelight_cli.collector_errors import RequestRefused
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.gates import GateStatus


class ExitCode(IntEnum):
    """Exit codes: outcomes, errors and signals."""

    PASS = 0
    REGRESSED = 1
    INCONCLUSIVE = 2
    NOT_COMPARABLE = 3
    USAGE = 64
    """An option or a condition is invalid, or the collector rejects the request as malformed."""
    BAD_FILE = 65
    """A file holds no usable profile."""
    NO_INPUT = 66
    """A file does not exist, or a side has no windows for the conditions."""
    UNAVAILABLE = 69
    """No response: the collector is unreachable or failed."""
    INTERNAL = 70
    """A bug in this program."""
    NOT_WRITTEN = 73
    """A result cannot be written."""
    NOT_ALLOWED = 77
    """The collector refuses the credentials (HTTP 401 or 403)."""
    INTERRUPTED = 130
    TERMINATED = 143


EXIT_CODES: Final[Mapping[GateStatus, ExitCode]] = {
    GateStatus.PASS: ExitCode.PASS,
    GateStatus.REGRESSED: ExitCode.REGRESSED,
    GateStatus.INCONCLUSIVE: ExitCode.INCONCLUSIVE,
    GateStatus.NOT_COMPARABLE: ExitCode.NOT_COMPARABLE,
}
_USAGE_REASONS: Final = frozenset(
    {
        *(Reason.BAD_SETTING, Reason.BAD_REQUEST, Reason.BAD_SELECTOR, Reason.BAD_TIME, Reason.BAD_PARAMETER),
        *(Reason.BAD_LABEL, Reason.TOO_LARGE, Reason.NO_PREVIOUS_VERSION, Reason.NO_VERSION_LABEL),
    }
)


class InputNotReadable(SidelightError):
    """A file cannot be opened."""


class OutputNotWritable(SidelightError):
    """A result cannot be written."""


def choose_exit_code(error: SidelightError) -> ExitCode:
    """Return the exit code of a failure."""
    if isinstance(error, OutputNotWritable | StandardOutputError):
        return ExitCode.NOT_WRITTEN
    if isinstance(error, InputNotReadable):
        return ExitCode.NO_INPUT
    if error.reason is Reason.BAD_FOLDED:
        return ExitCode.BAD_FILE
    if error.reason in _USAGE_REASONS:
        return ExitCode.USAGE
    if isinstance(error, RequestRefused) and error.status in (401, 403):
        return ExitCode.NOT_ALLOWED
    return ExitCode.UNAVAILABLE
