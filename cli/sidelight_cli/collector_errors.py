"""The errors of requests to a collector."""

from __future__ import annotations

from typing import Final

from sidelight_model.errors import Reason, SidelightError

NOT_A_COLLECTOR_HINT: Final = (
    "This does not look like a Sidelight collector: check the address and its path prefix."
)


class CollectorUnreachable(SidelightError):
    """The collector sent no valid response, or broke off in the middle of it."""

    reason = Reason.COLLECTOR_UNREACHABLE


class RequestRefused(SidelightError):
    """The collector refused a request.

    Reason, message and hint come from its response; `status` is the HTTP status.
    """

    def __init__(self, status: int, reason: Reason, message: str, hint: str) -> None:
        super().__init__(message, reason=reason, hint=hint)
        self.status = status
