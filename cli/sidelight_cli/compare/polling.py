"""Waits until there is enough data, and judges once.

Looking again and again and stopping at the first bad look would find a regression where there is none far
more often than agreed: each look is another chance to be wrong. So what is looked at while waiting is how
small a change could be seen by now (the minimum detectable effect, which comes of the variance), never which
way the estimate leans. When every condition could be judged, or the time is over, the last answer is the one
that is judged, as if it had been the only one.
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

from sidelight_cli.collector_api import CollectorUnreachable, RequestRefused
from sidelight_cli.compare.comparison_model import ComparisonVerdict
from sidelight_cli.compare.reports.formatting import format_duration, format_minutes
from sidelight_model.export_formats.provenance import format_count
from sidelight_model.gates import DEPTH_SUBJECTS, Condition, compute_min_effect, format_amount
from sidelight_model.terminal_width import escape_unprintable, truncate_to_width

LOG_INTERVAL_SECONDS: Final = 30.0
"""Without a terminal a line is written so often while nothing changes."""
INGEST_DELAY_SECONDS: Final = 180.0
"""So long after the end of a range its last windows may still arrive."""


class Terminated(Exception):
    """SIGTERM came."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time as it passes (monotonic), as it is told (Unix seconds), and a pause."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def explain_insufficient_data(verdict: ComparisonVerdict, conditions: tuple[Condition, ...]) -> str:
    """Why it is too early to judge, by the variance alone; empty when every condition can be judged."""
    if sides := verdict.sides_without_windows:
        have = "have" if len(sides) > 1 else "has"
        return f"{' and '.join(sides)} {have} no windows yet"
    if _has_no_variance(verdict):
        named = ", ".join(map(str, conditions)) or "the whole"
        return f"not enough data yet for {named}: one pod in one stretch of time"
    load_conditions = [condition for condition in conditions if condition.subject not in DEPTH_SUBJECTS]
    if verdict.method.get("load") == "unknown" and (load_conditions or not conditions):
        return "A and B ran at different times, and their load may differ"
    total_rate = verdict.rate.baseline if verdict.rate else 0.0
    inconclusive = []
    for condition, judged in zip(conditions, verdict.conditions, strict=True):
        min_effect = compute_min_effect(condition, judged.effect, total_rate=total_rate)
        if min_effect is None or not condition.threshold:
            # Nothing of its own tells, so the comparison as a whole does.
            if verdict.required_data is not None:
                inconclusive.append(str(condition))
        elif min_effect > condition.threshold:
            inconclusive.append(f"{condition} ({format_amount(condition, min_effect)} would show by now)")
    if not conditions and verdict.required_data is not None:
        inconclusive.append("the whole")
    return f"not enough data yet for {', '.join(inconclusive)}" if inconclusive else ""


def _has_no_variance(verdict: ComparisonVerdict) -> bool:
    """Whether nothing tells how far a side varies, however small a change its numbers would show."""
    method = verdict.method
    return method.get("frequencies") == 0 and min(method.get("pod_groups") or [0]) == 1


def has_range_ended(verdict: ComparisonVerdict, now: float) -> bool:
    """Whether both ranges have ended and all their windows are there, so that waiting brings no more."""
    return all(side.until is not None and side.until + INGEST_DELAY_SECONDS < now for side in verdict.sides)


def wait_for_verdict(
    fetch: Callable[[], ComparisonVerdict],
    conditions: tuple[Condition, ...],
    timeout_seconds: float,
    interval_seconds: float,
    progress: VerdictProgressLine,
    clock: Clock | None = None,
) -> ComparisonVerdict:
    """Look until every condition can be judged, and at most so long; the verdict to judge.

    An answer that cannot be had is asked for again until the time is over; but for the first, and for a
    question that is refused: those are raised.
    """
    clock = clock or Clock()
    begin = clock.monotonic()
    verdict = fetch()
    while (left := begin + timeout_seconds - clock.monotonic()) > 0:
        reason = explain_insufficient_data(verdict, conditions)
        if not reason or verdict.direction == "not_comparable":
            break
        if has_range_ended(verdict, clock.now()):
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
    """One line that is written over on a terminal, else a line when something changes, and now and then."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._is_terminal = stream.isatty()
        self._clock = clock
        self._last_line = ""
        self._printed_at = 0.0

    def show(self, reason: str, waited_seconds: float, left_seconds: float) -> None:
        """Why it goes on, for how long it has, and for how long it may."""
        line = (
            f"{escape_unprintable(reason)} (waited {format_duration(waited_seconds)}, at most "
            f"{format_duration(left_seconds)} more)"
        )
        if self._is_terminal:
            self._stream.write(f"\r\x1b[K{truncate_to_width(line, get_terminal_size().columns - 1)}")
        elif reason != self._last_line or self._clock() - self._printed_at >= LOG_INTERVAL_SECONDS:
            self._stream.write(f"{line}\n")
            self._last_line, self._printed_at = reason, self._clock()
        self._stream.flush()

    def note(self, text: str) -> None:
        """Something else to say, once."""
        self.end()
        if text != self._last_line:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        self._last_line = text

    def end(self) -> None:
        """Nothing more is written over."""
        if self._is_terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


@contextmanager
def raise_on_sigterm() -> Iterator[None]:
    """Within, SIGTERM raises Terminated, at once and also inside a pause or an answer under way."""

    def raise_terminated(*_: object) -> NoReturn:
        raise Terminated

    if current_thread() is not main_thread():  # where no signal arrives
        yield
        return
    previous_handler = getsignal(SIGTERM)
    signal(SIGTERM, raise_terminated)
    try:
        yield
    finally:
        signal(SIGTERM, previous_handler)
