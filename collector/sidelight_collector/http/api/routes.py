"""One handler for each path of the read API."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from aiohttp import web

import sidelight
from sidelight_collector.answers.catalog import list_label_names, list_label_values, list_services
from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.heatmap import HeatmapLimits, query_heatmap
from sidelight_collector.answers.lines import query_function_lines
from sidelight_collector.answers.service_overview import query_service_overview
from sidelight_collector.answers.stack_composition import query_stack_composition
from sidelight_collector.answers.timeline import Timeline, VersionRollout, query_timeline
from sidelight_collector.answers.top_and_depth import CostOrder, query_depth, query_top
from sidelight_collector.auth.authorizer import get_principal
from sidelight_collector.comparison.answer import query_verdict
from sidelight_collector.http.api import openapi
from sidelight_collector.http.api.answer_cache import AnswerCache, AnswerOrigin
from sidelight_collector.http.api.api_handler import ApiContext, ApiHandler
from sidelight_collector.http.api.endpoint_routes import EndpointApi
from sidelight_collector.http.api.export_routes import ExportApi
from sidelight_collector.http.api.fleet_routes import FleetApi
from sidelight_collector.http.api.parameters import QueryParameters
from sidelight_collector.http.api.responses import (
    EncodedResponse,
    encode_json_response,
)
from sidelight_collector.http.api.sides_cache import SidesCache
from sidelight_collector.ingest.stats import IngestStats
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.times import format_rfc3339

PREFIX: Final = "/api/v1"
DEFAULT_ROWS: Final = 100
DEFAULT_LINES: Final = 1000
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def build_context(
    engine: QueryEngine,
    clock_ns: Callable[[], int] = time.time_ns,
    on_answer: Callable[[AnswerOrigin], None] = lambda _: None,
) -> ApiContext:
    """Build the caches of answers and of sides for the routes of an engine."""
    return ApiContext(
        engine, AnswerCache(engine, on_answer), SidesCache(engine.limits.answer_bytes), clock_ns
    )


def routes(
    engine: QueryEngine,
    ingest_stats: IngestStats,
    store_kind: str,
    clock_ns: Callable[[], int] = time.time_ns,
    on_answer: Callable[[AnswerOrigin], None] = lambda _: None,
    retention_days: RetentionDays | None = None,
    offline_page: str | None = None,
    find_rollouts: Callable[[WindowQuery], Sequence[VersionRollout]] = lambda _: (),
    core_hour_price: float = 0.0,
    context: ApiContext | None = None,
) -> list[web.RouteDef]:
    """Build the routes of the read API; handlers raise SidelightError.

    `on_answer` is called with the origin of each answer. `retention_days` is only reported.
    `offline_page` is the built page that HTML exports are made of. `find_rollouts` returns the rollouts of
    what a query selects. `core_hour_price` is only reported. `context` has caches to share; without one, the
    routes have their own.
    """
    context = context or build_context(engine, clock_ns, on_answer)
    api = _QueryApi(context, ingest_stats, store_kind, retention_days, find_rollouts)
    exports, endpoints = ExportApi(context, offline_page), EndpointApi(context)
    fleet = FleetApi(context, core_hour_price)
    handlers: Mapping[str, Handler] = {
        "/services": api.services,
        "/overview": api.overview,
        "/endpoints": endpoints.endpoints,
        "/labels": api.labels,
        "/labels/{name}/values": api.label_values,
        "/timeline": api.timeline,
        "/heatmap": api.heatmap,
        "/flamegraph": api.flamegraph,
        "/compare": api.compare,
        "/verdict": api.verdict,
        "/depth": api.depth,
        "/stack-composition": api.stack_composition,
        "/top": api.top,
        "/functions": fleet.functions,
        "/sidecars": fleet.sidecars,
        "/lines": api.lines,
        "/export": exports.export,
        "/export/compare": exports.export_comparison,
        "/export/{name}.speedscope.json": exports.export_for_speedscope,
        "/status": api.status,
        "/openapi.json": api.openapi,
    }
    return [web.get(PREFIX + path, handler) for path, handler in handlers.items()]


class _QueryApi(ApiHandler):
    """The handlers of queries and of the collector's state."""

    def __init__(
        self,
        context: ApiContext,
        ingest_stats: IngestStats,
        store_kind: str,
        retention_days: RetentionDays | None,
        find_rollouts: Callable[[WindowQuery], Sequence[VersionRollout]],
    ) -> None:
        super().__init__(context)
        self._find_rollouts = find_rollouts
        self._ingest_stats = ingest_stats
        self._store_kind = store_kind
        self._retention_days = retention_days

    async def services(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/services")
        return await self.respond(
            request, lambda: partial(list_services, query=parameters.parse_window_query())
        )

    async def overview(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/overview")
        kind, max_services = parameters.parse_profile_type(), parameters.parse_limit(self._limits.max_rows)
        return await self.respond(
            request,
            lambda: partial(
                query_service_overview,
                query=parameters.parse_window_query(),
                kind=kind,
                max_services=max_services,
                label=parameters.get_text("label"),
            ),
        )

    async def labels(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/labels")
        return await self.respond(
            request, lambda: partial(list_label_names, query=parameters.parse_window_query())
        )

    async def label_values(self, request: web.Request) -> web.Response:
        parameters, name = self.read_parameters(request, "/labels/{name}/values"), request.match_info["name"]
        return await self.respond(
            request, lambda: partial(list_label_values, query=parameters.parse_window_query(), name=name)
        )

    async def timeline(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/timeline")
        kind, step, max_steps = (
            parameters.parse_profile_type(),
            parameters.parse_step_ns(),
            self._limits.max_points,
        )

        def build_timeline() -> partial[Timeline]:
            window_query = parameters.parse_window_query()
            query = partial(query_timeline, query=window_query, kind=kind, step_ns=step, max_steps=max_steps)
            # A part of the query, so that a cached answer has all rollouts known by now.
            return partial(query, rollouts=self._find_rollouts(window_query.drop_endpoints()))

        return await self.respond(request, build_timeline)

    async def heatmap(self, request: web.Request) -> web.Response:
        parameters, limits = self.read_parameters(request, "/heatmap"), self._limits
        kind, step, rows = (
            parameters.parse_profile_type(),
            parameters.parse_step_ns(),
            parameters.parse_heatmap_rows(),
        )
        zone = parameters.get_text("zone", "UTC")
        bounds = HeatmapLimits(limits.max_points, parameters.parse_limit(DEFAULT_ROWS), limits.max_cells)
        return await self.respond(
            request,
            lambda: partial(
                query_heatmap,
                query=parameters.parse_window_query(),
                kind=kind,
                rows=rows,
                step_ns=step,
                zone=zone,
                limits=bounds,
            ),
        )

    async def flamegraph(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/flamegraph")
        return await self._respond_flame_graph(request, parameters, two=False)

    async def compare(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/compare")
        return await self._respond_flame_graph(request, parameters, two=True)

    async def verdict(self, request: web.Request) -> web.Response:
        parameters, max_nodes = self.read_parameters(request, "/verdict"), self._limits.max_nodes
        query = partial(
            query_verdict,
            kind=parameters.parse_profile_type(),
            stack_filter=parameters.parse_stack_filter(),
            options=parameters.parse_comparison_options(),
            max_nodes=min(parameters.parse_max_nodes() or max_nodes, max_nodes),
        )
        return await self.respond_sides(request, parameters, query)

    async def depth(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/depth")
        query = partial(
            query_depth, kind=parameters.parse_profile_type(), stack_filter=parameters.parse_stack_filter()
        )
        return await self.respond_one_or_two_sides(request, parameters, query)

    async def stack_composition(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/stack-composition")
        query = partial(
            query_stack_composition,
            kind=parameters.parse_profile_type(),
            stack_filter=parameters.parse_stack_filter(),
            limit=parameters.parse_limit(DEFAULT_ROWS),
        )
        return await self.respond_one_or_two_sides(request, parameters, query)

    async def top(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/top")
        query = partial(
            query_top,
            kind=parameters.parse_profile_type(),
            stack_filter=parameters.parse_stack_filter(),
            limit=parameters.parse_limit(DEFAULT_ROWS),
            by=CostOrder(parameters.parse_choice("by", [by.value for by in CostOrder])),
        )
        return await self.respond_one_or_two_sides(request, parameters, query)

    async def lines(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/lines")
        query = partial(
            query_function_lines,
            kind=parameters.parse_profile_type(),
            limit=parameters.parse_limit(DEFAULT_LINES),
            function=parameters.get_text("function"),
            file=parameters.get_text("file"),
            # Here `function` is the one whose lines are listed, and leaves no samples out.
            stack_filter=replace(parameters.parse_stack_filter(), function=""),
        )
        return await self.respond_one_or_two_sides(request, parameters, query)

    async def status(self, request: web.Request) -> web.Response:
        self.read_parameters(request, "/status")
        reader = get_principal(request)
        seen = await asyncio.to_thread(self._ingest_stats.aggregate_processes)
        windows, last_ingest_ns = seen.windows_acknowledged, seen.last_ingest_ns
        sidecars = [one for one in seen.list_sidecars() if reader.can_read({"namespace": one.namespace})]
        if reader.namespaces is not None:
            # Not those of other namespaces: their sum would show what happens there.
            windows = sum(one.windows for one in sidecars)
            last_ingest_ns = max((one.last_seen_ns for one in sidecars), default=None)
        answer = {
            "version": sidelight.__version__,
            "store": {"kind": self._store_kind, "ok": await self._context.engine.is_store_available()},
            "retention_days": None if self._retention_days is None else self._retention_days._asdict(),
            "windows_acknowledged": windows,
            "last_ingest": None if last_ingest_ns is None else format_rfc3339(last_ingest_ns),
            "sidecars": [
                {"pod": one.pod, "service": one.service, "last_seen": format_rfc3339(one.last_seen_ns)}
                for one in sidecars
            ],
        }
        return encode_json_response(answer, gzip=False).to_response(request)

    async def openapi(self, request: web.Request) -> web.Response:
        self.read_parameters(request, "/openapi.json")
        return EncodedResponse(openapi.read_document(), "application/json; charset=utf-8").to_response(
            request
        )

    async def _respond_flame_graph(
        self, request: web.Request, parameters: QueryParameters, *, two: bool
    ) -> web.Response:
        with_states = parameters.parse_switch("states", default=False)
        kind, nodes, lines = (
            parameters.parse_profile_type(),
            parameters.parse_max_nodes(),
            parameters.parse_switch("lines", default=False),
        )
        comparison_options = (
            parameters.parse_comparison_options()
            if two and parameters.parse_switch("verdict", default=True)
            else None
        )
        query = partial(
            query_flame_graph,
            kind=kind,
            lines=lines,
            nodes=nodes,
            max_nodes=self._limits.max_nodes,
            states=with_states,
            stack_filter=parameters.parse_stack_filter(),
            comparison_options=comparison_options,
        )
        if two:
            return await self.respond_sides(request, parameters, query)
        return await self.respond(request, lambda: partial(query, sides=[parameters.parse_window_query()]))
