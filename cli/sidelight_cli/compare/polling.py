"""Wait until there is enough data, then evaluate the conditions once.

Repeated tests that stop at the first significant result would report false regressions far more often than
`alpha` allows, because every test is another chance of a false alarm. The decision to wait therefore depends
only on the minimum detectable effect, which follows from the variance, and never on the sign or size of the
estimate. The conditions are evaluated on the last response only, as if it were the only one. It is the last
one when every condition has enough data or the timeout has passed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from shutil import get_terminal_size
from signal import SIGTERM, getsignal, signal
from threading import current_thread, main_thread
from typing import Final, NoReturn, TextIO

from sidelight.terminal_output import CLEAR_LINE
from sidelight_cli.collector_errors import CollectorUnreachable, RequestRefused
from sidelight_cli.compare.comparison_model import ComparisonVerdict
from sidelight_cli.compare.reports.formatting import format_duration
from sidelight_model.export_formats.provenance import format_count, format_minutes
from sidelight_model.gates import COMPOSITION, Condition, compute_min_effect, format_amount
from sidelight_model.terminal_width import escape_unprintable, truncate_to_width

LOG_INTERVAL_SECONDS: Final = 30.0
"""Time between unchanged progress lines if the output is not a terminal."""
INGEST_DELAY_SECONDS: Final = 180.0
"""Time after the end of a range in which its last windows may still arrive."""


class Terminated(Exception):
    """The process received SIGTERM."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The monotonic clock, the wall clock (Unix seconds) and the sleep function."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def explain_insufficient_data(verdict: ComparisonVerdict, conditions: tuple[Condition, ...]) -> str:
    """Return why the data does not suffice yet, judged by the variance alone.

    The text is empty when there is enough data for every condition.
    """
    if sides := verdict.sides_without_windows:
        have = "have" if len(sides) > 1 else "has"
        return f"{' and '.join(sides)} {have} no windows yet"
    if _has_no_variance(verdict):
        named = ", ".join(map(str, conditions)) or "the whole"
        return f"not enough data yet for {named}: one pod in one stretch of time"
    if verdict.basis == COMPOSITION and any(condition.needs_time for condition in conditions):
        return "A and B ran at different times, and their load may differ"
    total_rate = verdict.rate.baseline if verdict.rate else 0.0
    inconclusive = []
    for condition, evaluated in zip(conditions, verdict.conditions, strict=True):
        min_effect = compute_min_effect(
            condition, evaluated.effect, total_rate=total_rate, basis=verdict.basis
        )
        if min_effect is None or not condition.threshold:
            # Without a minimum effect of its own, the condition waits for the comparison as a whole.
            if verdict.required_data is not None:
                inconclusive.append(str(condition))
        elif min_effect > condition.threshold:
            inconclusive.append(f"{condition} ({format_amount(condition, min_effect)} would show by now)")
    if not conditions and verdict.required_data is not None:
        inconclusive.append("the whole")
    return f"not enough data yet for {', '.join(inconclusive)}" if inconclusive else ""


def _has_no_variance(verdict: ComparisonVerdict) -> bool:
    """Whether the data does not show how much a side varies.

    The response then may hold a small minimum detectable effect that means nothing.
    """
    method = verdict.method
    return method.get("frequencies") == 0 and min(method.get("pod_groups") or [0]) == 1


def has_range_ended(verdict: ComparisonVerdict, now: float) -> bool:
    """Whether both ranges have ended and their last windows have had time to arrive.

    `now` is in Unix seconds. Waiting longer brings no more data. Times that the collector chose follow new
    windows, so they do not end.
    """
    return not verdict.range_sentence and all(
        side.until is not None and side.until + INGEST_DELAY_SECONDS < now for side in verdict.sides
    )


def wait_for_verdict(
    fetch: Callable[[], ComparisonVerdict],
    conditions: tuple[Condition, ...],
    timeout_seconds: float,
    interval_seconds: float,
    progress: VerdictProgressLine,
    clock: Clock | None = None,
    *,
    is_open_ended: bool = False,
) -> ComparisonVerdict:
    """Fetch verdicts until there is enough data for every condition or a timeout.

    It also stops when the sides are not comparable, or when both ranges have ended; an open-ended one never
    does, though a collector may cut it to the time in which both sides ran. Returns the last verdict.

    Temporary failures (no response, HTTP 5xx or 429) are retried until
    `timeout_seconds` have passed. A failure of the first request, a permanent refusal and a failure after
    the timeout are raised as CollectorUnreachable or RequestRefused.
    """
    clock = clock or Clock()
    begin = clock.monotonic()
    verdict = fetch()
    while (left := begin + timeout_seconds - clock.monotonic()) > 0:
        reason = explain_insufficient_data(verdict, conditions)
        if not reason or verdict.direction == "not_comparable":
            break
        if not is_open_ended and has_range_ended(verdict, clock.now()):
            progress.note(f"{reason}; the range has ended, so there will not be more")
            break
        progress.show(f"{reason}{_format_estimate(verdict)}", clock.monotonic() - begin, left)
        clock.sleep(min(interval_seconds, left))
        try:
            verdict = fetch()
        except (CollectorUnreachable, RequestRefused) as error:
            is_temporary = (
                isinstance(error, CollectorUnreachable) or error.status >= 500 or error.status == 429
            )
            if not is_temporary or begin + timeout_seconds <= clock.monotonic():
                raise
            progress.note(f"{error.message}; asking again")
    progress.end()
    return verdict


def _format_estimate(verdict: ComparisonVerdict) -> str:
    more = verdict.required_data
    if more is None or verdict.sides_without_windows:
        return ""
    if more.minutes is not None:
        return f"; about {format_minutes(more.minutes)} more"
    return f"; {format_count(more.pods, 'pod')} of each side would do" if more.pods is not None else ""


class VerdictProgressLine:
    """Progress on the terminal or in a log.

    On a terminal one line is overwritten. Otherwise a line is written when the reason changes, and at most
    every `LOG_INTERVAL_SECONDS` while it does not.
    """

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._clock = clock
        self._last_line = ""
        self._printed_at = 0.0

    def show(self, reason: str, waited_seconds: float, left_seconds: float) -> None:
        """Show why the command waits, for how long it has waited and may still wait."""
        line = (
            f"{escape_unprintable(reason)} (waited {format_duration(waited_seconds)}, at most "
            f"{format_duration(left_seconds)} more)"
        )
        if self._is_terminal:
            self._stream.write(CLEAR_LINE)
            self._stream.write(truncate_to_width(line, get_terminal_size().columns - 1))
        elif reason != self._last_line or self._clock() - self._printed_at >= LOG_INTERVAL_SECONDS:
            self._stream.write(f"{line}\n")
            self._last_line, self._printed_at = reason, self._clock()
        self._stream.flush()

    def note(self, text: str) -> None:
        """Write a line of its own, unless it repeats the last one."""
        self.end()
        if text != self._last_line:
            self._stream.write(f"{escape_unprintable(text)}\n")
            self._stream.flush()
        self._last_line = text

    def end(self) -> None:
        """Clear the progress line on a terminal."""
        if self._is_terminal:
            self._stream.write(CLEAR_LINE)
            self._stream.flush()


@contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Let SIGTERM raise Terminated inside the context.

    It is raised at once, even during a sleep or a request.
    """

    def raise_terminated(*_: object) -> NoReturn:
        raise Terminated

    if current_thread() is not main_thread():  # signal handlers can only be set in the main thread
        yield
        return
    previous_handler = getsignal(SIGTERM)
    signal(SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal(SIGTERM, previous_handler)
