"""Runs queries on the query engine from another thread, while it has free slots."""

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
    """All query slots are taken, or the collector is shutting down."""

    reason = Reason.OVERLOADED


class QueryClient(Protocol):
    """Runs a query and waits for it; `cpu_seconds` is the CPU time of the last one."""

    cpu_seconds: float

    def __call__(self, answer: Callable[[QueryContext], Answer]) -> Answer:
        """Run a query.

        Raises QueryEngineBusy, and what the query raises.
        """


class EngineQueryClient:
    """Runs queries on an engine in another thread's event loop."""

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
