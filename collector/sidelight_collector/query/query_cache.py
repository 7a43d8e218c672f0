"""Caches in memory that queries share: tables, manifests and listings."""

from collections.abc import Callable, Hashable

import pyarrow as pa

from sidelight_collector.lru import LruCache
from sidelight_collector.query.shared_calls import SharedCalls
from sidelight_collector.storage.manifest import Manifest


class TableCache(LruCache[pa.Table]):
    """A thread-safe LRU cache of immutable tables, bounded in bytes.

    The size of a table is its size in Arrow. A table larger than the whole cache is returned and not
    cached. Two threads that request the same missing table may both load it: loading is idempotent, and a
    lock would cost more than it saves.
    """

    def get_or_load(self, key: Hashable, load: Callable[[], pa.Table]) -> pa.Table:
        """Return the table of `key`, loaded if it is not cached.

        Raises what `load` raises.
        """
        cached = self.get(key)
        if cached is not None:
            return cached
        table = load()
        self.put(key, table, table.nbytes)
        return table


class ListingCache:
    """Parsed manifests, bounded in bytes, and the listings that queries share."""

    def __init__(self, max_bytes: int) -> None:
        self.manifests: LruCache[Manifest] = LruCache(max_bytes)
        self.calls = SharedCalls()
