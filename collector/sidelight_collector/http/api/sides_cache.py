"""A cache of the sides that the collector chose.

With it, a cached answer reads no object. A choice is determined by the request, whose lookback is whole
minutes, and by the live blocks and segments of the lookback.
"""

from __future__ import annotations

from typing import Final

from sidelight_collector.comparison.sides.default_sides import SideChoice, SidesRequest, choose_sides
from sidelight_collector.http.api.answer_cache import OVERHEAD_BYTES, compute_cache_key
from sidelight_collector.lru import LruCache
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.windows import WindowQuery

ANSWER_CACHE_DIVISOR: Final = 8
"""Choices may take this fraction of the memory for responses, in addition."""


class SidesCache:
    """Chooses the sides of requests, from its cache if possible."""

    def __init__(self, answer_bytes: int) -> None:
        self._cache: LruCache[SideChoice] = LruCache(answer_bytes // ANSWER_CACHE_DIVISOR)

    def get_or_choose(self, context: QueryContext, request: SidesRequest) -> SideChoice:
        """Return the sides of a request. Raises what `choose_sides` raises."""
        if request.is_complete:
            return choose_sides(context, request)
        span = request.searched_span
        key = compute_cache_key(
            repr(request), [WindowQuery(request.query, span.from_ns, span.until_ns)], context
        )
        choice = self._cache.get(key)
        if choice is None:
            choice = choose_sides(context, request)
            if not context.unreadable_count:
                self._cache.put(key, choice, OVERHEAD_BYTES + 2 * len(repr(choice)))
        return choice
