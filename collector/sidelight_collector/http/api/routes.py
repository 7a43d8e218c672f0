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
from sidelight_collector.answers.flame import FlameGraph, query_flame_graph
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
from sidelight_collector.http.api.export_routes import ExportApi
from sidelight_collector.http.api.parameters import (
    QueryParameters,
)
from sidelight_collector.http.api.responses import (
    EncodedResponse,
    encode_json_response,
)
from sidelight_collector.ingest.stats import IngestStats
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.windows import (
    WindowQuery,
)
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.times import format_rfc3339

PREFIX: Final = "/api/v1"
DEFAULT_ROWS: Final = 100
DEFAULT_LINES: Final = 1000
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def routes(
    engine: QueryEngine,
    ingest_stats: IngestStats,
    store_kind: str,
    clock_ns: Callable[[], int] = time.time_ns,
    on_answer: Callable[[AnswerOrigin], None] = lambda _: None,
    retention_days: RetentionDays | None = None,
    offline_page: str | None = None,
    find_rollouts: Callable[[WindowQuery], Sequence[VersionRollout]] = lambda _: (),
) -> list[web.RouteDef]:
    """Build the routes of the read API; handlers raise SidelightError.

    `on_answer` is called with the origin of each answer. `retention_days` is only reported.
    `offline_page` is the built page that HTML exports are made of. `find_rollouts` returns the rollouts of
    what a query selects.
    """
    context = ApiContext(engine, AnswerCache(engine, on_answer), clock_ns)
    api = _QueryApi(context, ingest_stats, store_kind, retention_days, find_rollouts)
    exports = ExportApi(context, offline_page)
    handlers: Mapping[str, Handler] = {
        "/services": api.services,
        "/overview": api.overview,
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
        given = self.read_parameters(request, "/services")
        return await self.respond(request, lambda: partial(list_services, query=given.parse_window_query()))

    async def overview(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/overview")
        kind, most = given.parse_profile_type(), given.parse_limit(self._limits.max_rows)
        return await self.respond(
            request,
            lambda: partial(
                query_service_overview, query=given.parse_window_query(), kind=kind, max_services=most
            ),
        )

    async def labels(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/labels")
        return await self.respond(
            request, lambda: partial(list_label_names, query=given.parse_window_query())
        )

    async def label_values(self, request: web.Request) -> web.Response:
        given, name = self.read_parameters(request, "/labels/{name}/values"), request.match_info["name"]
        return await self.respond(
            request, lambda: partial(list_label_values, query=given.parse_window_query(), name=name)
        )

    async def timeline(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/timeline")
        kind, step, most = given.parse_profile_type(), given.parse_step_ns(), self._limits.max_points

        def build_timeline() -> partial[Timeline]:
            question = given.parse_window_query()
            drawn = partial(query_timeline, query=question, kind=kind, step_ns=step, max_steps=most)
            # They are part of the question, so that an answer that is kept has all that are known by now.
            return partial(drawn, rollouts=self._find_rollouts(question))

        return await self.respond(request, build_timeline)

    async def heatmap(self, request: web.Request) -> web.Response:
        given, limits = self.read_parameters(request, "/heatmap"), self._limits
        kind, step, rows = given.parse_profile_type(), given.parse_step_ns(), given.parse_heatmap_rows()
        zone = given.get_text("zone", "UTC")
        bounds = HeatmapLimits(limits.max_points, given.parse_limit(DEFAULT_ROWS), limits.max_cells)
        return await self.respond(
            request,
            lambda: partial(
                query_heatmap,
                query=given.parse_window_query(),
                kind=kind,
                rows=rows,
                step_ns=step,
                zone=zone,
                limits=bounds,
            ),
        )

    async def flamegraph(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/flamegraph")
        return await self._respond_flame_graph(request, given, two=False)

    async def compare(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/compare")
        return await self._respond_flame_graph(request, given, two=True)

    async def verdict(self, request: web.Request) -> web.Response:
        given, most = self.read_parameters(request, "/verdict"), self._limits.max_nodes
        kind, pick, wanted = (
            given.parse_profile_type(),
            given.parse_stack_filter(),
            given.parse_comparison_options(),
        )
        judged = partial(
            query_verdict,
            kind=kind,
            stack_filter=pick,
            options=wanted,
            max_nodes=min(given.parse_max_nodes() or most, most),
        )
        return await self.respond(request, lambda: partial(judged, sides=given.parse_sides()))

    async def depth(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/depth")
        kind, pick = given.parse_profile_type(), given.parse_stack_filter()
        return await self.respond(
            request,
            lambda: partial(query_depth, sides=given.parse_one_or_two_sides(), kind=kind, stack_filter=pick),
        )

    async def stack_composition(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/stack-composition")
        kind, pick, limit = (
            given.parse_profile_type(),
            given.parse_stack_filter(),
            given.parse_limit(DEFAULT_ROWS),
        )
        return await self.respond(
            request,
            lambda: partial(
                query_stack_composition,
                sides=given.parse_one_or_two_sides(),
                kind=kind,
                stack_filter=pick,
                limit=limit,
            ),
        )

    async def top(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/top")
        kind, pick, limit = (
            given.parse_profile_type(),
            given.parse_stack_filter(),
            given.parse_limit(DEFAULT_ROWS),
        )
        by = CostOrder(given.parse_choice("by", [by.value for by in CostOrder]))
        return await self.respond(
            request,
            lambda: partial(
                query_top,
                sides=given.parse_one_or_two_sides(),
                kind=kind,
                by=by,
                limit=limit,
                stack_filter=pick,
            ),
        )

    async def lines(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/lines")
        kind, limit = given.parse_profile_type(), given.parse_limit(DEFAULT_LINES)
        # Here it is the function whose lines are listed, and leaves no samples out.
        function, file, pick = (
            given.get_text("function"),
            given.get_text("file"),
            replace(given.parse_stack_filter(), function=""),
        )
        return await self.respond(
            request,
            lambda: partial(
                query_function_lines,
                sides=given.parse_one_or_two_sides(),
                kind=kind,
                function=function,
                file=file,
                limit=limit,
                stack_filter=pick,
            ),
        )

    async def status(self, request: web.Request) -> web.Response:
        self.read_parameters(request, "/status")
        reader = get_principal(request)
        seen = await asyncio.to_thread(self._ingest_stats.aggregate_processes)
        answer = {
            "version": sidelight.__version__,
            "store": {"kind": self._store_kind, "ok": await self._context.engine.is_store_available()},
            "retention_days": None if self._retention_days is None else self._retention_days._asdict(),
            "windows_acknowledged": seen.windows_acknowledged,
            "last_ingest": None if seen.last_ingest_ns is None else format_rfc3339(seen.last_ingest_ns),
            "sidecars": [
                {"pod": one.pod, "service": one.service, "last_seen": format_rfc3339(one.last_seen_ns)}
                for one in seen.list_sidecars()
                if reader.can_read({"namespace": one.namespace})
            ],
        }
        return encode_json_response(answer, gzip=False).to_response(request)

    async def openapi(self, request: web.Request) -> web.Response:
        self.read_parameters(request, "/openapi.json")
        return EncodedResponse(openapi.read_document(), "application/json; charset=utf-8").to_response(
            request
        )

    async def _respond_flame_graph(
        self, request: web.Request, given: QueryParameters, *, two: bool
    ) -> web.Response:
        given_states = given.parse_switch("states", default=False)
        kind, nodes, lines = (
            given.parse_profile_type(),
            given.parse_max_nodes(),
            given.parse_switch("lines", default=False),
        )
        wanted = (
            given.parse_comparison_options() if two and given.parse_switch("verdict", default=True) else None
        )
        drawing = partial(
            query_flame_graph,
            kind=kind,
            lines=lines,
            nodes=nodes,
            max_nodes=self._limits.max_nodes,
            states=given_states,
            stack_filter=given.parse_stack_filter(),
            comparison_options=wanted,
        )

        def build_flame_graph() -> partial[FlameGraph]:
            return partial(drawing, sides=given.parse_sides() if two else [given.parse_window_query()])

        return await self.respond(request, build_flame_graph)
