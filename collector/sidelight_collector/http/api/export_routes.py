"""The handlers of exports: profiles as files of other tools' formats."""

from collections.abc import Callable, Sequence
from functools import partial

from aiohttp import web

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
from sidelight_collector.http.api.answer_cache import CacheableQuery
from sidelight_collector.http.api.api_handler import (
    ApiContext,
    ApiHandler,
    build_cacheable_query,
    build_engine_headers,
)
from sidelight_collector.http.api.exports import (
    COMPARISON_FORMATS,
    CONTENT_TYPES,
    FORMAT_HEADERS,
    PROFILE_FORMATS,
    build_content_security_policy,
    build_export_headers,
)
from sidelight_collector.http.api.parameters import (
    QueryParameters,
)
from sidelight_collector.http.api.responses import (
    EncodedResponse,
    accepts_gzip,
    encode_response,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.windows import (
    WindowQuery,
)
from sidelight_model.counts import ProfileType
from sidelight_model.errors import Reason, SidelightError


class ExportApi(ApiHandler):
    """Handlers of exports; `offline_page` is the template of HTML exports."""

    def __init__(self, context: ApiContext, offline_page: str | None) -> None:
        super().__init__(context)
        self._offline_page = offline_page

    async def export(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/export")
        return await self._respond_export(
            request, given, PROFILE_FORMATS, lambda: [given.parse_window_query()]
        )

    async def export_comparison(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/export/compare")
        return await self._respond_export(request, given, COMPARISON_FORMATS, given.parse_sides)

    async def export_for_speedscope(self, request: web.Request) -> web.Response:
        given = self.read_parameters(request, "/export/{name}.speedscope.json")
        name = request.match_info["name"]
        return await self._respond_export(
            request, given, ("speedscope",), lambda: [given.parse_window_query()], name
        )

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
            told = {**build_export_headers(made, wanted), **build_engine_headers(reading), **headers}
            # What is packed already only grows.
            return encode_response(made.content, content_type, gzip=gzip and wanted != "pprof", headers=told)

        def build_query() -> CacheableQuery:
            of = sides()
            called = (
                name or " against ".join(str(side.selector) for side in of) + f" {given.parse_profile_type()}"
            )
            made_by = partial(make, sides=of, name=called)
            return build_cacheable_query(made_by, gzip, partial(encode_export, made_by))

        return (await self._answers.get(build_query)).to_response(request)

    def _build_exporter(self, given: QueryParameters, export_format: str) -> partial[ExportedProfile]:
        """Parse all parameters; return a function that exports sides under a name."""
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
