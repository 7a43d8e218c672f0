"""Choose the times over which two sides are compared.

    overlap  both sides ran together for ten minutes, or for a tenth of the shorter side's time
    rollout  equal spans directly before and after the comparison replaced the baseline
    latest   the latest equal span of each side

The first that applies is chosen. Times are whole minutes, so that answers can be cached, and no span is
longer than `MAX_SPAN_NS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from operator import itemgetter
from typing import Final

import numpy as np

from sidelight_collector.arrow_ops import I64
from sidelight_collector.query.select.observed_time import intersect_intervals, merge_pauses
from sidelight_collector.times import SECOND_NS

MINUTE_NS: Final = 60 * SECOND_NS
HOUR_NS: Final = 60 * MINUTE_NS
MAX_SPAN_NS: Final = 24 * HOUR_NS
"""Longest chosen span: a day has every hour of the load once."""
MIN_TOGETHER_NS: Final = 10 * MINUTE_NS
MIN_TOGETHER_SHARE: Final = 0.1
MAX_PAUSE_NS: Final = HOUR_NS
"""Sides that pause for longer ran together twice."""
MAX_ROLLOUT_GAP_NS: Final = 24 * HOUR_NS
"""Longest time between both sides that counts as a rollout."""


class RangeReason(StrEnum):
    """Why these times are compared."""

    GIVEN = "given"
    OVERLAP = "overlap"
    ROLLOUT = "rollout"
    LATEST = "latest"


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A time range in Unix nanoseconds, `until_ns` excluded."""

    from_ns: int
    until_ns: int

    @property
    def length_ns(self) -> int:
        return self.until_ns - self.from_ns


@dataclass(frozen=True, slots=True)
class RangePair:
    """The times of both sides."""

    baseline: TimeSpan
    comparison: TimeSpan


@dataclass(frozen=True, slots=True)
class RangeOptions:
    """The times that can be compared, None for options that do not apply.

    `overlap` is the whole time in which both sides ran, `whole` all time of each side.
    """

    overlap: TimeSpan | None
    rollout: RangePair | None
    latest: RangePair
    whole: RangePair

    def choose(self) -> tuple[RangeReason, RangePair]:
        """Return the first option that applies."""
        if self.overlap:
            span = limit_span(self.overlap)
            return RangeReason.OVERLAP, RangePair(span, span)
        if self.rollout:
            return RangeReason.ROLLOUT, self.rollout
        return RangeReason.LATEST, self.latest


def find_range_options(baseline: I64, comparison: I64) -> RangeOptions:
    """Find the times that can be compared.

    The arguments are rows of start and end (Unix ns) in which a side was observed, in order, disjoint and
    not empty.
    """
    return RangeOptions(
        find_overlap(baseline, comparison),
        _find_rollout(baseline, comparison),
        _fit_latest(baseline, comparison),
        RangePair(_measure_whole(baseline), _measure_whole(comparison)),
    )


def limit_span(span: TimeSpan) -> TimeSpan:
    """Return the last `MAX_SPAN_NS` of a span."""
    return TimeSpan(max(span.from_ns, span.until_ns - MAX_SPAN_NS), span.until_ns)


def find_overlap(baseline: I64, comparison: I64) -> TimeSpan | None:
    """Find the time in which both sides ran.

    None if they ran together for too short a time. Of several such times it is the longest, up to
    `MAX_SPAN_NS`, and of equal ones the last.
    """
    together = intersect_intervals(baseline, comparison)
    if not len(together):
        return None
    shorter_ns = min(_sum_lengths(baseline), _sum_lengths(comparison))
    periods = []
    for start, end in merge_pauses(together, MAX_PAUSE_NS).tolist():
        last = limit_span(TimeSpan(start, end))
        both_ns = _sum_lengths(np.clip(together, last.from_ns, last.until_ns))
        if both_ns >= min(MIN_TOGETHER_NS, MIN_TOGETHER_SHARE * shorter_ns):
            periods.append((both_ns, end, start))
    if not periods:
        return None
    _, end, start = max(periods)
    return TimeSpan(_floor_minute(start), ceil_minute(end))


