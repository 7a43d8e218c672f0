"""An object store that records metrics of its operations."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from sidelight_collector.metrics import Metrics
from sidelight_collector.storage.objects import (
    GroupWriter,
    ObjectChanged,
    ObjectEntry,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreError,
    put_each,
)


class InstrumentedStore:
    """A wrapper that times the operations of a store and counts its failures.

    ObjectMissing, ObjectExists and ObjectChanged are not counted as failures.
    """

    def __init__(self, store: ObjectStore, metrics: Metrics) -> None:
        self._store = store
        self._metrics = metrics

    @property
    def kind(self) -> str:
        return self._store.kind

    @property
    def location(self) -> str:
        return self._store.location

    def get(self, key: str) -> bytes:
        with self._measure("get"):
            return self._store.get(key)

    def get_range(self, key: str, start: int, end: int) -> bytes:
        with self._measure("get"):
            return self._store.get_range(key, start, end)

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        with self._measure("get"):
            return self._store.get_with_etag(key)

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        with self._measure("put"):
            return self._store.put(key, content, if_absent=if_absent, if_match=if_match)

    def put_all(self, contents: Mapping[str, bytes], *, last_if_absent: bool = False) -> None:
        if not isinstance(self._store, GroupWriter):
            put_each(self, contents, last_if_absent=last_if_absent)
            return
        with self._measure("put"):
            self._store.put_all(contents, last_if_absent=last_if_absent)

    def delete(self, key: str) -> None:
        with self._measure("delete"):
            self._store.delete(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        with self._measure("list"):
            yield from self._store.list(prefix, start_after)

    @contextmanager
    def _measure(self, operation: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        except (ObjectMissing, ObjectExists, ObjectChanged):
            raise
        except StoreError:
            self._metrics.store_errors.labels(operation).inc()
            raise
        finally:
            self._metrics.store_seconds.labels(operation).observe(time.perf_counter() - start)
