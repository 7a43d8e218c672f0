"""What `sidelight compare` ends with. A pipeline acts on 0 to 3; all else is 64 or above (sysexits.h)."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from sidelight_cli.collector_api import Refused
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.gates import State


class Code(IntEnum):
    """Exit codes."""

    FINE = 0
    REGRESSED = 1
    UNCLEAR = 2
    INCOMPARABLE = 3
    USAGE = 64
    """An option or a condition cannot be used, or the collector cannot read the question."""
    BAD_FILE = 65
    """A file holds no profile."""
    NO_SIDE = 66
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


OF_STATE: Final[Mapping[State, Code]] = {
    State.FINE: Code.FINE,
    State.REGRESSED: Code.REGRESSED,
    State.UNCLEAR: Code.UNCLEAR,
    State.INCOMPARABLE: Code.INCOMPARABLE,
}
_USAGE: Final = frozenset(
    {
        *(Reason.BAD_SETTING, Reason.BAD_REQUEST, Reason.BAD_SELECTOR, Reason.BAD_TIME, Reason.BAD_PARAMETER),
        *(Reason.BAD_LABEL, Reason.TOO_LARGE),
    }
)


class NotRead(SidelightError):
    """A file cannot be opened."""


class NotWritten(SidelightError):
    """A result cannot be written."""


def of_error(error: SidelightError) -> Code:
    """The code of a failure."""
    if isinstance(error, NotWritten):
        return Code.NOT_WRITTEN
    if isinstance(error, NotRead):
        return Code.NO_SIDE
    if error.reason is Reason.BAD_FOLDED:
        return Code.BAD_FILE
    if error.reason in _USAGE:
        return Code.USAGE
    if isinstance(error, Refused) and error.status in (401, 403):
        return Code.NOT_ALLOWED
    return Code.UNAVAILABLE
