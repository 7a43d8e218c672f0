"""Decoded tables in memory, the least recently used given up first."""

from collections.abc import Callable, Hashable

import pyarrow as pa

from sidelight_collector.lru import LruCache


class TableCache(LruCache[pa.Table]):
    """Keeps immutable tables up to a number of bytes (as Arrow counts them); safe in threads.

    A table larger than the whole cache is handed out and not kept. Two threads asking for the same missing
    table may both load it: loading is repeatable, and waiting for each other would cost more than it saves.
    """

    def get_or_load(self, key: Hashable, load: Callable[[], pa.Table]) -> pa.Table:
        """The table under `key`, loaded when it is not in memory; what `load` raises is raised."""
        found = self.get(key)
        if found is not None:
            return found
        table = load()
        self.put(key, table, table.nbytes)
        return table
