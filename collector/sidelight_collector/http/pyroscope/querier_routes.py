"""The methods of `querier.v1.QuerierService`, which Grafana calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from aiohttp import web

from sidelight_collector.auth.authorizer import QUERIER_PREFIX, get_principal
from sidelight_collector.http.api.answer_cache import CacheableQuery
from sidelight_collector.http.api.api_handler import (
    ApiContext,
    ApiHandler,
    build_cacheable_query,
    build_engine_headers,
)
from sidelight_collector.http.api.parameters import QueryScope
from sidelight_collector.http.api.responses import EncodedResponse
from sidelight_collector.http.pyroscope import messages
from sidelight_collector.http.pyroscope.answers import (
    draw_flame_graph,
    find_label_names,
    find_label_values,
    find_profile_stats,
    find_series,
    merge_profile,
    select_series,
    wrap_pprof,
)
from sidelight_collector.http.pyroscope.connect_protocol import build_response, limit_time, read_call
from sidelight_collector.http.pyroscope.message_codec import Message, Schema
from sidelight_collector.http.pyroscope.query_requests import (
    LabelRequest,
    ProfileRequest,
    Unimplemented,
    build_series_limits,
    build_window_query,
    check_aggregation,
    check_same_type,
    parse_call_site,
    parse_format,
    parse_label_names,
    parse_limit,
    parse_max_nodes,
    parse_range,
    parse_step_ns,
)
from sidelight_collector.http.pyroscope.selector_mapping import list_profile_types
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.times import SECOND_NS
from sidelight_model.selectors import Selector

OTHER_METHODS: Final = r"/{service:[a-z]+\.v\d\w*\.[A-Za-z]+}/{method:[A-Za-z]+}"
"""Every other method of the Connect protocol, also those of other services."""
_HOUR_NS: Final = 3600 * SECOND_NS
_DAY_NS: Final = 24 * _HOUR_NS

BuildAnswer = Callable[[], "partial[Any]"]
"""Parses selectors and call sites in the query's thread, and returns what computes the answer."""
Plan = Callable[[Mapping[str, Any], QueryScope], "BuildAnswer | Message"]
"""Checks a request, and returns how it is answered."""


@dataclass(frozen=True, slots=True)
class Method:
    """A method: the fields of its messages, and how its requests are answered."""

    request: Schema
    response: Schema
    plan: Plan


def plan_profile_types(message: Mapping[str, Any], scope: QueryScope) -> Message:
    """List the profile types, which are the same for all windows."""
    parse_range(message, scope)
    return {"profile_types": list_profile_types()}


def plan_label_names(message: Mapping[str, Any], scope: QueryScope) -> BuildAnswer:
    request = LabelRequest.parse(message, scope)
    return lambda: partial(find_label_names, query=request.build_query(scope)[1])


def plan_label_values(message: Mapping[str, Any], scope: QueryScope) -> BuildAnswer:
    request, name = LabelRequest.parse(message, scope), message.get("name", "")
    if not name:
        raise BadParameter("name is missing", hint="Name a label, such as service_name.")

    def build() -> partial[Message]:
        mapped, query = request.build_query(scope)
        return partial(find_label_values, query=query, name=name, kinds=mapped.kinds)

    return build


def plan_series(message: Mapping[str, Any], scope: QueryScope) -> BuildAnswer:
    request = LabelRequest.parse(message, scope)
    names = parse_label_names(message, "label_names")

    def build() -> partial[Message]:
        mapped, query = request.build_query(scope)
        return partial(
            find_series, query=query, names=names, kinds=mapped.kinds, max_sets=scope.limits.max_rows
        )

    return build


def plan_select_series(message: Mapping[str, Any], scope: QueryScope) -> BuildAnswer:
    request = ProfileRequest.parse(message, scope)
    check_aggregation(message.get("aggregation", 0))
    make = partial(
        select_series,
        kind=request.kind,
        group_by=parse_label_names(message, "group_by"),
        step_ns=parse_step_ns(message.get("step", 0.0)),
        limits=build_series_limits(scope.limits),
        top=parse_limit(message),
    )

    def build() -> partial[Message]:
        if not parse_call_site(message).accepts_all:
            raise BadParameter(
                "stack_trace_selector cannot be used: series are of all stacks",
                hint="Use SelectMergeStacktraces, or leave it out.",
            )
        return partial(make, query=request.build_query(scope))

    return build


def plan_merge_stack_traces(message: Mapping[str, Any], scope: QueryScope) -> BuildAnswer:
    if parse_format(message):
        return _plan_profile(message, scope, wrap_pprof)
    request = ProfileRequest.parse(message, scope)
    make = partial(
        draw_flame_graph,
        kind=request.kind,
        nodes=parse_max_nodes(message, scope.limits),
        max_nodes=scope.limits.max_nodes,
    )
    return lambda: partial(make, sides=[request.build_query(scope)], stack_filter=parse_call_site(message))


