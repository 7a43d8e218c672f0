"""Both sides of a comparison, with selectors and times that a request lacks.

Without any time in the request, times are chosen within a lookback, from hourly rollups where there are any.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sidelight_collector.comparison.sides.range_choice import (
    HOUR_NS,
    RangePair,
    TimeSpan,
    ceil_minute,
    find_overlap,
    find_range_options,
)
from sidelight_collector.comparison.sides.range_statement import (
    RangeStatement,
    state_chosen_ranges,
    state_given_ranges,
    state_missing_side,
)
from sidelight_collector.comparison.sides.version_choice import VersionChoice, choose_versions
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.observed_time import list_observed_intervals
from sidelight_collector.query.select.window_query import select_side_windows
from sidelight_collector.query.windows import SelectedWindows, WindowQuery
from sidelight_model.selectors import Selector


@dataclass(frozen=True, slots=True)
class SidesRequest:
    """Two sides as requested, None where the collector chooses.

    Both selectors apply in addition to `query`. `has_own_times` says whether a side has times of its own:
    then a missing selector selects all of `query`. `lookback` is where to look for times and versions.
    """

    query: Selector
    baseline: Selector | None
    comparison: Selector | None
    ranges: RangePair | None
    has_own_times: bool
    lookback: TimeSpan

    @property
    def searched_span(self) -> TimeSpan:
        """Where to search: in the time of both sides if given, else the lookback."""
        return self.ranges.baseline if self.ranges and not self.has_own_times else self.lookback

    @property
    def is_complete(self) -> bool:
        """Whether the request leaves nothing to choose."""
        has_selectors = self.baseline is not None and self.comparison is not None
        return self.ranges is not None and (self.has_own_times or has_selectors)


@dataclass(frozen=True, slots=True)
class SideChoice:
    """The queries of both sides; `ranges` is None if the request gives the times."""

    sides: list[WindowQuery]
    ranges: RangeStatement | None
    versions: VersionChoice


def build_lookback(now_ns: int, length_ns: int) -> TimeSpan:
    """Build the lookback: whole minutes until now.

    It begins at a whole hour, if it contains one.
    """
    until_ns = ceil_minute(now_ns)
    from_ns = until_ns - length_ns
    # An hour that begins in the range is read from its rollup.
    first_hour = -(-from_ns // HOUR_NS) * HOUR_NS
    return TimeSpan(first_hour if first_hour < until_ns else from_ns, until_ns)


def choose_sides(context: QueryContext, request: SidesRequest) -> SideChoice:
    """Choose what a request for two sides leaves open.

    Raises BadParameter if a side without a selector has no version, or several.
    """
    look = request.searched_span
    versions = VersionChoice()
    if not request.has_own_times:
        versions = choose_versions(
            context,
            WindowQuery(request.query, look.from_ns, look.until_ns),
            request.baseline,
            request.comparison,
        )
    selectors = [
        request.query & (given if given is not None else versions.selectors.get(name, Selector()))
        for name, given in (("baseline", request.baseline), ("comparison", request.comparison))
    ]
    if request.ranges:
        return SideChoice(_build_queries(selectors, request.ranges), None, versions)
    queries = _build_queries(selectors, RangePair(look, look))
    observed = [list_observed_intervals(windows) for windows in _select_observed(context, queries)]
    for selector, intervals in zip(selectors, observed, strict=True):
        if not len(intervals):
            span = TimeSpan(max(look.from_ns, look.until_ns - HOUR_NS), look.until_ns)
            statement = state_missing_side(str(selector), look.from_ns, span, versions.text)
            return SideChoice(_build_queries(selectors, RangePair(span, span)), statement, versions)
    options = find_range_options(*observed)
    _, ranges = options.choose()
    statement = state_chosen_ranges(options, versions.text, _to_parameters(versions))
    return SideChoice(_build_queries(selectors, ranges), statement, versions)


def describe_ranges(
    context: QueryContext, choice: SideChoice, *, offers_overlap: bool = True
) -> RangeStatement:
    """State the times of both sides.

    Windows are read only if the request gives the times. With `offers_overlap` the time in which both ran is
    an alternative. It is none where the comparison is cut to it, or where request counts are of other times.
    """
    if choice.ranges is not None:
        return choice.ranges
    observed = (list_observed_intervals(windows) for windows in _select_observed(context, choice.sides))
    spans = RangePair(*(TimeSpan(side.from_ns, side.until_ns) for side in choice.sides))
    return state_given_ranges(
        spans,
        find_overlap(*observed) if offers_overlap else None,
        choice.versions.text,
        _to_parameters(choice.versions),
    )


def _select_observed(context: QueryContext, sides: Sequence[WindowQuery]) -> list[SelectedWindows]:
    """Select the windows of both sides, whatever their stacks."""
    return select_side_windows(context, [side.drop_endpoints() for side in sides], with_stacks=False)


def _build_queries(selectors: list[Selector], ranges: RangePair) -> list[WindowQuery]:
    spans = (ranges.baseline, ranges.comparison)
    return [
        WindowQuery(selector, span.from_ns, span.until_ns)
        for selector, span in zip(selectors, spans, strict=True)
    ]


def _to_parameters(versions: VersionChoice) -> Mapping[str, str]:
    return {name: str(selector) for name, selector in versions.selectors.items()}
