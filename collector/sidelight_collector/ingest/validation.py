"""What the collector makes of a body: windows, hashed, or the reason why not. Pure; runs in threads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal, InvalidOperation
from typing import Final

from ulid import ULID

from sidelight_collector.auth.write_identity import WriterIdentity
from sidelight_collector.decompress import decompress_body
from sidelight_collector.ingest import parsing
from sidelight_collector.stack_hashing import HashedWindow, build_hashed_window
from sidelight_collector.times import parse_time
from sidelight_model.errors import BadHeader, BadLabel, LimitExceeded, Reason, SidelightError
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window, WindowLimits, is_window_id

SECOND_NS: Final = 10**9
MIN_LINE_BYTES: Final = 64
"""What a line of text counts as at least: decoded, the shortest takes four times as much memory."""
DEFAULT_RATE_HZ: Final = "100"
_QUERY_PARAMETERS: Final = ("id", "rate", "start", "duration")


class ClockSkew(SidelightError):
    """A window ends in the future, or began too long ago."""

    reason = Reason.CLOCK_SKEW


class BadParameter(SidelightError):
    """A query parameter of a folded upload cannot be used."""

    reason = Reason.BAD_PARAMETER


@dataclass(frozen=True, slots=True)
class IngestLimits:
    """The rules at the door: lengths in bytes, times in nanoseconds."""

    window_limits: WindowLimits
    max_body_bytes: int
    max_future_ns: int
    max_age_ns: int


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """One request as received: its body still encoded, its query parameters, and when it came (Unix ns)."""

    body: bytes
    encoding: str
    query: Mapping[str, str]
    now_ns: int
    writer: WriterIdentity | None = None
    """The pod that sends, where the cluster vouches for one."""


@dataclass(frozen=True, slots=True)
class ParsedRequest:
    """The windows of a request, the bytes of their text, and as how many they count against memory."""

    windows: list[HashedWindow]
    text_bytes: int
    memory_bytes: int

    @property
    def truncated_samples(self) -> int:
        """Samples whose stacks were clipped, by the sampler or here."""
        return sum(row.window.quality.truncated for row in self.windows)


def parse_request(request: ReceivedRequest, ingest_limits: IngestLimits) -> ParsedRequest:
    """The windows in a body, or the first reason to refuse it, as a SidelightError.

    A body that begins with `#` holds windows; any other is one folded profile, described by the query.
    """
    text = decompress_body(request.body, request.encoding, ingest_limits.max_body_bytes)
    held_bytes = max(len(text), MIN_LINE_BYTES * text.count(b"\n"))
    if held_bytes > ingest_limits.max_body_bytes:
        raise too_many_lines(ingest_limits.max_body_bytes)
    writer, limits = request.writer, ingest_limits.window_limits
    if writer is not None:
        limits = replace(limits, labels=replace(limits.labels, allow_missing_service=True))
    if "service" in request.query or text.lstrip()[:1] != b"#":
        windows = [_parse_folded(text, request.query, request.now_ns, limits)]
    else:
        windows = parsing.parse_windows(text, limits)
    if not windows:
        raise BadHeader(1, "the body holds no window")
    if writer is not None:
        windows = [bind_labels(row, writer) for row in windows]
    for row in windows:
        check_clock(row.window, request.now_ns, ingest_limits)
    return ParsedRequest(windows, len(text), held_bytes)


def bind_labels(row: HashedWindow, writer: WriterIdentity) -> HashedWindow:
    """The window with the labels of its writer; its digest stays that of what was sent. Raises NotYours."""
    return replace(row, window=replace(row.window, labels=writer.bind_labels(row.window.labels)))


def too_many_lines(max_bytes: int) -> LimitExceeded:
    """The refusal of a body whose lines are so short that reading it would take more memory than its text."""
    return LimitExceeded(
        f"the body has more than {max_bytes // MIN_LINE_BYTES} lines",
        hint=f"Send fewer windows at once, or raise the collector's --max-body-bytes: a line counts as "
        f"{MIN_LINE_BYTES} bytes at least.",
    )


def check_clock(window: Window, now_ns: int, limits: IngestLimits) -> None:
    """Raises ClockSkew unless the window ends by now and began not too long ago, give or take."""
    ahead = window.start_ns + window.duration_ns - now_ns
    if ahead > limits.max_future_ns:
        raise ClockSkew(
            f"window {window.id} ends {ahead / SECOND_NS:.0f} s after the collector's clock",
            hint="Set the clocks (NTP), or raise the collector's --max-future-seconds.",
        )
    age = now_ns - window.start_ns
    if age > limits.max_age_ns:
        raise ClockSkew(
            f"window {window.id} began {age / SECOND_NS:.0f} s before the collector's clock",
            reason=Reason.TOO_OLD,
            hint="Set the clocks (NTP), or raise the collector's --max-age-days.",
        )


def _parse_folded(text: bytes, query: Mapping[str, str], now_ns: int, limits: WindowLimits) -> HashedWindow:
    counted = parsing.parse_folded_profile(text, limits)
    if "service" not in query and not limits.labels.allow_missing_service:
        raise BadLabel(
            "the label `service` is missing",
            hint="Add ?service=NAME to the URL, or begin the body with a window's header.",
        )
    labels = Labels.parse(
        {name: query[name] for name in query if name not in _QUERY_PARAMETERS}, limits.labels
    )
    rate_hz = _parse_number("rate", query.get("rate", DEFAULT_RATE_HZ), Decimal("0.1"), Decimal(10_000))
    period_ns = int(SECOND_NS / rate_hz)
    longest = Decimal(limits.max_duration_ns) / SECOND_NS
    if "duration" in query:
        duration_ns = int(_parse_number("duration", query["duration"], Decimal("0.001"), longest) * SECOND_NS)
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
    quality = Quality(samples=counted.samples, truncated=counted.truncated_samples, missing_states=missing)
    window = Window(window_id, labels, start_ns, duration_ns, period_ns, {}, quality)
    return build_hashed_window(window, counted)


def _parse_number(name: str, text: str, minimum: Decimal, maximum: Decimal) -> Decimal:
    try:
        value = Decimal(text)
        if minimum <= value <= maximum:
            return value
    except InvalidOperation:
        pass
    raise BadParameter(
        f"{name}={text[:80]!r} cannot be used", hint=f"{name} is a number from {minimum} to {maximum}."
    )
