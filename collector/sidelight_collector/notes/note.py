"""Notes, and the requests that create and change them. Pure.

A note belongs to a service in a namespace. It marks a time range, a function, or both.
"""

from __future__ import annotations

import re
from base64 import b32encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from sidelight_collector.times import SECOND_NS, parse_time
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.terminal_width import escape_lines, escape_unprintable

MAX_TEXT_CHARACTERS: Final = 1000
MAX_FUNCTION_CHARACTERS: Final = 4000
MAX_LABEL_BYTES: Final = 256
MAX_FUTURE_SECONDS: Final = 7 * 86_400.0
NOTE_ID_PATTERN: Final = re.compile(r"(?P<service>[a-z2-7]{16})-(?P<namespace>[a-z2-7]{16})-[a-z2-7]{8}")
CREATE_FIELDS: Final = ("service", "namespace", "text", "from", "until", "function")
_CREATE_HINT: Final = 'Send {"service": "shop", "text": "Cache switched on", "from": "-1h", "until": "now"}.'
_CHANGE_HINT: Final = 'Send {"text": "Cache switched on"}.'


class BadNote(SidelightError):
    """The request for a note is invalid."""

    reason = Reason.BAD_PARAMETER


@dataclass(frozen=True, slots=True)
class Note:
    """A note of a user.

    `start` and `until` are Unix seconds, both None for a note on a function alone. They are equal for a note
    on a moment. `function` is the name of a frame without its line, or empty. `author` is empty for an
    anonymous user, and `changed_by` is that of the last change.
    """

    id: str
    service: str
    namespace: str
    text: str
    start: float | None
    until: float | None
    function: str
    author: str
    created_at: float
    changed_by: str
    changed_at: float

    @property
    def labels(self) -> Mapping[str, str]:
        """The labels that decide who may read the note."""
        return {"service": self.service, "namespace": self.namespace}

    def overlaps(self, start: float, until: float) -> bool:
        """Whether the note marks a moment in [start, until].

        One on a function alone always does.
        """
        if self.start is None or self.until is None:
            return True
        return self.start <= until and self.until >= start


@dataclass(frozen=True, slots=True)
class NoteRequest:
    """The request for a new note; `namespace` is None if the request names none."""

    service: str
    namespace: str | None
    text: str
    start: float | None
    until: float | None
    function: str


def parse_note_request(raw: Mapping[str, Any], now: float) -> NoteRequest:
    """Parse the request for a new note.

    Without a range and a function, the note marks `now`. Raises BadNote and BadTime.
    """
    _check_fields(raw, CREATE_FIELDS, _CREATE_HINT)
    service, namespace = _parse_label(raw, "service"), _parse_label(raw, "namespace")
    if not service:
        raise BadNote("service is missing or empty", hint=_CREATE_HINT)
    function = raw.get("function", "")
    if not isinstance(function, str) or len(function) > MAX_FUNCTION_CHARACTERS:
        raise BadNote(
            "function is not the name of a frame",
            hint=f'Send "render (shop/views.py)", with at most {MAX_FUNCTION_CHARACTERS:,} characters.',
        )
    start, until = _parse_range(raw, now, is_optional=bool(function))
    return NoteRequest(service, namespace, _parse_text(raw, _CREATE_HINT), start, until, function)


def parse_note_text(raw: Mapping[str, Any]) -> str:
    """Parse the request to change the text of a note. Raises BadNote."""
    _check_fields(raw, ("text",), _CHANGE_HINT)
    return _parse_text(raw, _CHANGE_HINT)


def digest_label(value: str) -> str:
    """Return 80 bits of the SHA-256 digest of a label, as 16 letters and digits."""
    return b32encode(sha256(value.encode(errors="surrogatepass")).digest()[:10]).decode().lower()


def _check_fields(raw: Mapping[str, Any], allowed: Collection[str], hint: str) -> None:
    unknown = sorted(name for name in raw if name not in allowed)
    if unknown:
        raise BadNote(f"there is no field {unknown[0][:64]!r}", hint=hint)


def _parse_label(raw: Mapping[str, Any], name: str) -> str | None:
    value = raw.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or len(value.encode(errors="replace")) > MAX_LABEL_BYTES:
        raise BadNote(f"{name} is not a text of at most {MAX_LABEL_BYTES} bytes", hint=_CREATE_HINT)
    return value


def _parse_text(raw: Mapping[str, Any], hint: str) -> str:
    """Return the text with control characters escaped, except line ends."""
    text = raw.get("text")
    if not isinstance(text, str) or not text.strip():
        raise BadNote("the note has no text", hint=hint)
    escaped = escape_lines("\n".join(text.strip().splitlines()).replace("\t", " "))
    if len(escaped) > MAX_TEXT_CHARACTERS:
        raise BadNote(
            f"the text has {len(escaped):,} characters, and a note may have {MAX_TEXT_CHARACTERS:,}",
            hint="Shorten the text, or link to a longer one.",
        )
    return escaped


def _parse_range(
    raw: Mapping[str, Any], now: float, *, is_optional: bool
) -> tuple[float, float] | tuple[None, None]:
    """Return the range in Unix seconds; `until` defaults to `from`, which is a moment."""
    if "from" not in raw and "until" not in raw:
        return (None, None) if is_optional else (now, now)
    if "from" not in raw:
        raise BadNote("until is given without from", hint=_CREATE_HINT)
    start = _parse_moment(raw["from"], "from", now)
    until = _parse_moment(raw["until"], "until", now) if "until" in raw else start
    if until < start:
        raise BadNote("until is before from", hint="A range is from <= time <= until.")
    if until > now + MAX_FUTURE_SECONDS:
        raise BadNote("the range ends more than 7 days in the future", hint="Send an earlier until.")
    return start, until


def _parse_moment(value: object, name: str, now: float) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadNote(f"{name} is not a time", hint=_CREATE_HINT)
    text = escape_unprintable(value) if isinstance(value, str) else f"{value:.3f}".rstrip("0").rstrip(".")
    return parse_time(text, parameter=name, now_ns=round(now * 1000) * 1_000_000) / SECOND_NS
