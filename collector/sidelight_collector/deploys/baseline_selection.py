"""Selects the time of the previous version that a deploy is compared with.

    canary           the same time, if both versions ran: load and neighbours are the same on both sides
    same_hours       the same hours of an earlier day on which the previous version ran
    previous_period  the time just before, as long as the new version's

Load follows the time of day, so the first of these that is available is used. Of earlier days, the nearest
one of the same kind (weekday or weekend) comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from sidelight_collector.deploys.deploy import Deploy, DeployPolicy, TimeRange
from sidelight_collector.times import ObservedSpan

MAX_DAYS_BACK: Final = 14
"""Maximum number of days between the two sides."""
DAY_SECONDS: Final = 86_400.0
MIN_CANARY_OVERLAP: Final = 0.5
"""A canary needs both versions for this share of the new version's time."""
MIN_COVERAGE: Final = 0.8
"""The previous version must have run for this share of an earlier day's hours."""
MIN_SECONDS: Final = 60.0
_SATURDAY: Final = 5

SpanFinder = Callable[[str, float, float], ObservedSpan | None]
"""Finds when a version was first and last seen in a time range."""


@dataclass(frozen=True, slots=True)
class DeploySides:
    """The two sides of a comparison: a time range of each version."""

    comparison_mode: str
    baseline: TimeRange
    comparison: TimeRange


def select_sides(
    deploy: Deploy, offset: float, find_span: SpanFinder, policy: DeployPolicy
) -> DeploySides | None:
    """Select the sides of the analysis at an offset (seconds).

    None if there are no windows of one of the versions.
    """
    start = deploy.first_seen + min(policy.warmup_seconds, offset / 4)
    comparison_span = find_span(deploy.version, start, deploy.first_seen + offset)
    if comparison_span is None:
        return None
    # Links have whole seconds, and must give the same comparison again.
    comparison = TimeRange(float(round(start)), float(round(deploy.first_seen + offset)))
    baseline_span = find_span(deploy.previous, comparison.start, comparison.until)
    if baseline_span is not None:
        overlap = TimeRange(
            max(comparison.start, float(round(baseline_span.first))),
            min(comparison.until, float(round(baseline_span.last))),
        )
        if overlap.seconds >= max(MIN_CANARY_OVERLAP * comparison.seconds, MIN_SECONDS):
            return DeploySides("canary", overlap, overlap)
    for days in list_earlier_days(comparison, deploy.previous_seen.first):
        earlier = TimeRange(comparison.start - days * DAY_SECONDS, comparison.until - days * DAY_SECONDS)
        baseline_span = find_span(deploy.previous, earlier.start, earlier.until)
        if (
            baseline_span is not None
            and baseline_span.last - baseline_span.first >= MIN_COVERAGE * comparison.seconds
        ):
            return DeploySides("same_hours", earlier, comparison)
    return _select_previous_period(deploy, comparison, find_span)


def list_earlier_days(comparison: TimeRange, earliest: float) -> Iterator[int]:
    """Yield how many days to go back, in order of preference.

    Days of the same kind (weekday or weekend) come first, then nearer days.
    """
    max_days = min(MAX_DAYS_BACK, int((comparison.start - earliest) // DAY_SECONDS))
    is_weekend_day = _is_weekend(comparison.start)
    days = range(1, max_days + 1)
    yield from sorted(
        days, key=lambda n: (_is_weekend(comparison.start - n * DAY_SECONDS) is not is_weekend_day, n)
    )


def _is_weekend(unix: float) -> bool:
    """Return whether a time (Unix seconds) is on a Saturday or Sunday, in UTC."""
    return datetime.fromtimestamp(unix, UTC).weekday() >= _SATURDAY


def _select_previous_period(
    deploy: Deploy, comparison: TimeRange, find_span: SpanFinder
) -> DeploySides | None:
    until = float(round(min(deploy.started, deploy.first_seen, deploy.previous_seen.last)))
    begin = until - comparison.seconds
    baseline_span = find_span(deploy.previous, begin, until)
    if baseline_span is None:
        return None
    start = max(begin, float(int(baseline_span.first)))
    return DeploySides("previous_period", TimeRange(start, until), comparison) if start < until else None
