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

from sidelight_cli.collector_api import Refused, Unreachable
from sidelight_cli.compare.comparison_model import Verdict
from sidelight_cli.compare.reports.formatting import length, minutes
from sidelight_model.export_formats.provenance import plural
from sidelight_model.gates import DEPTHS, Condition, amount, detectable
from sidelight_model.terminal_width import cut, visible

LINE_SECONDS: Final = 30.0
"""Without a terminal a line is written so often while nothing changes."""
LATE_SECONDS: Final = 180.0
"""So long after the end of a range its last windows may still arrive."""


class Terminated(Exception):
    """SIGTERM came."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The time as it passes (monotonic), as it is told (Unix seconds), and a pause."""

    monotonic: Callable[[], float] = time.monotonic
    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def lacking(verdict: Verdict, conditions: tuple[Condition, ...]) -> str:
    """Why it is too early to judge, by the variance alone; empty when every condition can be judged."""
    if sides := verdict.unwatched:
        have = "have" if len(sides) > 1 else "has"
        return f"{' and '.join(sides)} {have} no windows yet"
    if _is_blind(verdict):
        named = ", ".join(map(str, conditions)) or "the whole"
        return f"not enough data yet for {named}: one pod in one stretch of time"
    of_load = [condition for condition in conditions if condition.subject not in DEPTHS]
    if verdict.method.get("load") == "unknown" and (of_load or not conditions):
        return "A and B ran at different times, and their load may differ"
    whole = verdict.rate.baseline if verdict.rate else 0.0
    early = []
    for condition, judged in zip(conditions, verdict.conditions, strict=True):
        shows = detectable(condition, judged.effect, whole=whole)
        if shows is None or not condition.threshold:
            # Nothing of its own tells, so the comparison as a whole does.
            if verdict.more is not None:
                early.append(str(condition))
        elif shows > condition.threshold:
            early.append(f"{condition} ({amount(condition, shows)} would show by now)")
    if not conditions and verdict.more is not None:
        early.append("the whole")
    return f"not enough data yet for {', '.join(early)}" if early else ""


def _is_blind(verdict: Verdict) -> bool:
    """Whether nothing tells how far a side varies, however small a change its numbers would show."""
    method = verdict.method
    return method.get("frequencies") == 0 and min(method.get("pod_groups") or [0]) == 1


def over(verdict: Verdict, now: float) -> bool:
    """Whether both ranges have ended and all their windows are there, so that waiting brings no more."""
    return all(side.until is not None and side.until + LATE_SECONDS < now for side in verdict.sides)


def wait(
    look: Callable[[], Verdict],
    conditions: tuple[Condition, ...],
    seconds: float,
    every: float,
    told: Progress,
    clock: Clock | None = None,
) -> Verdict:
    """Look until every condition can be judged, and at most so long; the verdict to judge.

    An answer that cannot be had is asked for again until the time is over; but for the first, and for a
    question that is refused: those are raised.
    """
    clock = clock or Clock()
    begin = clock.monotonic()
    verdict = look()
    while (left := begin + seconds - clock.monotonic()) > 0:
        why = lacking(verdict, conditions)
        if not why or verdict.direction == "not_comparable":
            break
        if over(verdict, clock.now()):
            told.note(f"{why}; the range has ended, so there will not be more")
            break
        told.show(f"{why}{_estimate(verdict)}", clock.monotonic() - begin, left)
        clock.sleep(min(every, left))
        try:
            verdict = look()
        except (Unreachable, Refused) as error:
            passing = isinstance(error, Unreachable) or error.status >= 500 or error.status == 429
            if not passing or begin + seconds <= clock.monotonic():
                raise
            told.note(f"{error.message}; asking again")
    told.end()
    return verdict


def _estimate(verdict: Verdict) -> str:
    more = verdict.more
    if more is None or verdict.unwatched:
        return ""
    if more.minutes is not None:
        return f"; about {minutes(more.minutes)} more"
    return f"; {plural(more.pods, 'pod')} of each side would do" if more.pods is not None else ""


class Progress:
    """One line that is written over on a terminal, else a line when something changes, and now and then."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._terminal = stream.isatty()
        self._clock = clock
        self._said = ""
        self._at = 0.0

    def show(self, what: str, waited: float, left: float) -> None:
        """Why it goes on, for how long it has, and for how long it may."""
        line = f"{visible(what)} (waited {length(waited)}, at most {length(left)} more)"
        if self._terminal:
            self._stream.write(f"\r\x1b[K{cut(line, get_terminal_size().columns - 1)}")
        elif what != self._said or self._clock() - self._at >= LINE_SECONDS:
            self._stream.write(f"{line}\n")
            self._said, self._at = what, self._clock()
        self._stream.flush()

    def note(self, text: str) -> None:
        """Something else to say, once."""
        self.end()
        if text != self._said:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        self._said = text

    def end(self) -> None:
        """Nothing more is written over."""
        if self._terminal:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


@contextmanager
def terminable() -> Iterator[None]:
    """Within, SIGTERM raises Terminated, at once and also inside a pause or an answer under way."""

    def raised(*_: object) -> NoReturn:
        raise Terminated

    if current_thread() is not main_thread():  # where no signal arrives
        yield
        return
    before = getsignal(SIGTERM)
    signal(SIGTERM, raised)
    try:
        yield
    finally:
        signal(SIGTERM, before)
