"""An object store in memory for tests, as strict as the others."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import xxhash

from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectEntry,
    ObjectExists,
    ObjectMissing,
    check_condition,
    check_key,
    check_range,
)


class MemoryStore:
    """An object store that keeps objects in a dict under one lock."""

    kind = "memory"
    location = "memory"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[bytes, str, ObjectEntry]] = {}

    def get(self, key: str) -> bytes:
        return self.get_with_etag(key)[0]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        check_range(start, end)
        return self.get(key)[start:end]

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        check_key(key)
        with self._lock:
            stored = self._objects.get(key)
        if stored is None:
            raise ObjectMissing(key)
        content, etag, _ = stored
        return content, etag

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        check_key(key)
        check_condition(if_absent=if_absent, if_match=if_match)
        etag = xxhash.xxh3_128_hexdigest(content)
        entry = ObjectEntry(key, len(content), time.time(), etag)
        with self._lock:
            stored = self._objects.get(key)
            if if_absent and stored is not None:
                raise ObjectExists(key)
            if if_match is not None and (stored is None or stored[1] != if_match):
                raise ObjectChanged(key)
            self._objects[key] = bytes(content), etag, entry
        return etag

    def delete(self, key: str) -> None:
        check_key(key)
        with self._lock:
            self._objects.pop(key, None)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        with self._lock:
            entries = [entry for _, _, entry in self._objects.values()]
        selected = [entry for entry in entries if entry.key.startswith(prefix) and entry.key > start_after]
        yield from sorted(selected, key=lambda entry: entry.key.encode())
