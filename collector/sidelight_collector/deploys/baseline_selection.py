"""Which time of the previous version a deploy is compared with.

    canary           the same time, where both versions ran: load and neighbours are the same on both sides
    same_hours       the same hours of the nearest earlier day of its kind on which the previous version ran
    previous_period  the time just before, as long as the other side

A day's own rhythm is in every load, so the first of these that can be had is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sidelight_collector.deploys.deploy import Deploy, Range, Rules, Span

MOST_DAYS: Final = 14
"""No earlier day than this is looked at."""
DAY_SECONDS: Final = 86_400.0
BOTH: Final = 0.5
"""Both versions must have run for this share of the new one's time to be compared as a canary."""
COVERED: Final = 0.8
"""The previous version must have run for this share of the hours of an earlier day."""
LEAST_SECONDS: Final = 60.0
_SATURDAY: Final = 5

Ran = Callable[[str, float, float], Span | None]
"""From when until when a version was seen in a range."""


@dataclass(frozen=True, slots=True)
class Sides:
    """What is compared: a range of time of the previous version and one of the new."""

    way: str
    baseline: Range
    comparison: Range


def sides(deploy: Deploy, offset: float, ran: Ran, rules: Rules) -> Sides | None:
    """The sides of the look at an offset; None where one version was not seen at all."""
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
        then = Range(wanted.start - days * DAY_SECONDS, wanted.until - days * DAY_SECONDS)
        theirs = ran(deploy.previous, then.start, then.until)
        if theirs is not None and theirs.last - theirs.first >= COVERED * wanted.seconds:
            return Sides("same_hours", then, wanted)
    return _before(deploy, wanted, ran)


def earlier_days(wanted: Range, first: float) -> Iterator[int]:
    """How many days earlier to look, in turn: days of the same kind (of the week, or its end) come first."""
    most = min(MOST_DAYS, int((wanted.start - first) // DAY_SECONDS))
    own = _is_weekend(wanted.start)
    days = range(1, most + 1)
    yield from sorted(days, key=lambda n: (_is_weekend(wanted.start - n * DAY_SECONDS) is not own, n))


def _is_weekend(unix: float) -> bool:
    """Whether a moment (Unix seconds) is on a Saturday or Sunday, in UTC."""
    return datetime.fromtimestamp(unix, UTC).weekday() >= _SATURDAY


def _before(deploy: Deploy, wanted: Range, ran: Ran) -> Sides | None:
    until = float(round(min(deploy.started, deploy.first_seen, deploy.previous_seen.last)))
    begin = until - wanted.seconds
    theirs = ran(deploy.previous, begin, until)
    if theirs is None:
        return None
    start = max(begin, float(int(theirs.first)))
    return Sides("previous_period", Range(start, until), wanted) if start < until else None
