"""The handler of endpoints: JSON, or text for Prometheus."""

from functools import partial
from typing import Final

from aiohttp import web

from sidelight_collector.answers.endpoints import EndpointCosts, format_prometheus, query_endpoints
from sidelight_collector.http.api.answer_cache import CacheableQuery
from sidelight_collector.http.api.api_handler import (
    ApiHandler,
    build_cacheable_query,
    build_engine_headers,
)
from sidelight_collector.http.api.responses import (
    EncodedResponse,
    accepts_gzip,
    encode_json_response,
    encode_response,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_model.counts import ProfileType

DEFAULT_ENDPOINTS: Final = 20
"""Endpoints of each service, if the request names no number."""
FORMATS: Final = ("json", "prometheus")
PROMETHEUS_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class EndpointApi(ApiHandler):
    """The handler of `/endpoints`."""

    async def endpoints(self, request: web.Request) -> web.Response:
        parameters, gzip = self.read_parameters(request, "/endpoints"), accepts_gzip(request)
        answer_format = parameters.parse_choice("format", FORMATS)
        query = partial(
            query_endpoints,
            kind=parameters.parse_profile_type(ProfileType.CPU),
            stack_filter=parameters.parse_stack_filter(),
            limit=parameters.parse_limit(DEFAULT_ENDPOINTS),
            max_rows=self._limits.max_rows,
        )

        def encode(make: partial[EndpointCosts], context: QueryContext) -> EncodedResponse:
            answer, headers = make(context), build_engine_headers(context)
            if answer_format == "json":
                return encode_json_response(answer, gzip=gzip, headers=headers)
            text = format_prometheus(answer).encode()
            return encode_response(text, PROMETHEUS_CONTENT_TYPE, gzip=gzip, headers=headers)

        def build_query(_: QueryContext) -> CacheableQuery:
            make = partial(query, query=parameters.parse_window_query())
            return build_cacheable_query(make, gzip, partial(encode, make), answer_format)

        return (await self._answers.get(build_query, request)).to_response(request)
