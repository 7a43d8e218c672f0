"""Finished answers in memory, and equal questions that are asked at once.

An answer follows from its question and from what it stands on: the blocks and segments that count in its
range, in their order, whose content never changes. All of that is its key, so each question is listed anew,
and an answer that is no longer right is not found. One that does without what could not be read is not kept.
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

from sidelight_collector.http.api.responses import EncodedResponse
from sidelight_collector.lru import LruCache
from sidelight_collector.query.engine.query_engine import QueryEngine, run_until_complete
from sidelight_collector.query.query_context import Deadline, QueryContext
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.windows import (
    WindowQuery,
)

OVERHEAD_BYTES: Final = 1024
"""What an answer takes besides its body."""


class AnswerOrigin(StrEnum):
    """Where an answer comes from: it was made, an equal question was having it made, or it was kept."""

    COMPUTED = "miss"
    SHARED = "coalesced"
    CACHED = "hit"


@dataclass(frozen=True, slots=True)
class CacheableQuery:
    """A question: `identity` tell it from any other, `sides` say what it reads, `compute` makes the
    answer.
    """

    identity: str
    sides: Sequence[WindowQuery]
    compute: Callable[[QueryContext], EncodedResponse]


@dataclass(frozen=True, slots=True)
class _InFlightAnswer:
    """An answer in the making, and the deadline of those who wait for it."""

    deadline: Deadline
    future: Future[EncodedResponse] = field(default_factory=Future)


class AnswerCache:
    """Answers questions of one engine; `told` hears where each answer came from."""

    def __init__(
        self, engine: QueryEngine, on_answer: Callable[[AnswerOrigin], None] = lambda _: None
    ) -> None:
        self._engine = engine
        self._on_answer = on_answer
        self._cache: LruCache[EncodedResponse] = LruCache(engine.limits.answer_bytes)
        self._lock = threading.Lock()
        self._in_flight: dict[str, _InFlightAnswer] = {}

    async def get(self, build_query: Callable[[], CacheableQuery]) -> EncodedResponse:
        """The answer, with an etag if nothing is missing from it. Raises what QueryEngine.ask and
        `build_query` do.

        `build_query` tells the question, in a query's thread. Who waits for an answer that another question
        has begun waits no longer than that one may take.
        """
        limit = self._engine.limits.timeout_seconds
        try:
            async with asyncio.timeout(limit):
                while True:
                    found = await self._engine.run(
                        lambda reading: self._get_or_compute(build_query(), reading)
                    )
                    if isinstance(found, EncodedResponse):
                        return found
                    if shared := await _wait_for_answer(found):
                        self._on_answer(AnswerOrigin.SHARED)
                        return shared
        except TimeoutError:
            raise QueryTimeout(limit) from None

    def _get_or_compute(
        self, query: CacheableQuery, context: QueryContext
    ) -> EncodedResponse | _InFlightAnswer:
        """The answer, kept or made, or the flight that brings it; runs in a query's thread."""
        key = _compute_cache_key(query, context)
        own = _InFlightAnswer(context.deadline)
        own.future.set_running_or_notify_cancel()  # so that nobody who waits for it can cancel it
        with self._lock:
            kept = self._cache.get(key)
            other = self._in_flight.get(key)
            if kept is None and (other is None or other.deadline.is_over):
                self._in_flight[key] = own
                other = None
        if kept is not None:
            self._on_answer(AnswerOrigin.CACHED)
            return kept
        return other or self._compute(query, context, key, own)

    def _compute(
        self, query: CacheableQuery, context: QueryContext, key: str, own: _InFlightAnswer
    ) -> EncodedResponse:
        try:
            made = run_until_complete(query.compute, context)
            if not context.unreadable_count and not context.is_transient:
                made = replace(made, etag=xxhash.xxh3_128_hexdigest(made.body))
                self._cache.put(key, made, len(made.body) + OVERHEAD_BYTES)
            self._on_answer(AnswerOrigin.COMPUTED)
            own.future.set_result(made)
        except BaseException as error:
            own.future.set_exception(error)
            raise
        else:
            return made
        finally:
            with self._lock:
                if self._in_flight.get(key) is own:
                    del self._in_flight[key]


async def _wait_for_answer(in_flight: _InFlightAnswer) -> EncodedResponse | None:
    """What another question brings; None if it has been given up, as nobody waited for it any longer."""
    if in_flight.future.done():
        return in_flight.future.result()
    if not in_flight.deadline.join():
        return None
    try:
        return await asyncio.wrap_future(in_flight.future)
    finally:
        in_flight.deadline.abandon()


def _compute_cache_key(query: CacheableQuery, context: QueryContext) -> str:
    """A name for a question and all that its answer follows from."""
    digest = sha256(query.identity.encode())
    for side in query.sides:
        refs = context.list_segments(side.from_ns, side.until_ns)
        counting = (f"{ref.key_prefix} {' '.join(sorted(ref.parts))}" for ref in refs)
        digest.update(b"\0" + "\n".join(counting).encode())
    digest.update(b"\0%d" % context.unreadable_count)
    return digest.hexdigest()
