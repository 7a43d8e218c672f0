"""Base of the query API's handlers: parameters, and responses from the cache."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from aiohttp import web

from sidelight_collector.auth.authorizer import get_principal
from sidelight_collector.comparison.sides.default_sides import SideChoice, describe_ranges
from sidelight_collector.http.api.answer_cache import AnswerCache, CacheableQuery
from sidelight_collector.http.api.parameters import (
    PARAMETERS,
    QueryParameters,
    QueryScope,
)
from sidelight_collector.http.api.responses import (
    EncodedResponse,
    accepts_gzip,
    encode_json_response,
)
from sidelight_collector.http.api.sides_cache import SidesCache
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.statistics.basis import Basis

Answer = TypeVar("Answer")
JsonAnswer = TypeVar("JsonAnswer", bound=Mapping[str, object])


@dataclass(frozen=True, slots=True)
class ApiContext:
    """The engine, caches of answers and of sides, and the clock (Unix nanoseconds)."""

    engine: QueryEngine
    answers: AnswerCache
    sides: SidesCache
    clock_ns: Callable[[], int]


class ApiHandler:
    """Base of the handlers.

    Selectors are parsed in the query's thread, because some take seconds.
    """

    def __init__(self, context: ApiContext) -> None:
        self._context = context
        self._answers = context.answers
        self._limits = context.engine.limits

    def build_scope(self, request: web.Request) -> QueryScope:
        """Return the limits of the queries of one request."""
        # Whole milliseconds, so that a browser can request the range in an answer again exactly.
        now_ns = self._context.clock_ns() // 1_000_000 * 1_000_000
        return QueryScope(get_principal(request).selector, self._limits, now_ns)

    def read_parameters(self, request: web.Request, path: str) -> QueryParameters:
        scope = self.build_scope(request)
        return QueryParameters(request.query, PARAMETERS[path], scope.limits, scope.now_ns, scope.required)

    async def respond(
        self, request: web.Request, build_answer: Callable[[], partial[JsonAnswer]]
    ) -> web.Response:
        gzip = accepts_gzip(request)

        def encode_answer(make: partial[JsonAnswer], context: QueryContext) -> EncodedResponse:
            return encode_json_response(make(context), gzip=gzip, headers=build_engine_headers(context))

        def build_query(_: QueryContext) -> CacheableQuery:
            make = build_answer()
            return build_cacheable_query(make, gzip, partial(encode_answer, make))

        return (await self._answers.get(build_query, request)).to_response(request)

    async def respond_sides(
        self, request: web.Request, parameters: QueryParameters, make: partial[JsonAnswer]
    ) -> web.Response:
        """Respond with what `make` answers on two sides, and with their `ranges`."""
        gzip = accepts_gzip(request)

        def build_query(context: QueryContext) -> CacheableQuery:
            choice = self.choose_sides(context, parameters)
            on_sides = partial(make, sides=choice.sides)

            def encode_answer(context: QueryContext) -> EncodedResponse:
                answer = on_sides(context)
                verdict = answer.get("verdict")
                ranges = describe_ranges(
                    context,
                    choice,
                    offers_overlap=not isinstance(verdict, Mapping)
                    or verdict["basis"] not in (Basis.CONCURRENT, Basis.PER_REQUEST),
                )
                return encode_json_response(
                    {**answer, "ranges": ranges}, gzip=gzip, headers=build_engine_headers(context)
                )

            return build_cacheable_query(on_sides, gzip, encode_answer, repr(choice))

        return (await self._answers.get(build_query, request)).to_response(request)

    def choose_sides(self, context: QueryContext, parameters: QueryParameters) -> SideChoice:
        """Return the sides of a request, with what it groups their stacks by."""
        choice = self._context.sides.get_or_choose(context, parameters.parse_sides())
        if not parameters.parse_group_by_endpoint():
            return choice
        return replace(choice, sides=[replace(side, group_by_endpoint=True) for side in choice.sides])

    async def respond_one_or_two_sides(
        self, request: web.Request, parameters: QueryParameters, make: partial[JsonAnswer]
    ) -> web.Response:
        """Respond on two sides if any parameter of a side is given, else on one."""
        if parameters.has_sides():
            return await self.respond_sides(request, parameters, make)
        return await self.respond(request, lambda: partial(make, sides=[parameters.parse_window_query()]))


def build_cacheable_query(
    make: partial[Answer],
    gzip: bool,
    compute: Callable[[QueryContext], EncodedResponse],
    addition: str = "",
) -> CacheableQuery:
    """Build a query.

    `addition` identifies what `compute` adds to the answer of `make`.
    """
    # The key is the function with all of its keywords, so that no parameter can be missing from it. One
    # keyword is `query` or `sides`.
    keywords = make.keywords
    arguments = sorted((name, repr(value)) for name, value in keywords.items())
    key = (make.func.__name__, *arguments, gzip, addition)
    return CacheableQuery(repr(key), keywords.get("sides") or [keywords["query"]], compute)


def build_engine_headers(context: QueryContext) -> Mapping[str, str]:
    """Where samples were added up, if a collector has a choice."""
    return {"Sidelight-Engine": context.engine} if context.engine else {}
