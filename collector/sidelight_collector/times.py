"""Times of query parameters, parsed and formatted, and spans of time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from sidelight_model.errors import Reason, SidelightError

SECOND_NS: Final = 1_000_000_000
MAX_TIME_NS: Final = 2**63 - 1

_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_RELATIVE = re.compile(r"(?:now)?(?P<sign>[+-])(?P<amount>\d{1,9})(?P<unit>[smhdw])", re.ASCII)
_EPOCH = re.compile(r"\d{1,11}(?:\.\d{1,9})?", re.ASCII)
_EPOCH_MS = re.compile(r"\d{13}", re.ASCII)
_RFC3339 = re.compile(
    r"(?P<date>\d{4}-\d{2}-\d{2})[Tt ](?P<clock>\d{2}:\d{2}:\d{2})(?:\.(?P<fraction>\d{1,9}))?"
    r"(?P<zone>[Zz]|[+ -]\d{2}:\d{2})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class ObservedSpan:
    """When something was first and last seen, in Unix seconds."""

    first: float
    last: float


class BadTime(SidelightError):
    """A query parameter is not a valid time."""

    reason = Reason.BAD_TIME

    def __init__(self, parameter: str, text: str) -> None:
        super().__init__(
            f"{parameter}={text[:80]!r} is not a time",
            hint="Write RFC 3339 (2026-11-21T09:30:00Z), seconds since the epoch (1795253400 or "
            "1795253400.5), milliseconds (1795253400000), now, or a time relative to now "
            "(-15m, now-2h; units s m h d w).",
        )


def parse_time(text: str, *, parameter: str, now_ns: int) -> int:
    """Parse a time to nanoseconds since the epoch.

    Accepted: RFC 3339, epoch seconds (whole or with a fraction), epoch milliseconds (13 digits), `now`,
    `-15m`, `now-15m`, `now+15m`. A blank before a zone offset counts as `+`, because URLs decode `+` to a
    blank. Raises BadTime, which names `parameter`.
    """
    text = text.strip()
    moment = now_ns if text == "now" else _parse_relative(text, now_ns)
    moment = _parse_epoch(text) if moment is None else moment
    moment = _parse_rfc3339(text) if moment is None else moment
    if moment is None or not 0 <= moment <= MAX_TIME_NS:
        raise BadTime(parameter, text)
    return moment


def format_rfc3339(moment_ns: int) -> str:
    """Format a time as RFC 3339 in UTC, with as many decimals as it needs."""
    seconds, fraction = divmod(moment_ns, SECOND_NS)
    text = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")
    return text + (f".{fraction:09d}".rstrip("0") if fraction else "") + "Z"


def _parse_relative(text: str, now_ns: int) -> int | None:
    match = _RELATIVE.fullmatch(text)
    if match is None:
        return None
    distance = int(match["amount"]) * _UNIT_SECONDS[match["unit"]] * SECOND_NS
    return now_ns - distance if match["sign"] == "-" else now_ns + distance


def _parse_epoch(text: str) -> int | None:
    if _EPOCH_MS.fullmatch(text):
        return int(text) * 1_000_000
    return int(Decimal(text) * SECOND_NS) if _EPOCH.fullmatch(text) else None


def _parse_rfc3339(text: str) -> int | None:
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    zone = "+00:00" if match["zone"] in "Zz" else match["zone"].replace(" ", "+")
    try:
        moment = datetime.fromisoformat(f"{match['date']}T{match['clock']}{zone}")
    except ValueError:
        return None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    whole = since.days * 86_400 + since.seconds
    return whole * SECOND_NS + int((match["fraction"] or "").ljust(9, "0"))
