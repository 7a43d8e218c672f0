"""An object store that says what was asked of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sidelight_collector.storage.objects import ObjectEntry, ObjectStore


class Counting:
    """Another store; `gets` has how often each key was read, `lists` how often each prefix was listed."""

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.gets: Counter[str] = Counter()
        self.lists: Counter[str] = Counter()

    @property
    def kind(self) -> str:
        return self.store.kind

    @property
    def location(self) -> str:
        return self.store.location

    def get(self, key: str) -> bytes:
        self.gets[key] += 1
        return self.store.get(key)

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        self.gets[key] += 1
        return self.store.get_with_etag(key)

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        return self.store.put(key, content, if_absent=if_absent, if_match=if_match)

    def delete(self, key: str) -> None:
        self.store.delete(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        self.lists[prefix] += 1
        return self.store.list(prefix, start_after)

    def tables(self) -> set[str]:
        """Which tables were read: `profiles`, `samples`, …"""
        return {key.rpartition("/")[2].removesuffix(".parquet") for key in self.gets if ".parquet" in key}
