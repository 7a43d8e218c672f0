"""The fields of requests: times, types, selectors and limits, checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sidelight_collector.answers.grouped_series import SeriesLimits
from sidelight_collector.http.api.parameters import QueryScope, check_range
from sidelight_collector.http.pyroscope.messages import AGGREGATIONS, PROFILE_FORMATS
from sidelight_collector.http.pyroscope.selector_mapping import (
    MappedSelector,
    map_selectors,
    parse_profile_type_id,
)
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.stack_filter import NO_FILTER, StackFilter, build_focus
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import MAX_TIME_NS, SECOND_NS
from sidelight_model.counts import ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.selectors import Selector
from sidelight_model.tree import ROOT_NAME

MS_NS: Final = 1_000_000
DEFAULT_RANGE_NS: Final = 3600 * SECOND_NS
FLAME_GRAPH_FORMATS: Final = (0, 1)
PPROF_FORMAT: Final = 4
MAX_LABELS: Final = 64
"""The most labels of a series in a response."""


class Unimplemented(SidelightError):
    """The collector has no such method, or cannot answer in this format."""

    reason = Reason.NOT_IMPLEMENTED


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """A request for one profile type; `selector` is parsed in the query's thread."""

    kind: ProfileType
    selector_text: str
    span: tuple[int, int]

    @classmethod
    def parse(cls, message: Mapping[str, Any], scope: QueryScope) -> ProfileRequest:
        """Read the fields that all such requests have. Raises BadParameter."""
        for name in ("profile_id_selector", "trace_id_selector", "span_selector"):
            if message.get(name):
                raise BadParameter(
                    f"{name} cannot be used: the collector stores no single profiles and spans",
                    hint="Select by labels.",
                )
        kind = parse_profile_type_id(message.get("profile_typeID", ""))
        return cls(kind, message.get("label_selector", ""), parse_range(message, scope))

    def build_query(self, scope: QueryScope) -> WindowQuery:
        """Parse the selector. Raises BadSelector."""
        return build_window_query(scope, map_selectors([self.selector_text]).for_kind(self.kind), self.span)


@dataclass(frozen=True, slots=True)
class LabelRequest:
    """A request for labels of the windows that matchers select."""

    matchers: tuple[str, ...]
    span: tuple[int, int]

    @classmethod
    def parse(cls, message: Mapping[str, Any], scope: QueryScope) -> LabelRequest:
        """Read `matchers`, `start` and `end`. Raises BadParameter."""
        return cls(tuple(message.get("matchers", ())), parse_range(message, scope))

    def build_query(self, scope: QueryScope) -> tuple[MappedSelector, WindowQuery]:
        """Parse the matchers. Raises BadSelector.

        Labels are of windows: matchers on `endpoint`, which select stacks, do not narrow them.
        """
        mapped = map_selectors(self.matchers)
        return mapped, build_window_query(scope, mapped.selector, self.span).drop_endpoints()


def parse_range(message: Mapping[str, Any], scope: QueryScope) -> tuple[int, int]:
    """Return the range of `start` and `end`: by default the last hour.

    Raises BadParameter.
    """
    end_ns = _parse_time(message, "end") or scope.now_ns
    start_ns = _parse_time(message, "start") or max(end_ns - DEFAULT_RANGE_NS, 0)
    check_range(start_ns, end_ns, scope.limits, ("start", "end"))
    return start_ns, end_ns


def build_window_query(scope: QueryScope, selector: Selector, span: tuple[int, int]) -> WindowQuery:
    """Build the query for windows of a selector that the client may read."""
    return WindowQuery(selector & scope.required, *span)


def parse_max_nodes(message: Mapping[str, Any], limits: QueryLimits) -> int:
    """Return the number of nodes to draw; without one, that of the query API."""
    nodes: int = message.get("max_nodes") or limits.default_nodes
    return min(nodes, limits.max_nodes) if nodes > 0 else limits.max_nodes


def parse_format(message: Mapping[str, Any]) -> bool:
    """Return whether a profile is to be in pprof.

    Raises Unimplemented for a format that is neither pprof nor a flame graph.
    """
    number = message.get("format", 0)
    if number in FLAME_GRAPH_FORMATS:
        return False
    if number == PPROF_FORMAT:
        return True
    name = PROFILE_FORMATS[number] if 0 <= number < len(PROFILE_FORMATS) else "this format"
    raise Unimplemented(
        f"{name} is not available",
        hint=f"Use {PROFILE_FORMATS[FLAME_GRAPH_FORMATS[1]]} or {PROFILE_FORMATS[PPROF_FORMAT]}.",
    )


def parse_call_site(message: Mapping[str, Any]) -> StackFilter:
    """Return the filter of stacks below a call site. Raises BadParameter."""
    selector = message.get("stack_trace_selector") or {}
    if "go_pgo" in selector:
        raise BadParameter("go_pgo cannot be used: these are profiles of Python", hint="Leave it out.")
    names = [location.get("name", "") for location in selector.get("call_site", ())]
    if names[:1] == [ROOT_NAME]:
        del names[0]
    return StackFilter(focus=build_focus(names)) if names else NO_FILTER


def parse_step_ns(seconds: float) -> int | None:
    """Return the length of a step; None for zero: the collector chooses it.

    Raises BadParameter.
    """
    if not (math.isfinite(seconds) and 0 <= seconds * SECOND_NS <= MAX_TIME_NS):
        raise BadParameter.invalid_value("step", str(seconds), "a number of seconds")
    return max(round(seconds * 1000), 1) * MS_NS if seconds else None


def check_aggregation(number: int) -> None:
    """Raise BadParameter for another aggregation than the sum."""
    if number:
        raise BadParameter(
            f"{AGGREGATIONS[1]} cannot be used: a point is the time sampled in its step",
            hint=f"Use {AGGREGATIONS[0]}.",
        )


def parse_label_names(message: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """Return the label names of a field, each once. Raises BadParameter for too many."""
    names = tuple(dict.fromkeys(message.get(field, ())))
    if len(names) > MAX_LABELS:
        raise BadParameter(f"{field} has {len(names)} labels", hint=f"Use at most {MAX_LABELS}.")
    return names


def parse_limit(message: Mapping[str, Any]) -> int | None:
    """Return the most series of a response; None without a limit. Raises BadParameter."""
    limit: int = message.get("limit", 0)
    if limit < 0:
        raise BadParameter.invalid_value("limit", str(limit), "a whole number above 0")
    return limit or None


def check_same_type(left: ProfileType, right: ProfileType) -> None:
    """Raise BadParameter if two sides have different profile types."""
    if left is not right:
        raise BadParameter(
            f"the left side has the type {left} and the right side {right}",
            hint="Compare profiles of one type.",
        )


def build_series_limits(limits: QueryLimits) -> SeriesLimits:
    """Return the limits of time series: those of a heatmap."""
    return SeriesLimits(limits.max_points, limits.max_rows, limits.max_cells)


def _parse_time(message: Mapping[str, Any], name: str) -> int:
    ms: int = message.get(name, 0)
    if not 0 <= ms * MS_NS <= MAX_TIME_NS:
        raise BadParameter.invalid_value(name, str(ms), "a time in milliseconds since the epoch")
    return ms * MS_NS
