"""The query parameters of an upload to `/ingest`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sidelight_collector.ingest.pyroscope.profile_types import TIME_TYPES, NotStored, classify_type
from sidelight_collector.ingest.validation import SECOND_NS, BadUploadParameter
from sidelight_collector.times import MAX_TIME_NS, parse_time
from sidelight_model.counts import ProfileType

DEFAULT_RATE_HZ: Final = 100
MAX_RATE_HZ: Final = 10_000
_NAME: Final = re.compile(r"(?P<app>[^{}]*)(?:\{(?P<labels>.*)\})?", re.DOTALL)
_NS_PER_UNIT_BY_DIGITS: Final = {10: SECOND_NS, 13: 10**6, 16: 10**3, 19: 1}
_SUFFIX: Final = re.compile(
    r"(?:inuse|alloc|mutex|block|lock)_[a-z_]+|exceptions|goroutines?|live|bytes|objects", re.ASCII
)


@dataclass(frozen=True, slots=True)
class UploadQuery:
    """What the parameters say of a profile; a time is None if it is absent.

    `suffix` is the profile type at the end of the name (`cpu` in `shop.cpu`), which `app` does not have.
    `name` is the whole name.
    """

    name: str
    app: str
    suffix: str
    labels: tuple[tuple[str, str], ...]
    from_ns: int | None
    until_ns: int | None
    format: str
    rate_hz: int
    spy: str
    units: str
    is_relative: bool
    """Whether `from` is relative to now, so that a repeated upload has another time."""

    @property
    def time_type(self) -> ProfileType | None:
        """The profile type of folded text; None if it is not stored."""
        if self.units in ("bytes", "objects"):
            return None
        return TIME_TYPES.get(self.suffix or "cpu")

    @property
    def not_stored(self) -> NotStored:
        """The kind of folded text that is not stored."""
        return classify_type(self.suffix, self.units)

    @property
    def period_ns(self) -> int:
        return SECOND_NS // self.rate_hz


def parse_upload_query(query: Mapping[str, str], now_ns: int) -> UploadQuery:
    """Parse the parameters. Raises BadUploadParameter, BadTime."""
    name, labels = _parse_name(query.get("name", ""))
    app, _, suffix = name.rpartition(".")
    if not app or not (suffix in TIME_TYPES or _SUFFIX.fullmatch(suffix)):
        app, suffix = name, ""
    rate = query.get("sampleRate", "")
    rate_hz = int(rate) if rate.isascii() and rate.isdigit() and len(rate) <= 6 else 0
    return UploadQuery(
        name,
        app,
        suffix,
        labels,
        _parse_upload_time(query, "from", now_ns),
        _parse_upload_time(query, "until", now_ns),
        query.get("format", "").lower(),
        rate_hz if 0 < rate_hz <= MAX_RATE_HZ else DEFAULT_RATE_HZ,
        query.get("spyName", ""),
        query.get("units", ""),
        is_relative=query.get("from", "").startswith("now"),
    )


def _parse_name(text: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    match = _NAME.fullmatch(text.strip())
    if match is None or not match["app"].strip():
        raise BadUploadParameter(
            f"name={text[:80]!r} names no application", hint="Send name=APP, or name=APP{label=value}."
        )
    labels = []
    for part in filter(None, (match["labels"] or "").strip().split(",")):
        label, equals, value = part.partition("=")
        if not equals or not label.strip():
            raise BadUploadParameter(
                f"the labels of name={text[:80]!r} cannot be read", hint="Send name=APP{label=value}."
            )
        labels.append((label.strip(), value.strip().strip('"')))
    return match["app"].strip(), tuple(labels)


def _parse_upload_time(query: Mapping[str, str], name: str, now_ns: int) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if text.isascii() and text.isdigit() and (unit_ns := _NS_PER_UNIT_BY_DIGITS.get(len(text))):
        return min(int(text) * unit_ns, MAX_TIME_NS)
    return parse_time(text, parameter=name, now_ns=now_ns)
