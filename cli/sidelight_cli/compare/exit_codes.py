"""What `sidelight compare` ends with. A pipeline acts on 0 to 3; all else is 64 or above (sysexits.h)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from sidelight_cli.collector_api import RequestRefused
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.gates import GateStatus


class ExitCode(IntEnum):
    """Exit codes."""

    PASS = 0
    REGRESSED = 1
    INCONCLUSIVE = 2
    NOT_COMPARABLE = 3
    USAGE = 64
    """An option or a condition cannot be used, or the collector cannot read the question."""
    BAD_FILE = 65
    """A file holds no profile."""
    NO_INPUT = 66
    """A file is not there, or a side has no windows to judge."""
    UNAVAILABLE = 69
    """No answer: the collector cannot be reached, or it failed."""
    INTERNAL = 70
    """A fault of this program."""
    NOT_WRITTEN = 73
    """A result cannot be written."""
    NOT_ALLOWED = 77
    """The collector does not let this reader ask."""
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
        *(Reason.BAD_LABEL, Reason.TOO_LARGE),
    }
)


class InputNotReadable(SidelightError):
    """A file cannot be opened."""


class OutputNotWritable(SidelightError):
    """A result cannot be written."""


def choose_exit_code(error: SidelightError) -> ExitCode:
    """The code of a failure."""
    if isinstance(error, OutputNotWritable):
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
