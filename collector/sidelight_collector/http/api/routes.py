"""One handler for each path of the read API."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar

from aiohttp import web

import sidelight
from sidelight_collector.answers.catalog import list_label_names, list_label_values, list_services
from sidelight_collector.answers.export import (
    ExportedProfile,
    PageTemplate,
    export_csv,
    export_folded,
    export_html,
    export_pprof,
    export_speedscope,
    export_svg,
)
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
from sidelight_collector.http.api.answer_cache import AnswerCache, AnswerOrigin, CacheableQuery
from sidelight_collector.http.api.exports import (
    COMPARISON_FORMATS,
    CONTENT_TYPES,
    FORMAT_HEADERS,
    PROFILE_FORMATS,
    build_content_security_policy,
    build_export_headers,
)
from sidelight_collector.http.api.parameters import (
    COMPARISON_PARAMETERS,
    RANGE_PARAMETERS,
    SIDE_PARAMETERS,
    STACK_FILTER_PARAMETERS,
    QueryParameters,
)
from sidelight_collector.http.api.responses import (
    EncodedResponse,
    accepts_gzip,
    encode_json_response,
    encode_response,
)
from sidelight_collector.ingest.stats import IngestStats
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.windows import (
    WindowQuery,
)
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.times import format_rfc3339
from sidelight_model.counts import ProfileType
from sidelight_model.errors import Reason, SidelightError

PREFIX: Final = "/api/v1"
DEFAULT_ROWS: Final = 100
DEFAULT_LINES: Final = 1000
PARAMETERS: Final[Mapping[str, Collection[str]]] = {
    "/services": RANGE_PARAMETERS,
    "/overview": (*RANGE_PARAMETERS, "type", "limit"),
    "/labels": RANGE_PARAMETERS,
    "/labels/{name}/values": RANGE_PARAMETERS,
    "/timeline": (*RANGE_PARAMETERS, "type", "step"),
    "/flamegraph": (*RANGE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type", "nodes", "lines", "states"),
    "/compare": (
        *RANGE_PARAMETERS,
        *SIDE_PARAMETERS,
        *STACK_FILTER_PARAMETERS,
        "type",
        "nodes",
        "lines",
        "states",
        "verdict",
        *COMPARISON_PARAMETERS,
    ),
    "/verdict": (
        *RANGE_PARAMETERS,
        *SIDE_PARAMETERS,
        *STACK_FILTER_PARAMETERS,
        "type",
        "nodes",
        *COMPARISON_PARAMETERS,
    ),
    "/heatmap": (*RANGE_PARAMETERS, "type", "rows", "step", "zone", "limit"),
    "/depth": (*RANGE_PARAMETERS, *SIDE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type"),
    "/stack-composition": (*RANGE_PARAMETERS, *SIDE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type", "limit"),
    "/top": (*RANGE_PARAMETERS, *SIDE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type", "by", "limit"),
    "/lines": (*RANGE_PARAMETERS, *SIDE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type", "file", "limit"),
    "/export": (
        *RANGE_PARAMETERS,
        *STACK_FILTER_PARAMETERS,
        "type",
        "format",
        "lines",
        "states",
        "nodes",
        "about",
    ),
    "/export/compare": (
        *(
            *RANGE_PARAMETERS,
            *SIDE_PARAMETERS,
            *STACK_FILTER_PARAMETERS,
            "type",
            "format",
            "lines",
            "states",
            "nodes",
            "about",
            "load",
        ),
    ),
    "/export/{name}.speedscope.json": (*RANGE_PARAMETERS, *STACK_FILTER_PARAMETERS, "type", "lines", "nodes"),
    "/status": (),
    "/openapi.json": (),
}
"""The query parameters of each path; any other is refused."""


Answer = TypeVar("Answer")
JsonAnswer = TypeVar("JsonAnswer", bound=Mapping[str, object])
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
    """The routes of the read API. Handlers raise SidelightError for whatever cannot be answered.

    `on_answer` hears where each answer came from; `retention_days` is how long windows are kept, to be
    told. `offline_page` is the built page that HTML exports are made of. `find_rollouts` tells the rollouts
    that belong to a question.
    """
    api = _QueryApi(
        engine,
        AnswerCache(engine, on_answer),
        ingest_stats,
        store_kind,
        clock_ns,
        retention_days,
        offline_page,
        find_rollouts,
    )
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
        "/export": api.export,
        "/export/compare": api.export_comparison,
        "/export/{name}.speedscope.json": api.export_for_speedscope,
        "/status": api.status,
        "/openapi.json": api.openapi,
    }
    return [web.get(PREFIX + path, handler) for path, handler in handlers.items()]


class _QueryApi:
    """The handlers. Selectors are read in the query's thread, because there are some that take seconds."""

    def __init__(
        self,
        engine: QueryEngine,
        answers: AnswerCache,
        ingest_stats: IngestStats,
        store_kind: str,
        clock_ns: Callable[[], int],
        retention_days: RetentionDays | None,
        offline_page: str | None,
        find_rollouts: Callable[[WindowQuery], Sequence[VersionRollout]],
    ) -> None:
        self._find_rollouts = find_rollouts
        self._engine = engine
        self._offline_page = offline_page
        self._answers = answers
        self._limits = engine.limits
        self._ingest_stats = ingest_stats
        self._store_kind = store_kind
        self._clock_ns = clock_ns
        self._retention_days = retention_days

    async def services(self, request: web.Request) -> web.Response:
        given = self._read_parameters(request, "/services")
        return await self._respond(request, lambda: partial(list_services, query=given.parse_window_query()))

    async def overview(self, request: web.Request) -> web.Response:
        given = self._read_parameters(request, "/overview")
        kind, most = given.parse_profile_type(), given.parse_limit(self._limits.max_rows)
        return await self._respond(
            request,
            lambda: partial(
                query_service_overview, query=given.parse_window_query(), kind=kind, max_services=most
            ),
        )

    async def labels(self, request: web.Request) -> web.Response:
        given = self._read_parameters(request, "/labels")
        return await self._respond(
            request, lambda: partial(list_label_names, query=given.parse_window_query())
        )

    async def label_values(self, request: web.Request) -> web.Response:
        given, name = self._read_parameters(request, "/labels/{name}/values"), request.match_info["name"]
        return await self._respond(
            request, lambda: partial(list_label_values, query=given.parse_window_query(), name=name)
        )

    async def timeline(self, request: web.Request) -> web.Response:
        given = self._read_parameters(request, "/timeline")
        kind, step, most = given.parse_profile_type(), given.parse_step_ns(), self._limits.max_points

        def build_timeline() -> partial[Timeline]:
            question = given.parse_window_query()
            drawn = partial(query_timeline, query=question, kind=kind, step_ns=step, max_steps=most)
            # They are part of the question, so that an answer that is kept has all that are known by now.
            return partial(drawn, rollouts=self._find_rollouts(question))

        return await self._respond(request, build_timeline)

    async def heatmap(self, request: web.Request) -> web.Response:
        given, limits = self._read_parameters(request, "/heatmap"), self._limits
        kind, step, rows = given.parse_profile_type(), given.parse_step_ns(), given.parse_heatmap_rows()
        zone = given.get_text("zone", "UTC")
        bounds = HeatmapLimits(limits.max_points, given.parse_limit(DEFAULT_ROWS), limits.max_cells)
        return await self._respond(
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
        given = self._read_parameters(request, "/flamegraph")
        return await self._respond_flame_graph(request, given, two=False)

    async def compare(self, request: web.Request) -> web.Response:
        given = self._read_parameters(request, "/compare")
        return await self._respond_flame_graph(request, given, two=True)

    async def verdict(self, request: web.Request) -> web.Response:
        given, most = self._read_parameters(request, "/verdict"), self._limits.max_nodes
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
        return await self._respond(request, lambda: partial(judged, sides=given.parse_sides()))

    async def depth(self, request: web.Request) -> web.Response:
        given = self._read_parameters(request, "/depth")
        kind, pick = given.parse_profile_type(), given.parse_stack_filter()
        return await self._respond(
            request,
            lambda: partial(query_depth, sides=given.parse_one_or_two_sides(), kind=kind, stack_filter=pick),
        )

    async def stack_composition(self, request: web.Request) -> web.Response:
        given = self._read_parameters(request, "/stack-composition")
        kind, pick, limit = (
            given.parse_profile_type(),
            given.parse_stack_filter(),
            given.parse_limit(DEFAULT_ROWS),
        )
        return await self._respond(
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
        given = self._read_parameters(request, "/top")
        kind, pick, limit = (
            given.parse_profile_type(),
            given.parse_stack_filter(),
            given.parse_limit(DEFAULT_ROWS),
        )
        by = CostOrder(given.parse_choice("by", [by.value for by in CostOrder]))
        return await self._respond(
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
        given = self._read_parameters(request, "/lines")
        kind, limit = given.parse_profile_type(), given.parse_limit(DEFAULT_LINES)
        # Here it is the function whose lines are listed, and leaves no samples out.
        function, file, pick = (
            given.get_text("function"),
            given.get_text("file"),
            replace(given.parse_stack_filter(), function=""),
        )
        return await self._respond(
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

    async def export(self, request: web.Request) -> web.Response:
        given = self._read_parameters(request, "/export")
        return await self._respond_export(
            request, given, PROFILE_FORMATS, lambda: [given.parse_window_query()]
        )

    async def export_comparison(self, request: web.Request) -> web.Response:
        given = self._read_parameters(request, "/export/compare")
        return await self._respond_export(request, given, COMPARISON_FORMATS, given.parse_sides)

    async def export_for_speedscope(self, request: web.Request) -> web.Response:
        given = self._read_parameters(request, "/export/{name}.speedscope.json")
        name = request.match_info["name"]
        return await self._respond_export(
            request, given, ("speedscope",), lambda: [given.parse_window_query()], name
        )

    async def status(self, request: web.Request) -> web.Response:
        self._read_parameters(request, "/status")
        reader = get_principal(request)
        seen = await asyncio.to_thread(self._ingest_stats.aggregate_processes)
        answer = {
            "version": sidelight.__version__,
            "store": {"kind": self._store_kind, "ok": await self._engine.is_store_available()},
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
        self._read_parameters(request, "/openapi.json")
        return EncodedResponse(openapi.read_document(), "application/json; charset=utf-8").to_response(
            request
        )

    def _read_parameters(self, request: web.Request, path: str) -> QueryParameters:
        # Whole milliseconds: the range that an answer names can be asked for again exactly, by a browser too.
        now_ns = self._clock_ns() // 1_000_000 * 1_000_000
        must = get_principal(request).selector
        return QueryParameters(request.query, PARAMETERS[path], self._limits, now_ns, must)

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

        return await self._respond(request, build_flame_graph)

    async def _respond(
        self, request: web.Request, build_answer: Callable[[], partial[JsonAnswer]]
    ) -> web.Response:
        gzip = accepts_gzip(request)

        def encode_answer(make: partial[JsonAnswer], reading: QueryContext) -> EncodedResponse:
            made = make(reading)
            return encode_json_response(made, gzip=gzip, headers=_engine_headers(reading))

        def build_query() -> CacheableQuery:
            make = build_answer()
            return _build_cacheable_query(make, gzip, partial(encode_answer, make))

        return (await self._answers.get(build_query)).to_response(request)

    async def _respond_export(
        self,
        request: web.Request,
        given: QueryParameters,
        formats: Sequence[str],
        sides: Callable[[], list[WindowQuery]],
        name: str = "",
    ) -> web.Response:
        gzip, wanted = accepts_gzip(request), given.parse_choice("format", formats)
        make = self._build_exporter(given, wanted)
        content_type, headers = CONTENT_TYPES[wanted], dict(FORMAT_HEADERS.get(wanted, {}))
        if wanted == "html":
            headers["Content-Security-Policy"] = build_content_security_policy(self._offline_template().text)

        def encode_export(made_by: partial[ExportedProfile], reading: QueryContext) -> EncodedResponse:
            made = made_by(reading)
            told = {**build_export_headers(made, wanted), **_engine_headers(reading), **headers}
            # What is packed already only grows.
            return encode_response(made.content, content_type, gzip=gzip and wanted != "pprof", headers=told)

        def build_query() -> CacheableQuery:
            of = sides()
            called = (
                name or " against ".join(str(side.selector) for side in of) + f" {given.parse_profile_type()}"
            )
            made_by = partial(make, sides=of, name=called)
            return _build_cacheable_query(made_by, gzip, partial(encode_export, made_by))

        return (await self._answers.get(build_query)).to_response(request)

    def _build_exporter(self, given: QueryParameters, export_format: str) -> partial[ExportedProfile]:
        """What makes an export of sides and a name. Its parameters are read here, all of them."""
        kind, pick, nodes, limits = (
            given.parse_profile_type(),
            given.parse_stack_filter(),
            given.parse_max_nodes(),
            self._limits,
        )
        lines = given.parse_switch("lines", default=export_format == "pprof")
        states, says = given.parse_switch("states", default=True), given.parse_switch("about", default=False)
        judged = given.parse_comparison_options()
        most = limits.max_export_frames
        if export_format == "csv":
            return partial(
                export_csv, kind=kind, stack_filter=pick, with_comments=says, max_rows=limits.max_rows
            )
        if export_format == "html":
            page, apart = self._offline_template(), states and kind is ProfileType.WALL
            drawing = partial(
                export_html, kind=kind, stack_filter=pick, lines=lines, states=apart, template=page
            )
            return partial(drawing, nodes=nodes, max_nodes=limits.max_nodes, comparison_options=judged)
        if export_format == "folded":
            of = partial(export_folded, kind=kind, stack_filter=pick, lines=lines, max_frames=most)
            return partial(of, states=states, with_header=says)
        if export_format == "speedscope":
            few = min(nodes or limits.max_nodes, limits.max_nodes) if given.has("nodes") else None
            return partial(
                export_speedscope, kind=kind, stack_filter=pick, lines=lines, max_frames=most, nodes=few
            )
        if export_format == "svg":
            return partial(export_svg, kind=kind, stack_filter=pick, lines=lines)
        return partial(export_pprof, kind=kind, stack_filter=pick, lines=lines, max_frames=most)

    def _offline_template(self) -> PageTemplate:
        if self._offline_page is None:
            raise SidelightError(
                "the page that an HTML export is made of is not built",
                reason=Reason.UI_MISSING,
                hint="In a source tree run `make ui` and start the collector again; a released wheel has it.",
            )
        return PageTemplate(self._offline_page)


def _build_cacheable_query(
    make: partial[Answer], gzip: bool, compute: Callable[[QueryContext], EncodedResponse]
) -> CacheableQuery:
    # `make` is a function of the query package with its keywords, of which one is `query` or `sides`. They
    # are the words, so that no parameter can be missing from them.
    given = make.keywords
    words = (make.func.__name__, *sorted((name, repr(value)) for name, value in given.items()), gzip)
    return CacheableQuery(repr(words), given.get("sides") or [given["query"]], compute)


def _engine_headers(context: QueryContext) -> Mapping[str, str]:
    """Where samples were added up, if a collector has a choice."""
    return {"Sidelight-Engine": context.engine} if context.engine else {}
