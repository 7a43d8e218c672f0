"""Decoded tables in memory, the least recently used given up first."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable

import pyarrow as pa


class TableCache:
    """Keeps immutable tables up to a number of bytes (as Arrow counts them); safe in threads.

    A table larger than the whole cache is handed out and not kept. Two threads asking for the same missing
    table may both load it: loading is repeatable, and waiting for each other would cost more than it saves.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._tables: OrderedDict[Hashable, tuple[pa.Table, int]] = OrderedDict()
        self._bytes = 0
        self._hits = 0
        self._misses = 0

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def hits(self) -> int:
        return self._hits

    @property
    def misses(self) -> int:
        return self._misses

    def peek(self, key: Hashable) -> pa.Table | None:
        """The table under `key` if it is in memory."""
        with self._lock:
            found = self._tables.get(key)
            if found is None:
                return None
            self._tables.move_to_end(key)
            self._hits += 1
            return found[0]

    def get(self, key: Hashable, load: Callable[[], pa.Table]) -> pa.Table:
        """The table under `key`, loaded when it is not in memory; what `load` raises is raised."""
        found = self.peek(key)
        if found is not None:
            return found
        table = load()
        self._keep(key, table, table.nbytes)
        return table

    def _keep(self, key: Hashable, table: pa.Table, size: int) -> None:
        if size > self._max_bytes:
            return
        with self._lock:
            replaced = self._tables.pop(key, None)
            self._tables[key] = table, size
            self._misses += 1
            self._bytes += size - (replaced[1] if replaced else 0)
            while self._bytes > self._max_bytes:
                _, (_, freed) = self._tables.popitem(last=False)
                self._bytes -= freed
