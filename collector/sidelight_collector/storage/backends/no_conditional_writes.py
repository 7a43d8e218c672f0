"""Emulates conditional writes in a store without them, for one writing process."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectEntry,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    check_condition,
)


class SingleWriterStore:
    """A wrapper that checks conditions itself, in one conditional put at a time.

    It does not protect against concurrent writes of other processes.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._lock = threading.Lock()

    @property
    def kind(self) -> str:
        return self._store.kind

    @property
    def location(self) -> str:
        return self._store.location

    def get(self, key: str) -> bytes:
        return self._store.get(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._store.get_range(key, start, end)

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        return self._store.get_with_etag(key)

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        check_condition(if_absent=if_absent, if_match=if_match)
        if not if_absent and if_match is None:
            return self._store.put(key, content)
        with self._lock:
            try:
                etag = self._store.get_with_etag(key)[1]
            except ObjectMissing:
                etag = None
            if if_absent and etag is not None:
                raise ObjectExists(key)
            if if_match is not None and etag != if_match:
                raise ObjectChanged(key)
            return self._store.put(key, content)

    def delete(self, key: str) -> None:
        self._store.delete(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        return self._store.list(prefix, start_after)
