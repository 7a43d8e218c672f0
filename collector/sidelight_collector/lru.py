"""Values in memory up to a number of bytes, the least recently used given up first."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """Keeps immutable values, each said to have a size; safe in threads.

    A value larger than the whole is not kept.
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
        """How many values were put here that were not here when they were asked for."""
        return self._misses

    def get(self, key: Hashable) -> Value | None:
        """The value under `key` if it is in memory."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            self._hits += 1
            return found[0]

    def put(self, key: Hashable, value: Value, size: int) -> None:
        """Put a value under `key`, in the place of any other."""
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
