"""A cache in memory, bounded in bytes, that evicts the least recently used values."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """A thread-safe cache of immutable values, whose sizes the caller declares.

    A value larger than the whole cache is not cached.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._bytes = 0
        self._hits = 0
        self._misses = 0

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def hits(self) -> int:
        return self._hits

    @property
    def misses(self) -> int:
        """Values that were put into the cache after a failed lookup."""
        return self._misses

    def __contains__(self, key: Hashable) -> bool:
        return key in self._values

    def get(self, key: Hashable) -> Value | None:
        """Return the value of `key`, or None if it is not cached."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                return None
            self._values.move_to_end(key)
            self._hits += 1
            return entry[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        """Store a value of `size` bytes for `key`, and replace any other."""
        if size > self._max_bytes:
            return
        with self._lock:
            replaced = self._values.pop(key, None)
            self._values[key] = value, size
            self._misses += 1
            self._bytes += size - (replaced[1] if replaced else 0)
            while self._bytes > self._max_bytes:
                _, (_, freed) = self._values.popitem(last=False)
                self._bytes -= freed
