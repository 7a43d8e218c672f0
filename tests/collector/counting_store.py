"""An object store that says what was asked of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sidelight_collector.storage.objects import ObjectEntry, ObjectStore


class Counting:
    """Another store, whose requests are counted.

    `gets` and `puts` have how often each key was read or written, `lists` how often each prefix was listed,
    `deletes` how often each key was deleted. `read_bytes` and `written_bytes` are the sizes of the contents.
    """

    def __init__(self, store: ObjectStore) -> None:
        self.store = store
        self.reset()

    def reset(self) -> None:
        """Start counting anew."""
        self.gets: Counter[str] = Counter()
        self.lists: Counter[str] = Counter()
        self.puts: Counter[str] = Counter()
        self.deletes: Counter[str] = Counter()
        self.read_bytes = 0
        self.written_bytes = 0

    @property
    def kind(self) -> str:
        return self.store.kind

    @property
    def location(self) -> str:
        return self.store.location

    def get(self, key: str) -> bytes:
        self.gets[key] += 1
        content = self.store.get(key)
        self.read_bytes += len(content)
        return content

    def get_range(self, key: str, start: int, end: int) -> bytes:
        self.gets[key] += 1
        content = self.store.get_range(key, start, end)
        self.read_bytes += len(content)
        return content

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        self.gets[key] += 1
        content, etag = self.store.get_with_etag(key)
        self.read_bytes += len(content)
        return content, etag

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        self.puts[key] += 1
        self.written_bytes += len(content)
        return self.store.put(key, content, if_absent=if_absent, if_match=if_match)

    def delete(self, key: str) -> None:
        self.deletes[key] += 1
        self.store.delete(key)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        self.lists[prefix] += 1
        return self.store.list(prefix, start_after)

    def tables(self) -> set[str]:
        """Which tables were read: `profiles`, `samples`, …"""
        return {key.rpartition("/")[2].removesuffix(".parquet") for key in self.gets if ".parquet" in key}
