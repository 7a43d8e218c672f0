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
from sidelight_collector.http.api.parameters import QueryParameters
from sidelight_collector.http.api.responses import (
    EncodedResponse,
    accepts_gzip,
    encode_response,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.windows import WindowQuery
from sidelight_model.counts import ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.export_formats.otlp_export import write_otlp
from sidelight_model.export_formats.pprof import write_pprof


class ExportApi(ApiHandler):
    """Handlers of exports; `offline_page` is the template of HTML exports."""

    def __init__(self, context: ApiContext, offline_page: str | None) -> None:
        super().__init__(context)
        self._offline_page = offline_page

    async def export(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/export")
        return await self._respond_export(
            request, parameters, PROFILE_FORMATS, lambda _: [parameters.parse_window_query()]
        )

    async def export_comparison(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/export/compare")
        return await self._respond_export(
            request,
            parameters,
            COMPARISON_FORMATS,
            lambda context: self.choose_sides(context, parameters).sides,
        )

    async def export_for_speedscope(self, request: web.Request) -> web.Response:
        parameters = self.read_parameters(request, "/export/{name}.speedscope.json")
        name = request.match_info["name"]
        return await self._respond_export(
            request, parameters, ("speedscope",), lambda _: [parameters.parse_window_query()], name
        )

    async def _respond_export(
        self,
        request: web.Request,
        parameters: QueryParameters,
        formats: Sequence[str],
        list_sides: Callable[[QueryContext], list[WindowQuery]],
        name: str = "",
    ) -> web.Response:
        gzip, export_format = accepts_gzip(request), parameters.parse_choice("format", formats)
        make = self._build_exporter(parameters, export_format)
        content_type, headers = CONTENT_TYPES[export_format], dict(FORMAT_HEADERS.get(export_format, {}))
        if export_format == "html":
            headers["Content-Security-Policy"] = build_content_security_policy(self._offline_template().text)

        def encode_export(exporter: partial[ExportedProfile], context: QueryContext) -> EncodedResponse:
            exported = exporter(context)
            export_headers = {
                **build_export_headers(exported, export_format),
                **build_engine_headers(context),
                **headers,
            }
            # pprof is compressed already.
            return encode_response(
                exported.content, content_type, gzip=gzip and export_format != "pprof", headers=export_headers
            )

        def build_query(context: QueryContext) -> CacheableQuery:
            queries = list_sides(context)
            title = (
                name
                or " against ".join(str(query.selector) for query in queries)
                + f" {parameters.parse_profile_type()}"
            )
            exporter = partial(make, sides=queries, name=title)
            return build_cacheable_query(exporter, gzip, partial(encode_export, exporter))

        return (await self._answers.get(build_query, request)).to_response(request)

    def _build_exporter(self, parameters: QueryParameters, export_format: str) -> partial[ExportedProfile]:
        """Parse all parameters; return a function that exports sides under a name."""
        kind, stack_filter, nodes, limits = (
            parameters.parse_profile_type(),
            parameters.parse_stack_filter(),
            parameters.parse_max_nodes(),
            self._limits,
        )
        lines = parameters.parse_switch("lines", default=export_format in ("pprof", "otlp"))
        states, with_header = (
            parameters.parse_switch("states", default=True),
            parameters.parse_switch("about", default=False),
        )
        comparison_options = parameters.parse_comparison_options()
        max_frames = limits.max_export_frames
        if export_format == "csv":
            return partial(
                export_csv,
                kind=kind,
                stack_filter=stack_filter,
                with_comments=with_header,
                max_rows=limits.max_rows,
            )
        if export_format == "html":
            page, with_states = self._offline_template(), states and kind is ProfileType.WALL
            exporter = partial(
                export_html,
                kind=kind,
                stack_filter=stack_filter,
                lines=lines,
                states=with_states,
                template=page,
            )
            return partial(
                exporter, nodes=nodes, max_nodes=limits.max_nodes, comparison_options=comparison_options
            )
        if export_format == "folded":
            exporter = partial(
                export_folded, kind=kind, stack_filter=stack_filter, lines=lines, max_frames=max_frames
            )
            return partial(exporter, states=states, with_header=with_header)
        if export_format == "speedscope":
            node_limit = min(nodes or limits.max_nodes, limits.max_nodes) if parameters.has("nodes") else None
            return partial(
                export_speedscope,
                kind=kind,
                stack_filter=stack_filter,
                lines=lines,
                max_frames=max_frames,
                nodes=node_limit,
            )
        if export_format == "svg":
            return partial(export_svg, kind=kind, stack_filter=stack_filter, lines=lines)
        write = write_otlp if export_format == "otlp" else write_pprof
        exporter = partial(export_pprof, kind=kind, stack_filter=stack_filter, lines=lines)
        return partial(exporter, max_frames=max_frames, write=write)

    def _offline_template(self) -> PageTemplate:
        if self._offline_page is None:
            raise SidelightError(
                "the page that an HTML export is made of is not built",
                reason=Reason.UI_MISSING,
                hint="In a source tree run `make ui` and start the collector again; a released wheel has it.",
            )
        return PageTemplate(self._offline_page)
