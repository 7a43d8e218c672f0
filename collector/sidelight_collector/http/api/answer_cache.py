"""A cache of encoded responses that also coalesces concurrent equal queries.

A response is determined by its query and by the live blocks and segments of its range, in order, whose
content never changes. Both make up the cache key. Each query therefore lists its blocks and segments again,
and never finds an outdated response. Responses that miss unreadable data are not cached.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Final

import xxhash
from aiohttp import web

from sidelight_collector.http.api.responses import EncodedResponse
from sidelight_collector.lru import LruCache
from sidelight_collector.query.engine.query_engine import QueryEngine, run_until_complete
from sidelight_collector.query.query_context import Deadline, QueryContext
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.windows import WindowQuery

OVERHEAD_BYTES: Final = 1024
"""Estimated memory that a cached response takes besides its body."""


CLIENT_CHECK_SECONDS: Final = 0.5
"""Time between checks whether the client of a request still waits."""


class AnswerOrigin(StrEnum):
    """The origin of a response: computed, shared with a concurrent query, or cached."""

    COMPUTED = "miss"
    SHARED = "coalesced"
    CACHED = "hit"


@dataclass(frozen=True, slots=True)
class CacheableQuery:
    """A query whose response can be cached.

    `identity` is unique to the query, `sides` are the windows that it reads, and `compute` builds the
    response.
    """

    identity: str
    sides: Sequence[WindowQuery]
    compute: Callable[[QueryContext], EncodedResponse]


@dataclass(frozen=True, slots=True)
class _InFlightAnswer:
    """A response that is being computed, and the deadline that its waiters share."""

    deadline: Deadline
    future: Future[EncodedResponse] = field(default_factory=Future)


class AnswerCache:
    """Answers queries of one engine, from its cache if possible.

    It calls `on_answer` with the origin of each response.
    """

    def __init__(
        self, engine: QueryEngine, on_answer: Callable[[AnswerOrigin], None] = lambda _: None
    ) -> None:
        self._engine = engine
        self._on_answer = on_answer
        self._cache: LruCache[EncodedResponse] = LruCache(engine.limits.answer_bytes)
        self._lock = threading.Lock()
        self._in_flight: dict[str, _InFlightAnswer] = {}

    async def get(
        self,
        build_query: Callable[[QueryContext], CacheableQuery],
        request: web.BaseRequest | None = None,
    ) -> EncodedResponse:
        """Return the response to a query, with an etag if it is complete.

        `build_query` runs in a query's thread. A query that waits for the response of another query waits
        no longer than that query's deadline. Raises what `QueryEngine.run` and `build_query` raise,
        QueryTimeout, and CancelledError if the client of the request has left.
        """
        answer = asyncio.ensure_future(self._get(build_query))
        try:
            while not (await asyncio.wait([answer], timeout=CLIENT_CHECK_SECONDS))[0]:
                if request is not None and request.transport is None:
                    answer.cancel()
            return answer.result()
        finally:
            answer.cancel()

    async def _get(self, build_query: Callable[[QueryContext], CacheableQuery]) -> EncodedResponse:
        limit = self._engine.limits.timeout_seconds
        try:
            async with asyncio.timeout(limit):
                while True:
                    result = await self._engine.run(
                        lambda reading: self._get_or_compute(build_query(reading), reading)
                    )
                    if isinstance(result, EncodedResponse):
                        return result
                    if shared := await _wait_for_answer(result):
                        self._on_answer(AnswerOrigin.SHARED)
                        return shared
        except TimeoutError:
            raise QueryTimeout(limit) from None

    def _get_or_compute(
        self, query: CacheableQuery, context: QueryContext
    ) -> EncodedResponse | _InFlightAnswer:
        """Return the response from the cache, or compute it; runs in a query's thread.

        If another query already computes it, returns that computation instead.
        """
        key = compute_cache_key(query.identity, query.sides, context)
        in_flight = _InFlightAnswer(context.deadline)
        in_flight.future.set_running_or_notify_cancel()  # so that no waiter can cancel it
        with self._lock:
            cached = self._cache.get(key)
            other = self._in_flight.get(key)
            if cached is None and (other is None or other.deadline.is_over):
                self._in_flight[key] = in_flight
                other = None
        if cached is not None:
            self._on_answer(AnswerOrigin.CACHED)
            return cached
        return other or self._compute(query, context, key, in_flight)

    def _compute(
        self, query: CacheableQuery, context: QueryContext, key: str, in_flight: _InFlightAnswer
    ) -> EncodedResponse:
        try:
            response = run_until_complete(query.compute, context)
            if not context.unreadable_count and not context.is_transient:
                response = replace(response, etag=xxhash.xxh3_128_hexdigest(response.body))
                self._cache.put(key, response, len(response.body) + OVERHEAD_BYTES)
            self._on_answer(AnswerOrigin.COMPUTED)
            in_flight.future.set_result(response)
        except BaseException as error:
            in_flight.future.set_exception(error)
            raise
        else:
            return response
        finally:
            with self._lock:
                if self._in_flight.get(key) is in_flight:
                    del self._in_flight[key]


async def _wait_for_answer(in_flight: _InFlightAnswer) -> EncodedResponse | None:
    """Wait for the response of another query.

    Returns None if that query was abandoned because nothing waited for it any longer.
    """
    if in_flight.future.done():
        return in_flight.future.result()
    if not in_flight.deadline.join():
        return None
    try:
        return await asyncio.wrap_future(in_flight.future)
    finally:
        in_flight.deadline.abandon()


def compute_cache_key(identity: str, sides: Sequence[WindowQuery], context: QueryContext) -> str:
    """Compute the cache key of a query and the segments and blocks that it reads."""
    digest = sha256(identity.encode())
    for side in sides:
        refs = context.list_segments(side.from_ns, side.until_ns)
        counting = (f"{ref.key_prefix} {' '.join(sorted(ref.parts))}" for ref in refs)
        digest.update(b"\0" + "\n".join(counting).encode())
    digest.update(b"\0%d" % context.unreadable_count)
    return digest.hexdigest()