def plan_merge_profile(message: Mapping[str, Any], scope: QueryScope) -> BuildAnswer:
    return _plan_profile(message, scope, merge_profile)


def _plan_profile(
    message: Mapping[str, Any], scope: QueryScope, compute: Callable[..., Message | bytes]
) -> BuildAnswer:
    request = ProfileRequest.parse(message, scope)
    make = partial(compute, kind=request.kind, max_frames=scope.limits.max_export_frames)
    return lambda: partial(make, sides=[request.build_query(scope)], stack_filter=parse_call_site(message))


def plan_diff(message: Mapping[str, Any], scope: QueryScope) -> BuildAnswer:
    left, right = (message.get(side) or {} for side in ("left", "right"))
    requests = [ProfileRequest.parse(side, scope) for side in (left, right)]
    check_same_type(*(request.kind for request in requests))
    make = partial(
        draw_flame_graph,
        kind=requests[0].kind,
        nodes=max(parse_max_nodes(side, scope.limits) for side in (left, right)),
        max_nodes=scope.limits.max_nodes,
    )

    def build() -> partial[Message]:
        filters = {parse_call_site(side) for side in (left, right)}
        if len(filters) > 1:
            raise BadParameter(
                "both sides must have the same call site", hint="Leave stack_trace_selector out."
            )
        sides = [request.build_query(scope) for request in requests]
        return partial(make, sides=sides, stack_filter=filters.pop())

    return build


def plan_profile_stats(_: Mapping[str, Any], scope: QueryScope) -> BuildAnswer:
    """Search the longest range of a query, in whole hours so that answers are cached."""
    end_ns = -(-scope.now_ns // _HOUR_NS) * _HOUR_NS
    start_ns = max(end_ns - int(scope.limits.max_range_days * _DAY_NS), 0)
    query = build_window_query(scope, Selector(), (start_ns, end_ns))
    return lambda: partial(find_profile_stats, query=query)


METHODS: Final[Mapping[str, Method]] = {
    "ProfileTypes": Method(messages.RANGE_REQUEST, messages.PROFILE_TYPES_RESPONSE, plan_profile_types),
    "LabelNames": Method(messages.LABEL_NAMES_REQUEST, messages.NAMES_RESPONSE, plan_label_names),
    "LabelValues": Method(messages.LABEL_VALUES_REQUEST, messages.NAMES_RESPONSE, plan_label_values),
    "Series": Method(messages.SERIES_REQUEST, messages.SERIES_RESPONSE, plan_series),
    "SelectSeries": Method(
        messages.SELECT_SERIES_REQUEST, messages.SELECT_SERIES_RESPONSE, plan_select_series
    ),
    "SelectMergeStacktraces": Method(
        messages.SELECT_STACKTRACES_REQUEST, messages.SELECT_STACKTRACES_RESPONSE, plan_merge_stack_traces
    ),
    "SelectMergeProfile": Method(messages.SELECT_PROFILE_REQUEST, messages.PROFILE, plan_merge_profile),
    "Diff": Method(messages.DIFF_REQUEST, messages.DIFF_RESPONSE, plan_diff),
    "GetProfileStats": Method(messages.EMPTY, messages.PROFILE_STATS_RESPONSE, plan_profile_stats),
}
"""The methods that the collector answers."""


class QuerierApi(ApiHandler):
    """The handlers of all methods."""

    def __init__(self, context: ApiContext, body_reader: BodyReader) -> None:
        super().__init__(context)
        self._body_reader = body_reader

    def routes(self) -> list[web.RouteDef]:
        """Return the routes of all methods; the last one refuses any other."""
        return [
            *(web.post(f"{QUERIER_PREFIX}{name}", partial(self._answer, name)) for name in METHODS),
            web.post(OTHER_METHODS, self._refuse),
        ]

    async def _answer(self, name: str, request: web.Request) -> web.Response:
        method, scope = METHODS[name], self.build_scope(request)
        async with limit_time(request):
            call = await read_call(request, method.request, self._body_reader)
            plan = method.plan(call.message, scope)
            if isinstance(plan, Mapping):
                return build_response(call.encode(method.response, plan, {}))

            def build_query(_: QueryContext) -> CacheableQuery:
                make = plan()

                def compute(context: QueryContext) -> EncodedResponse:
                    return call.encode(method.response, make(context), build_engine_headers(context))

                return build_cacheable_query(make, call.gzip, compute, f"{name} {call.content_type}")

            return build_response(await self._answers.get(build_query, request))

    async def _refuse(self, request: web.Request) -> web.Response:
        get_principal(request)  # The answer tells nothing of any namespace.
        service, method = request.match_info["service"], request.match_info["method"]
        raise Unimplemented(
            f"the collector has no method {service[:80]}/{method[:80]}",
            hint=f"The methods of {QUERIER_PREFIX.strip('/')} are: {', '.join(METHODS)}.",
        )
