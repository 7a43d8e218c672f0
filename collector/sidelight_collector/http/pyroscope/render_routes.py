"""Pyroscope's older read API: flame graphs as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

from aiohttp import web

from sidelight_collector.answers.grouped_series import GroupedSeries, LabelledSeries, SeriesLimits
from sidelight_collector.auth.authorizer import RENDER_PATHS
from sidelight_collector.http.api.answer_cache import CacheableQuery
from sidelight_collector.http.api.api_handler import (
    ApiHandler,
    build_cacheable_query,
    build_engine_headers,
)
from sidelight_collector.http.api.parameters import (
    QueryScope,
    check_range,
    parse_count,
    read_single_values,
)
from sidelight_collector.http.api.responses import (
    EncodedResponse,
    accepts_gzip,
    encode_json_response,
)
from sidelight_collector.http.pyroscope.answers import draw_bars, find_label_values, group_series
from sidelight_collector.http.pyroscope.flamebearer import Flamebearer
from sidelight_collector.http.pyroscope.query_requests import (
    ProfileRequest,
    Unimplemented,
    build_series_limits,
    build_window_query,
    check_aggregation,
    check_same_type,
)
from sidelight_collector.http.pyroscope.selector_mapping import (
    PROFILE_TYPE_LABEL,
    map_selectors,
    parse_profile_type_id,
    to_window_label,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.stack_filter import NO_FILTER
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS, parse_time
from sidelight_model.counts import ProfileType

RENDER, RENDER_DIFF, LABEL_VALUES = RENDER_PATHS
_NODES: Final = ("max-nodes", "maxNodes")
PARAMETERS: Final[Mapping[str, Sequence[str]]] = {
    RENDER: ("query", "from", "until", "format", *_NODES, "groupBy", "aggregation"),
    RENDER_DIFF: (
        *("leftQuery", "leftFrom", "leftUntil"),
        *("rightQuery", "rightFrom", "rightUntil"),
        *("format", *_NODES),
    ),
    LABEL_VALUES: ("label", "query", "from", "until"),
}
"""The query parameters of each path; any other is refused."""
TICKS_PER_SECOND: Final = SECOND_NS


class RenderApi(ApiHandler):
    """The handlers of the paths below /pyroscope."""

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get(RENDER, self.render),
            web.get(RENDER_DIFF, self.render_diff),
            web.get(LABEL_VALUES, self.label_values),
        ]

    async def render(self, request: web.Request) -> web.Response:
        """Respond with the flame graph and the timeline of one profile type."""
        scope = self.build_scope(request)
        given = read_single_values(request.query, PARAMETERS[RENDER])
        profile = _parse_side(given, scope, ("query", "from", "until"))
        _check_format(given)
        check_aggregation({"": 0, "sum": 0}.get(given.get("aggregation", ""), 1))
        make = partial(
            render_profile,
            kind=profile.kind,
            nodes=_parse_nodes(given, scope),
            max_nodes=scope.limits.max_nodes,
            group_by=given.get("groupBy", ""),
            limits=build_series_limits(scope.limits),
        )
        return await self.respond(request, lambda: partial(make, sides=[profile.build_query(scope)]))

    async def render_diff(self, request: web.Request) -> web.Response:
        """Respond with the flame graph of two sides."""
        scope = self.build_scope(request)
        given = read_single_values(request.query, PARAMETERS[RENDER_DIFF])
        _check_format(given)
        left, right = (
            _parse_side(given, scope, (f"{side}Query", f"{side}From", f"{side}Until"))
            for side in ("left", "right")
        )
        check_same_type(left.kind, right.kind)
        make = partial(
            render_diff,
            kind=left.kind,
            nodes=_parse_nodes(given, scope),
            max_nodes=scope.limits.max_nodes,
        )
        return await self.respond(
            request, lambda: partial(make, sides=[side.build_query(scope) for side in (left, right)])
        )

    async def label_values(self, request: web.Request) -> web.Response:
        """Respond with the values of a label; of `__name__`, ids of profile types."""
        scope, gzip = self.build_scope(request), accepts_gzip(request)
        given = read_single_values(request.query, PARAMETERS[LABEL_VALUES])
        label = given.get("label", "")
        if not label:
            raise BadParameter("label is missing", hint="Name a label: label=service_name.")
        name = PROFILE_TYPE_LABEL if label == "__name__" else label
        span = _parse_span(given, scope, ("from", "until"))

        def build_query(_: QueryContext) -> CacheableQuery:
            mapped = map_selectors([given.get("query", "")])
            query = build_window_query(scope, mapped.selector, span).drop_endpoints()
            make = partial(find_label_values, query=query, name=name, kinds=mapped.kinds)

            def compute(context: QueryContext) -> EncodedResponse:
                values: Any = make(context)["names"]
                return encode_json_response(values, gzip=gzip, headers=build_engine_headers(context))

            return build_cacheable_query(make, gzip, compute, "list")

        return (await self._answers.get(build_query, request)).to_response(request)


def render_profile(
    context: QueryContext,
    sides: Sequence[WindowQuery],
    kind: ProfileType,
    nodes: int,
    max_nodes: int,
    group_by: str,
    limits: SeriesLimits,
) -> Mapping[str, object]:
    """Build the flame graph and timeline of one side, and timelines by a label."""
    bars = draw_bars(context, sides, kind, nodes, max_nodes, NO_FILTER)
    whole = group_series(context, sides[0], kind, (), None, limits)
    groups: dict[str, object] | None = None
    if group_by:
        grouped = group_series(context, sides[0], kind, (group_by,), whole.step_ns, limits)
        label = to_window_label(group_by)
        groups = {one.labels.get(label, ""): _build_timeline(grouped, [one]) for one in grouped.series}
    return {
        **_build_profile(kind, "single"),
        "flamebearer": _build_flamebearer(bars, bars.totals[0]),
        "timeline": _build_timeline(whole, whole.series),
        "groups": groups,
        "heatmap": None,
    }


def render_diff(
    context: QueryContext, sides: Sequence[WindowQuery], kind: ProfileType, nodes: int, max_nodes: int
) -> Mapping[str, object]:
    """Build the flame graph of two sides."""
    bars = draw_bars(context, sides, kind, nodes, max_nodes, NO_FILTER)
    left, right = bars.totals
    return {
        **_build_profile(kind, "double"),
        "flamebearer": _build_flamebearer(bars, left + right),
        "timeline": None,
        "groups": None,
        "heatmap": None,
        "leftTicks": left,
        "rightTicks": right,
    }


def _build_profile(kind: ProfileType, form: str) -> dict[str, object]:
    metadata = {
        "format": form,
        "spyName": "",
        "sampleRate": TICKS_PER_SECOND,
        "units": "samples",
        "name": kind.value,
    }
    return {"version": 1, "metadata": metadata}


def _build_flamebearer(bars: Flamebearer, ticks: int) -> dict[str, object]:
    return {"names": bars.names, "levels": bars.levels, "numTicks": ticks, "maxSelf": bars.max_self}


def _build_timeline(answer: GroupedSeries, series: Sequence[LabelledSeries]) -> dict[str, object]:
    samples = [0] * answer.steps
    for one in series:
        for at, ns in one.points.items():
            samples[at] += ns
    return {
        "startTime": answer.first_step * answer.step_ns // SECOND_NS,
        "samples": samples,
        "durationDelta": answer.step_ns // SECOND_NS,
        "watermarks": None,
    }


def _parse_side(given: Mapping[str, str], scope: QueryScope, names: tuple[str, str, str]) -> ProfileRequest:
    """Parse a profile type with a selector behind it, and a range."""
    query, start, end = names
    type_id, brace, selector = given.get(query, "").partition("{")
    kind = parse_profile_type_id(type_id.strip(), query)
    return ProfileRequest(kind, brace + selector, _parse_span(given, scope, (start, end)))


def _parse_span(given: Mapping[str, str], scope: QueryScope, names: tuple[str, str]) -> tuple[int, int]:
    start, end = names
    span = (
        parse_time(given.get(start, "now-1h"), parameter=start, now_ns=scope.now_ns),
        parse_time(given.get(end, "now"), parameter=end, now_ns=scope.now_ns),
    )
    check_range(*span, scope.limits, names)
    return span


def _parse_nodes(given: Mapping[str, str], scope: QueryScope) -> int:
    if all(name in given for name in _NODES):
        raise BadParameter.duplicate(_NODES[0])
    for name in _NODES:
        if name in given:
            return min(parse_count(name, given[name], scope.limits.default_nodes), scope.limits.max_nodes)
    return scope.limits.default_nodes


def _check_format(given: Mapping[str, str]) -> None:
    if given.get("format", "json") != "json":
        raise Unimplemented(f"format={given['format'][:80]!r} is not available", hint="Use format=json.")