def _find_rollout(baseline: I64, comparison: I64) -> RangePair | None:
    """Find equal spans before and after the comparison last replaced the baseline."""
    runs = sorted(
        (start, end, is_comparison)
        for is_comparison, intervals in enumerate((baseline, comparison))
        for start, end in merge_pauses(intervals, MIN_TOGETHER_NS).tolist()
    )
    # Runs of one side that no run of the other side interrupts count as one.
    phases = [list(phase) for _, phase in groupby(runs, key=itemgetter(2))]
    if not phases[-1][0][2]:
        phases.pop()
    if len(phases) < 2:
        return None
    before_end = max(end for _, end, _ in phases[-2])
    after_start = phases[-1][0][0]
    if after_start - before_end > MAX_ROLLOUT_GAP_NS:
        return None
    start_ns = _floor_minute(max(after_start, before_end))
    until_ns = min(ceil_minute(min(after_start, before_end)), start_ns)
    after_end = max(end for _, end, _ in phases[-1])
    longest_ns = min(until_ns - _floor_minute(phases[-2][0][0]), ceil_minute(after_end) - start_ns)
    span_ns = _shrink_span(
        longest_ns,
        lambda span_ns: _measure_backward(baseline, until_ns, span_ns),
        lambda span_ns: _measure_forward(comparison, start_ns, span_ns),
    )
    if span_ns <= 0:
        return None
    return RangePair(TimeSpan(until_ns - span_ns, until_ns), TimeSpan(start_ns, start_ns + span_ns))


def _fit_latest(baseline: I64, comparison: I64) -> RangePair:
    """Find the latest spans of both sides, equally long."""
    until_ns = [ceil_minute(int(intervals[-1, 1])) for intervals in (baseline, comparison)]
    longest_ns = min(_measure_whole(intervals).length_ns for intervals in (baseline, comparison))
    span_ns = _shrink_span(
        longest_ns,
        lambda span_ns: _measure_backward(baseline, until_ns[0], span_ns),
        lambda span_ns: _measure_backward(comparison, until_ns[1], span_ns),
    )
    first, second = (TimeSpan(end - span_ns, end) for end in until_ns)
    return RangePair(first, second)


def _shrink_span(longest_ns: int, *measures: Callable[[int], int]) -> int:
    """Return the longest span at whose far ends both sides were observed.

    It is at most `MAX_SPAN_NS`.
    """
    span_ns = min(longest_ns, MAX_SPAN_NS)
    while span_ns > 0 and (observed_ns := min(measure(span_ns) for measure in measures)) < span_ns:
        span_ns = observed_ns
    return span_ns


def _measure_backward(intervals: I64, until_ns: int, span_ns: int) -> int:
    """Return how long before `until_ns` a side was first observed, at most `span_ns`."""
    within = np.clip(intervals, until_ns - span_ns, until_ns)
    starts = within[within[:, 1] > within[:, 0], 0]
    return until_ns - _floor_minute(int(starts[0])) if len(starts) else 0


def _measure_forward(intervals: I64, from_ns: int, span_ns: int) -> int:
    """Return how long after `from_ns` a side was last observed, at most `span_ns`."""
    within = np.clip(intervals, from_ns, from_ns + span_ns)
    ends = within[within[:, 1] > within[:, 0], 1]
    return ceil_minute(int(ends[-1])) - from_ns if len(ends) else 0


def _measure_whole(intervals: I64) -> TimeSpan:
    return TimeSpan(_floor_minute(int(intervals[0, 0])), ceil_minute(int(intervals[-1, 1])))


def _sum_lengths(intervals: I64) -> int:
    return int((intervals[:, 1] - intervals[:, 0]).sum())


def _floor_minute(time_ns: int) -> int:
    return time_ns // MINUTE_NS * MINUTE_NS


def ceil_minute(time_ns: int) -> int:
    """Round up to a whole minute."""
    return -(-time_ns // MINUTE_NS) * MINUTE_NS
