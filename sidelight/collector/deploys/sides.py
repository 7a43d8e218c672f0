"""Which time of the previous version a deploy is compared with.

    canary   the same time, where both versions ran: load and neighbours are the same on both sides
    hours    the same hours of the nearest earlier day of the same kind on which the previous version ran
    before   the time just before, as long as the other side

A day's own rhythm is in every load, so the first of these that can be had is taken. The same hours can be had
where the previous version ran for long enough before them to tell how far the hours of such days differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from sidelight.collector.deploys.deploy import Deploy, Range, Rules, Span
from sidelight.verdicts.checks import is_weekend
from sidelight.verdicts.history import FEWEST, MOST

MOST_DAYS: Final = 14
"""No earlier day than this is looked at."""
DAY_SECONDS: Final = 86_400.0
BOTH: Final = 0.5
"""Both versions must have run for this share of the new one's time to be compared as a canary."""
COVERED: Final = 0.8
"""The previous version must have run for this share of the hours of an earlier day."""
LEAST_SECONDS: Final = 60.0
HOUR_SECONDS: Final = 3600.0

Ran = Callable[[str, float, float], Span | None]
"""From when until when a version was seen in a range."""


@dataclass(frozen=True, slots=True)
class Sides:
    """What is compared: a range of time of the previous version and one of the new."""

    way: str
    baseline: Range
    comparison: Range


def sides(deploy: Deploy, offset: float, ran: Ran, rules: Rules, ranges: int = MOST) -> Sides | None:
    """The sides of the look at an offset; None where one version was not seen at all. A verdict reads so many
    `ranges` before them."""
    start = deploy.first_seen + min(rules.warmup_seconds, offset / 4)
    mine = ran(deploy.version, start, deploy.first_seen + offset)
    if mine is None:
        return None
    # Whole seconds: what a link says can be asked for again exactly.
    wanted = Range(float(round(start)), float(round(deploy.first_seen + offset)))
    theirs = ran(deploy.previous, wanted.start, wanted.until)
    if theirs is not None:
        both = Range(
            max(wanted.start, float(round(theirs.first))), min(wanted.until, float(round(theirs.last)))
        )
        if both.seconds >= max(BOTH * wanted.seconds, LEAST_SECONDS):
            return Sides("canary", both, both)
    for days in earlier_days(wanted, deploy.previous_seen.first):
        if not _foretold(deploy, wanted, days * DAY_SECONDS, ranges, ran):
            continue
        then = Range(wanted.start - days * DAY_SECONDS, wanted.until - days * DAY_SECONDS)
        theirs = ran(deploy.previous, then.start, then.until)
        if theirs is not None and theirs.last - theirs.first >= COVERED * wanted.seconds:
            return Sides("hours", then, wanted)
    return _before(deploy, wanted, ran)


def _foretold(deploy: Deploy, wanted: Range, apart: float, ranges: int, ran: Ran) -> bool:
    """Whether what came before can tell how far ranges differ that lie so many seconds apart."""
    if wanted.seconds < HOUR_SECONDS and apart > ranges * wanted.seconds:
        return False
    begin = wanted.start - apart - max(apart, FEWEST * wanted.seconds)
    there = ran(deploy.previous, begin, begin + wanted.seconds)
    return there is not None and there.first <= begin + LEAST_SECONDS


def earlier_days(wanted: Range, first: float) -> Iterator[int]:
    """How many days earlier to look, in turn: days of the same kind (of the week, or its end) come first."""
    most = min(MOST_DAYS, int((wanted.start - first) // DAY_SECONDS))
    own = is_weekend(wanted.start)
    days = range(1, most + 1)
    yield from sorted(days, key=lambda n: (is_weekend(wanted.start - n * DAY_SECONDS) is not own, n))


def _before(deploy: Deploy, wanted: Range, ran: Ran) -> Sides | None:
    until = float(round(min(deploy.started, deploy.first_seen, deploy.previous_seen.last)))
    begin = until - wanted.seconds
    theirs = ran(deploy.previous, begin, until)
    if theirs is None:
        return None
    start = max(begin, float(int(theirs.first)))
    return Sides("before", Range(start, until), wanted) if start < until else None
