"""Run queries in a bounded pool of threads with a bounded queue and deadlines."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

from sidelight_collector.query.query_cache import ListingCache, TableCache
from sidelight_collector.query.query_context import (
    Deadline,
    QueryContext,
    SegmentUnreadable,
    Stage1,
)
from sidelight_collector.query.query_errors import QueryTimeout, TooManyQueries
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.query.request_counts import RequestCountSource
from sidelight_collector.storage.objects import ObjectStore, StoreError
from sidelight_collector.storage.segments import ROOT

Answer = TypeVar("Answer")

STORE_CHECK_SECONDS: Final = 5.0
MANIFEST_CACHE_DIVISOR: Final = 8
"""The cache of manifests may take this fraction of the memory for tables, in addition."""


class QueryEngine:
    """Runs queries against one store, and caches the decoded tables.

    A query that exceeds its time limit fails at once and ends at its next check. It counts as active until
    then, so that abandoned work is bounded too.

    on_unreadable: called after each query with the number of segments that it excluded as unreadable.
    stage1: an external engine that sums stacks instead of this process.
    on_corrupt: called with the key of each damaged object.
    request_counts: the source of request counts.

    `close` waits for running queries.
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
        self._listings = ListingCache(limits.cache_bytes // MANIFEST_CACHE_DIVISOR)
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
        """Call `compute` in a thread, and return its result.

        If segments that it used turn out unreadable, `compute` is called again without them. Raises
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
            self._listings,
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
        """Whether the store can be listed within STORE_CHECK_SECONDS."""
        future = self._read_executor.submit(_can_list, self._store)
        try:
            return await asyncio.wait_for(asyncio.wrap_future(future), STORE_CHECK_SECONDS)
        except TimeoutError:
            return False

    @property
    def active_queries(self) -> int:
        """Queries that run or wait."""
        return sum(not future.done() for future in self._active)

    def close(self) -> None:
        """Cancel queued queries, and wait for running ones."""
        self._query_executor.shutdown(cancel_futures=True)
        self._read_executor.shutdown(cancel_futures=True)


def run_until_complete(compute: Callable[[QueryContext], Answer], context: QueryContext) -> Answer:
    """Call `compute` until all the segments that it uses are readable."""
    while True:
        try:
            return compute(context)
        except SegmentUnreadable:
            continue  # each attempt excludes at least one more segment, so the loop ends


def _can_list(store: ObjectStore) -> bool:
    try:
        next(iter(store.list(ROOT)), None)
    except StoreError:
        return False
    return True
