"""What the collector makes of a body: windows, hashed, or the reason why not. Pure; runs in threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Final

from ulid import ULID

from sidelight_collector.auth.write_identity import Writer
from sidelight_collector.decompress import unpack
from sidelight_collector.ingest import parsing
from sidelight_collector.stack_hashing import HashedWindow, named
from sidelight_collector.times import parse_time
from sidelight_model.errors import BadHeader, BadLabel, LimitExceeded, Reason, SidelightError
from sidelight_model.labels import Labels
from sidelight_model.window import Limits, Quality, Window, is_window_id

SECOND_NS: Final = 10**9
LINE_BYTES: Final = 64
"""What a line of text counts as at least: decoded, the shortest takes four times as much memory."""
DEFAULT_RATE_HZ: Final = "100"
_PARAMETERS: Final = ("id", "rate", "start", "duration")


class ClockSkew(SidelightError):
    """A window ends in the future, or began too long ago."""

    reason = Reason.CLOCK_SKEW


class BadParameter(SidelightError):
    """A query parameter of a folded upload cannot be used."""

    reason = Reason.BAD_PARAMETER


@dataclass(frozen=True, slots=True)
class Admission:
    """The rules at the door: lengths in bytes, times in nanoseconds."""

    limits: Limits
    max_body_bytes: int
    max_future_ns: int
    max_age_ns: int


@dataclass(frozen=True, slots=True)
class Arrival:
    """One request as received: its body still encoded, its query parameters, and when it came (Unix ns)."""

    body: bytes
    encoding: str
    query: Mapping[str, str]
    now_ns: int
    writer: Writer | None = None
    """The pod that sends, where the cluster vouches for one."""


@dataclass(frozen=True, slots=True)
class Admitted:
    """The windows of a request, the bytes of their text, and as how many they count against memory."""

    windows: list[HashedWindow]
    text_bytes: int
    held_bytes: int

    @property
    def truncated(self) -> int:
        """Samples whose stacks were clipped, by the sampler or here."""
        return sum(row.window.quality.truncated for row in self.windows)


def admit(arrival: Arrival, rules: Admission) -> Admitted:
    """The windows in a body, or the first reason to refuse it, as a SidelightError.

    A body that begins with `#` holds windows; any other is one folded profile, described by the query.
    """
    text = unpack(arrival.body, arrival.encoding, rules.max_body_bytes)
    held_bytes = max(len(text), LINE_BYTES * text.count(b"\n"))
    if held_bytes > rules.max_body_bytes:
        raise too_many_lines(rules.max_body_bytes)
    writer, limits = arrival.writer, rules.limits
    if writer is not None:
        limits = replace(limits, labels=replace(limits.labels, nameless=True))
    if "service" in arrival.query or text.lstrip()[:1] != b"#":
        windows = [_folded(text, arrival.query, arrival.now_ns, limits)]
    else:
        windows = parsing.windows(text, limits)
    if not windows:
        raise BadHeader(1, "the body holds no window")
    if writer is not None:
        windows = [bound(row, writer) for row in windows]
    for row in windows:
        check_clock(row.window, arrival.now_ns, rules)
    return Admitted(windows, len(text), held_bytes)


def bound(row: HashedWindow, writer: Writer) -> HashedWindow:
    """The window with the labels of its writer; its digest stays that of what was sent. Raises NotYours."""
    return replace(row, window=replace(row.window, labels=writer.bound(row.window.labels)))


def too_many_lines(max_bytes: int) -> LimitExceeded:
    """The refusal of a body whose lines are so short that reading it would take more memory than its text."""
    return LimitExceeded(
        f"the body has more than {max_bytes // LINE_BYTES} lines",
        hint=f"Send fewer windows at once, or raise the collector's --max-body-bytes: a line counts as "
        f"{LINE_BYTES} bytes at least.",
    )


def check_clock(window: Window, now_ns: int, rules: Admission) -> None:
    """Raises ClockSkew unless the window ends by now and began not too long ago, give or take."""
    ahead = window.start_ns + window.duration_ns - now_ns
    if ahead > rules.max_future_ns:
        raise ClockSkew(
            f"window {window.id} ends {ahead / SECOND_NS:.0f} s after the collector's clock",
            hint="Set the clocks (NTP), or raise the collector's --max-future-seconds.",
        )
    age = now_ns - window.start_ns
    if age > rules.max_age_ns:
        raise ClockSkew(
            f"window {window.id} began {age / SECOND_NS:.0f} s before the collector's clock",
            reason=Reason.TOO_OLD,
            hint="Set the clocks (NTP), or raise the collector's --max-age-days.",
        )


def _folded(text: bytes, query: Mapping[str, str], now_ns: int, limits: Limits) -> HashedWindow:
    counted = parsing.profile(text, limits)
    if "service" not in query and not limits.labels.nameless:
        raise BadLabel(
            "the label `service` is missing",
            hint="Add ?service=NAME to the URL, or begin the body with a window's header.",
        )
    labels = Labels.check({name: query[name] for name in query if name not in _PARAMETERS}, limits.labels)
    rate_hz = _number("rate", query.get("rate", DEFAULT_RATE_HZ), Decimal("0.1"), Decimal(10_000))
    period_ns = int(SECOND_NS / rate_hz)
    longest = Decimal(limits.max_duration_ns) / SECOND_NS
    if "duration" in query:
        duration_ns = int(_number("duration", query["duration"], Decimal("0.001"), longest) * SECOND_NS)
    else:
        duration_ns = min(max(counted.samples, 1) * period_ns, limits.max_duration_ns)
    if "start" in query:
        start_ns = parse_time(query["start"], parameter="start", now_ns=now_ns)
    else:
        start_ns = now_ns - duration_ns
    window_id = query.get("id") or str(ULID.from_timestamp(now_ns / SECOND_NS))
    if not is_window_id(window_id):
        raise BadParameter(f"id={window_id[:80]!r} is not a ULID", hint="Leave it out to have one made.")
    missing = () if any(counted.idle) or any(counted.gil) else ("idle", "gil")
    quality = Quality(samples=counted.samples, truncated=counted.clipped, missing_states=missing)
    window = Window(window_id, labels, start_ns, duration_ns, period_ns, {}, quality)
    return named(window, counted)


def _number(name: str, text: str, least: Decimal, most: Decimal) -> Decimal:
    try:
        value = Decimal(text)
        if least <= value <= most:
            return value
    except InvalidOperation:
        pass
    raise BadParameter(
        f"{name}={text[:80]!r} cannot be used", hint=f"{name} is a number from {least} to {most}."
    )
