"""The collector's response to a batch of windows, and the pause before a retry."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

from sidelight_model.errors import Reason

_MAX_RETRY_AFTER_SECONDS = 600.0
_MIN_BACKOFF_SECONDS = 0.5
RETRY_SPREAD_SECONDS = 5.0
"""Time over which sidecars that failed together spread their next requests."""


IDENTITY_MISMATCH_REASONS = frozenset(
    (Reason.WRONG_NAMESPACE, Reason.WRONG_POD, Reason.WRONG_SERVICE, Reason.WRONG_NODE)
)
"""Reasons for refusing windows whose labels name another pod than the token."""


class RequestOutcome(StrEnum):
    """Outcome of a request; also a metric label."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNAUTHORIZED = "unauthorized"
    BUSY = "busy"
    UNEXPECTED = "unexpected"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class IngestResponse:
    """A parsed response.

    `accepted` and `duplicates` are acknowledged ids. `stored` is None if the collector may have stored the
    windows, so that they must keep their ids. `retry_after` is in seconds, None if the collector did not
    send it.
    """

    outcome: RequestOutcome
    accepted: frozenset[str] = frozenset()
    duplicates: frozenset[str] = frozenset()
    stored: bool | None = False
    retry_after: float | None = None
    reason: str = ""
    message: str = ""
    hint: str = ""

    def restrict_to(self, sent: frozenset[str]) -> IngestResponse:
        """Return this response with acknowledgements of these windows only.

        A response that acknowledges none of them is no acknowledgement.
        """
        if self.outcome is not RequestOutcome.ACCEPTED:
            return self
        restricted = replace(self, accepted=self.accepted & sent, duplicates=self.duplicates & sent)
        return restricted if restricted.accepted or restricted.duplicates else _NO_ACKNOWLEDGEMENT


_NO_ACKNOWLEDGEMENT = IngestResponse(
    RequestOutcome.UNEXPECTED, stored=None, message="it acknowledged none of the windows"
)


def parse_ingest_response(status: int, retry_after: str | None, body: bytes, now: datetime) -> IngestResponse:
    """Parse a response of POST /api/v1/windows.

    Only a collector's own refusal, which carries a reason word, is final: a 400 from a proxy or from
    another server says nothing about the windows. A refusal of windows that name another pod than the token
    is final too, because no later response could differ. An invalid token is not final: the windows wait
    for a valid one.
    """
    fields = _parse_json(body)
    reason, message = str(fields.get("error", ""))[:64], str(fields.get("message", f"status {status}"))[:500]
    hint = str(fields.get("hint", ""))[:500]
    wait = parse_retry_after(retry_after, now)
    if status == 200:
        accepted, duplicates = _parse_ids(fields.get("accepted")), _parse_ids(fields.get("duplicates"))
        if accepted or duplicates:
            return IngestResponse(RequestOutcome.ACCEPTED, accepted, duplicates, stored=True)
        return _NO_ACKNOWLEDGEMENT
    if (
        status == 413
        or (status in (400, 409, 422) and reason)
        or (status == 403 and reason in IDENTITY_MISMATCH_REASONS)
    ):
        return IngestResponse(
            RequestOutcome.REFUSED, reason=reason or Reason.TOO_LARGE, message=message, hint=hint
        )
    if status in (401, 403):
        return IngestResponse(
            RequestOutcome.UNAUTHORIZED, retry_after=wait, reason=reason, message=message, hint=hint
        )
    if status == 429:
        return IngestResponse(RequestOutcome.BUSY, retry_after=wait, reason=reason, message=message)
    if status >= 500:
        return IngestResponse(
            RequestOutcome.BUSY, stored=None, retry_after=wait, reason=reason, message=message, hint=hint
        )
    return IngestResponse(RequestOutcome.UNEXPECTED, retry_after=wait, reason=reason, message=message)


def parse_retry_after(retry_after: str | None, now: datetime) -> float | None:
    """Parse a Retry-After header (RFC 9110 §10.2.3) into seconds, at most ten minutes.

    The header holds seconds or a date. Returns None if it is missing or invalid.
    """
    if not retry_after:
        return None
    try:
        if retry_after.strip().isdigit():
            wait = float(retry_after)
        else:
            date = parsedate_to_datetime(retry_after)
            wait = ((date if date.tzinfo else date.replace(tzinfo=UTC)) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
    return min(max(wait, 0.0), _MAX_RETRY_AFTER_SECONDS)


def compute_backoff(attempt: int, max_seconds: float, jitter: float) -> float:
    """Return the seconds before retry number `attempt` (from 1).

    They double up to `max_seconds`. `jitter`, a random number from 0 to below 1, decides half of them.
    """
    full = min(max_seconds, _MIN_BACKOFF_SECONDS * 2.0 ** min(attempt - 1, 30))
    return full * (0.5 + jitter / 2)


def compute_retry_delay(
    attempt: int,
    max_seconds: float,
    retry_after: float | None,
    rng: Callable[[], float],
    spread_seconds: float = RETRY_SPREAD_SECONDS,
) -> float:
    """Return the seconds before retry number `attempt` (from 1) of a request.

    When a collector stops, all sidecars that wait for its response fail at the same moment. Therefore up to
    `spread_seconds`, and up to half of `retry_after`, are added at random. The result is never below
    `retry_after`.
    """
    backoff = compute_backoff(attempt, max_seconds, rng())
    required = (retry_after or 0.0) * (1.0 + rng() / 2)
    return max(backoff, required) + min(spread_seconds, max_seconds) * rng()


def _parse_json(body: bytes) -> dict[str, object]:
    try:
        decoded = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return decoded if isinstance(decoded, dict) else {}


def _parse_ids(value: object) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, Collection) else frozenset()
