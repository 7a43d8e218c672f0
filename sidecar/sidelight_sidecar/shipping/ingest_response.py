"""What the collector's answer to a batch of windows means, and how long to wait before the next."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import StrEnum

from sidelight_model.errors import Reason

_LONGEST_RETRY_AFTER = 600.0
_FIRST_PAUSE = 0.5


NOT_OURS = frozenset((Reason.WRONG_NAMESPACE, Reason.WRONG_POD, Reason.WRONG_SERVICE))
"""Why windows are refused that say that they are of another pod than the token is."""


class Outcome(StrEnum):
    """How a request ended; also a metric label."""

    ACCEPTED = "accepted"
    REFUSED = "refused"
    UNAUTHORIZED = "unauthorized"
    BUSY = "busy"
    UNEXPECTED = "unexpected"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read.

    accepted and duplicates are acknowledged ids; `stored` is None when the collector may or may not
    have kept the windows, so that they must keep their ids; `retry_after` is seconds, if it said so.
    """

    outcome: Outcome
    accepted: frozenset[str] = frozenset()
    duplicates: frozenset[str] = frozenset()
    stored: bool | None = False
    retry_after: float | None = None
    reason: str = ""
    message: str = ""
    hint: str = ""

    def to(self, sent: frozenset[str]) -> Answer:
        """This answer as one to these windows: to acknowledge only others is no acknowledgement."""
        if self.outcome is not Outcome.ACCEPTED:
            return self
        mine = replace(self, accepted=self.accepted & sent, duplicates=self.duplicates & sent)
        return mine if mine.accepted or mine.duplicates else _ACKNOWLEDGES_NONE


_ACKNOWLEDGES_NONE = Answer(Outcome.UNEXPECTED, stored=None, message="it acknowledged none of the windows")


def read_answer(status: int, retry_after: str | None, body: bytes, now: datetime) -> Answer:
    """The meaning of an HTTP answer from POST /api/v1/windows.

    Only a collector's own refusal, which carries a reason word, is final: a 400 from a proxy or from
    another server says nothing about the windows. That windows name another pod than the token is final
    too: no later answer could be another. That the token is not good is not: the windows wait for one.
    """
    told = _json(body)
    reason, message = str(told.get("error", ""))[:64], str(told.get("message", f"status {status}"))[:500]
    hint = str(told.get("hint", ""))[:500]
    wait = seconds_of(retry_after, now)
    if status == 200:
        accepted, duplicates = _ids(told.get("accepted")), _ids(told.get("duplicates"))
        if accepted or duplicates:
            return Answer(Outcome.ACCEPTED, accepted, duplicates, stored=True)
        return _ACKNOWLEDGES_NONE
    if status == 413 or (status in (400, 409, 422) and reason) or (status == 403 and reason in NOT_OURS):
        return Answer(Outcome.REFUSED, reason=reason or Reason.TOO_LARGE, message=message, hint=hint)
    if status in (401, 403):
        return Answer(Outcome.UNAUTHORIZED, retry_after=wait, reason=reason, message=message, hint=hint)
    if status == 429:
        return Answer(Outcome.BUSY, retry_after=wait, reason=reason, message=message)
    if status >= 500:
        return Answer(Outcome.BUSY, stored=None, retry_after=wait, reason=reason, message=message, hint=hint)
    return Answer(Outcome.UNEXPECTED, retry_after=wait, reason=reason, message=message)


def seconds_of(retry_after: str | None, now: datetime) -> float | None:
    """A Retry-After header, seconds or a date (RFC 9110 §10.2.3), as seconds up to ten minutes."""
    if not retry_after:
        return None
    try:
        if retry_after.strip().isdigit():
            wait = float(retry_after)
        else:
            when = parsedate_to_datetime(retry_after)
            wait = ((when if when.tzinfo else when.replace(tzinfo=UTC)) - now).total_seconds()
    except (ValueError, OverflowError):
        return None
    return min(max(wait, 0.0), _LONGEST_RETRY_AFTER)


def pause(attempt: int, longest: float, luck: float) -> float:
    """Seconds before try number `attempt` (from 1): doubling up to `longest`, half of it by chance."""
    full = min(longest, _FIRST_PAUSE * 2.0 ** min(attempt - 1, 30))
    return full * (0.5 + luck / 2)


def _json(body: bytes) -> dict[str, object]:
    try:
        told = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, dict) else {}


def _ids(value: object) -> frozenset[str]:
    return frozenset(map(str, value)) if isinstance(value, Collection) else frozenset()
