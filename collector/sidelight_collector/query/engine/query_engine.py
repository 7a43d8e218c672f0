"""Where queries run: in a bounded number of threads, behind a bounded queue, each with a deadline."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from sidelight_collector.lru import Lru
from sidelight_collector.query.query_cache import TableCache
from sidelight_collector.query.query_context import (
    Deadline,
    Incomplete,
    Reading,
    Stage1,
)
from sidelight_collector.query.query_errors import QueryTimeout, TooManyQueries
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.request_counts import RequestCounts
from sidelight_collector.storage.manifest import Manifest
from sidelight_collector.storage.objects import ObjectStore, StoreError
from sidelight_collector.storage.segments import ROOT

Answer = TypeVar("Answer")

STORE_SECONDS: Final = 5.0
MANIFESTS: Final = 8
"""Of the memory for tables, an eighth as much again is for manifests."""


class QueryEngine:
    """Runs queries against one store, and keeps what they decoded in memory.

    A query that is out of time is answered at once and ends at its next step; until then it keeps its place,
    so that abandoned work is bounded too. `left_out` is told how many segments an answer does without because
    they cannot be read, `doubt` the keys of their objects; `stage1` adds up in the place of this process,
    and `prometheus` tells requests. `close` waits for what is running.
    """

    def __init__(
        self,
        store: ObjectStore,
        limits: QueryLimits,
        left_out: Callable[[int], None] = lambda _: None,
        stage1: Stage1 | None = None,
        doubt: Callable[[str], None] = lambda _: None,
        prometheus: RequestCounts | None = None,
    ) -> None:
        self.limits = limits
        self.cache = TableCache(limits.cache_bytes)
        self._manifests: Lru[Manifest] = Lru(limits.cache_bytes // MANIFESTS)
        self._store = store
        self._left_out = left_out
        self._stage1 = stage1
        self._doubt = doubt
        self._prometheus = prometheus
        self._queries = ThreadPoolExecutor(limits.running, thread_name_prefix="query")
        self._reads = ThreadPoolExecutor(limits.reads, thread_name_prefix="query-read")
        self._places = limits.running + limits.waiting
        self._taken: set[Future[Any]] = set()

    async def ask(self, answer: Callable[[Reading], Answer]) -> Answer:
        """What `answer` makes of the store, made in a thread.

        `answer` is called again when segments it relied on turn out unreadable, then without them. Raises
        TooManyQueries, QueryTimeout, StoreUnavailable, and what `answer` raises.
        """
        self._taken = {future for future in self._taken if not future.done()}
        if len(self._taken) >= self._places:
            raise TooManyQueries(self.limits.running, self.limits.waiting)
        deadline = Deadline(self.limits.timeout_seconds)
        reading = Reading(
            self._store,
            self.cache,
            self._reads,
            deadline,
            self._stage1,
            self._manifests,
            self._doubt,
            self._prometheus,
        )
        future = self._queries.submit(until_complete, answer, reading)
        self._taken.add(future)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.limits.timeout_seconds)
        except TimeoutError:
            raise QueryTimeout(self.limits.timeout_seconds) from None
        finally:
            deadline.abandon()
            self._left_out(reading.unreadable)

    async def store_answers(self) -> bool:
        """Whether the store can be listed right now; a store that takes longer than STORE_SECONDS cannot."""
        future = self._reads.submit(_listable, self._store)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), STORE_SECONDS)
        except TimeoutError:
            return False

    @property
    def running(self) -> int:
        """Queries that hold a place, waiting ones included."""
        return sum(not future.done() for future in self._taken)

    def close(self) -> None:
        """End the threads; queries that are still queued are dropped."""
        self._queries.shutdown(cancel_futures=True)
        self._reads.shutdown(cancel_futures=True)


def until_complete(answer: Callable[[Reading], Answer], reading: Reading) -> Answer:
    """What `answer` makes of what can be read."""
    while True:
        try:
            return answer(reading)
        except Incomplete:
            continue  # each time at least one more segment is left out, so this ends


def _listable(store: ObjectStore) -> bool:
    try:
        next(iter(store.list(ROOT)), None)
    except StoreError:
        return False
    return True
