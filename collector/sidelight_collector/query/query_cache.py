"""Caches in memory that queries share: tables, manifests and listings."""

from collections.abc import Hashable

import pyarrow as pa

from sidelight_collector.lru import LruCache
from sidelight_collector.query.shared_calls import SharedCalls
from sidelight_collector.storage.manifest import Manifest


class TableCache(LruCache[pa.Table]):
    """A thread-safe LRU cache of immutable tables, bounded in bytes.

    The size of a table is its size in Arrow.
    """

    def add(self, key: Hashable, table: pa.Table) -> None:
        """Store a table for `key`, unless it is larger than the whole cache."""
        self.put(key, table, table.nbytes)


class ListingCache:
    """Parsed manifests, bounded in bytes, and the listings that queries share."""

    def __init__(self, max_bytes: int) -> None:
        self.manifests: LruCache[Manifest] = LruCache(max_bytes)
        self.calls = SharedCalls()
