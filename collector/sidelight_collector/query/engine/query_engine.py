"""Where queries run: in a bounded number of threads, behind a bounded queue, each with a deadline."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from sidelight_collector.lru import LruCache
from sidelight_collector.query.query_cache import TableCache
from sidelight_collector.query.query_context import (
    Deadline,
    QueryContext,
    SegmentUnreadable,
    Stage1,
)
from sidelight_collector.query.query_errors import QueryTimeout, TooManyQueries
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.request_counts import RequestCountSource
from sidelight_collector.storage.manifest import Manifest
from sidelight_collector.storage.objects import ObjectStore, StoreError
from sidelight_collector.storage.segments import ROOT

Answer = TypeVar("Answer")

STORE_CHECK_SECONDS: Final = 5.0
MANIFEST_CACHE_DIVISOR: Final = 8
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
        on_unreadable: Callable[[int], None] = lambda _: None,
        stage1: Stage1 | None = None,
        on_corrupt: Callable[[str], None] = lambda _: None,
        request_counts: RequestCountSource | None = None,
    ) -> None:
        self.limits = limits
        self.cache = TableCache(limits.cache_bytes)
        self._manifests: LruCache[Manifest] = LruCache(limits.cache_bytes // MANIFEST_CACHE_DIVISOR)
        self._store = store
        self._on_unreadable = on_unreadable
        self._stage1 = stage1
        self._on_corrupt = on_corrupt
        self._request_counts = request_counts
        self._query_executor = ThreadPoolExecutor(limits.running, thread_name_prefix="query")
        self._read_executor = ThreadPoolExecutor(limits.reads, thread_name_prefix="query-read")
        self._max_active = limits.running + limits.waiting
        self._active: set[Future[Any]] = set()

    async def run(self, compute: Callable[[QueryContext], Answer]) -> Answer:
        """What `compute` makes of the store, made in a thread.

        `compute` is called again when segments it relied on turn out unreadable, then without them. Raises
        TooManyQueries, QueryTimeout, StoreUnavailable, and what `compute` raises.
        """
        self._active = {future for future in self._active if not future.done()}
        if len(self._active) >= self._max_active:
            raise TooManyQueries(self.limits.running, self.limits.waiting)
        deadline = Deadline(self.limits.timeout_seconds)
        context = QueryContext(
            self._store,
            self.cache,
            self._read_executor,
            deadline,
            self._stage1,
            self._manifests,
            self._on_corrupt,
            self._request_counts,
        )
        future = self._query_executor.submit(run_until_complete, compute, context)
        self._active.add(future)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), self.limits.timeout_seconds)
        except TimeoutError:
            raise QueryTimeout(self.limits.timeout_seconds) from None
        finally:
            deadline.abandon()
            self._on_unreadable(context.unreadable_count)

    async def is_store_available(self) -> bool:
        """Whether the store can be listed right now; a store that takes longer than STORE_SECONDS cannot."""
        future = self._read_executor.submit(_can_list, self._store)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), STORE_CHECK_SECONDS)
        except TimeoutError:
            return False

    @property
    def active_queries(self) -> int:
        """Queries that hold a place, waiting ones included."""
        return sum(not future.done() for future in self._active)

    def close(self) -> None:
        """End the threads; queries that are still queued are dropped."""
        self._query_executor.shutdown(cancel_futures=True)
        self._read_executor.shutdown(cancel_futures=True)


def run_until_complete(compute: Callable[[QueryContext], Answer], context: QueryContext) -> Answer:
    """What `compute` makes of what can be read."""
    while True:
        try:
            return compute(context)
        except SegmentUnreadable:
            continue  # each time at least one more segment is left out, so this ends


def _can_list(store: ObjectStore) -> bool:
    try:
        next(iter(store.list(ROOT)), None)
    except StoreError:
        return False
    return True
