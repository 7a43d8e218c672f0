"""How a thread asks the query engine: as one query more, and only while a place is free."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import CancelledError, wait
from typing import Final, Protocol, TypeVar

from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_context import QueryContext
from sidelight_model.errors import Reason, SidelightError

Answer = TypeVar("Answer")

POLL_SECONDS: Final = 0.2


class QueryEngineBusy(SidelightError):
    """All places for queries are taken by others, or the collector ends."""

    reason = Reason.OVERLOADED


class QueryClient(Protocol):
    """Asks for an answer and waits for it; `cpu_seconds` is what making the last one took."""

    cpu_seconds: float

    def __call__(self, answer: Callable[[QueryContext], Answer]) -> Answer:
        """Raises Busy, and what a query raises."""


class EngineQueryClient:
    """Asks an engine that runs in an event loop, from another thread."""

    def __init__(
        self, engine: QueryEngine, should_stop: Callable[[], bool], loop: asyncio.AbstractEventLoop
    ) -> None:
        self._engine = engine
        self._should_stop = should_stop
        self._loop = loop
        self.cpu_seconds = 0.0

    def __call__(self, answer: Callable[[QueryContext], Answer]) -> Answer:
        self.cpu_seconds = 0.0
        if self._engine.active_queries >= self._engine.limits.running:
            raise QueryEngineBusy("all places for queries are taken", hint="It is tried again.")

        def measure_cpu(reading: QueryContext) -> Answer:
            begin = time.thread_time()
            try:
                return answer(reading)
            finally:
                self.cpu_seconds += time.thread_time() - begin

        future = asyncio.run_coroutine_threadsafe(self._engine.run(measure_cpu), self._loop)
        while not wait([future], POLL_SECONDS).done:
            if self._should_stop():
                future.cancel()
        try:
            return future.result()
        except CancelledError:
            raise QueryEngineBusy("the collector ends", hint="Another goes on.") from None
