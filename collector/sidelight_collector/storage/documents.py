"""JSON documents in the store, changed by compare-and-swap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

import orjson
import structlog

from sidelight_collector.lru import LruCache
from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectDamaged,
    ObjectEntry,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreUnavailable,
)
from sidelight_model.errors import SidelightError

MAX_ATTEMPTS: Final = 20
"""Attempts to change a document while other writers are faster."""
READ_CONCURRENCY: Final = 8

_log = structlog.get_logger()

Document = TypeVar("Document")


@dataclass(frozen=True, slots=True)
class Stored(Generic[Document]):
    """A document as it was read, with its etag."""

    document: Document
    etag: str


class DocumentStore(Generic[Document]):
    """Documents of one kind in a store; safe to use from many threads.

    All calls block. `decode` takes a key and the content, and raises ObjectDamaged. Listed documents are
    cached, up to `cache_bytes` of memory, as what `summarize` leaves of them; `measure` estimates the
    memory of one from the document and its encoded bytes.
    """

    def __init__(
        self,
        store: ObjectStore,
        encode: Callable[[Document], bytes],
        decode: Callable[[str, bytes], Document],
        *,
        name: str,
        cache_bytes: int = 0,
        measure: Callable[[Document, int], int] = lambda _, size: size,
        summarize: Callable[[Document], Document] = lambda document: document,
    ) -> None:
        self._store = store
        self._encode = encode
        self._decode = decode
        self._measure = measure
        self._summarize = summarize
        self._cache: LruCache[tuple[Document | None]] = LruCache(cache_bytes)
        self._read_pool = ThreadPoolExecutor(READ_CONCURRENCY, thread_name_prefix=f"{name}-read")

    def close(self) -> None:
        """Stop the reading threads."""
        self._read_pool.shutdown(cancel_futures=True)

    def create(self, key: str, document: Document) -> None:
        """Write a new document. Raises ObjectExists."""
        self._store.put(key, self._encode(document), if_absent=True)

    def load(self, key: str) -> Stored[Document]:
        """Read one document. Raises ObjectMissing, ObjectDamaged."""
        content, etag = self._store.get_with_etag(key)
        return Stored(self._decode(key, content), etag)

    def update(self, key: str, change: Callable[[Document], Document | None]) -> Document:
        """Replace a document by what `change` makes of it, and return it.

        `change` returns None to leave the document as it is, and is called again after a faster writer.
        Raises ObjectMissing, ObjectDamaged, and StoreUnavailable after MAX_ATTEMPTS.
        """
        for _ in range(MAX_ATTEMPTS):
            stored = self.load(key)
            changed = change(stored.document)
            if changed is None:
                return stored.document
            with suppress(ObjectChanged):
                self._store.put(key, self._encode(changed), if_match=stored.etag)
                return changed
        raise self._conflict(key)

    def upsert(self, key: str, change: Callable[[Document | None], Document | None]) -> bool:
        """Create or replace a document; return whether something was written.

        As `update`, but `change` gets None for a document that is missing or damaged.
        """
        for _ in range(MAX_ATTEMPTS):
            etag, old = None, None
            with suppress(ObjectMissing):
                content, etag = self._store.get_with_etag(key)
                with suppress(ObjectDamaged):
                    old = self._decode(key, content)
            changed = change(old)
            if changed is None:
                return False
            with suppress(ObjectChanged, ObjectExists):
                self._store.put(key, self._encode(changed), if_absent=etag is None, if_match=etag)
                return True
        raise self._conflict(key)

    def load_all(self, keys: Iterable[str]) -> Iterator[Document]:
        """Read documents concurrently, in order, without missing or damaged ones."""
        return (
            document for document in self._read_pool.map(self._load_or_none, keys) if document is not None
        )

    def load_listed(self, entries: Iterable[ObjectEntry]) -> Iterator[Document]:
        """As `load_all`, but take unchanged documents from the cache."""
        return (
            document for document in self._read_pool.map(self._load_cached, entries) if document is not None
        )

    def load_contents(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """Read the bytes of objects concurrently, in order; None if missing."""
        return self._read_pool.map(self._read_or_none, keys)

    def _conflict(self, key: str) -> SidelightError:
        return StoreUnavailable(f"{key} is being changed by other collectors", hint="Try again.")

    def _load_or_none(self, key: str) -> Document | None:
        with suppress(ObjectMissing, ObjectDamaged):
            return self.load(key).document
        return None

    def _read_or_none(self, key: str) -> bytes | None:
        with suppress(ObjectMissing):
            return self._store.get(key)
        return None

    def _load_cached(self, entry: ObjectEntry) -> Document | None:
        if entry.etag is not None and (cached := self._cache.get((entry.key, entry.etag))):
            return cached[0]
        try:
            content, etag = self._store.get_with_etag(entry.key)
        except ObjectMissing:
            return None
        document, size = None, len(content)
        try:
            document = self._summarize(self._decode(entry.key, content))
            size = self._measure(document, size)
        except ObjectDamaged as error:
            # Cached as well, so that each listing neither reads nor logs it again.
            _log.warning("a stored document cannot be read", error=error.message, hint=error.hint)
        self._cache.put((entry.key, etag), (document,), size)
        return document


def parse_document(key: str, content: bytes, newest_format: int) -> dict[str, Any]:
    """Parse a JSON object whose `format` is 1 to `newest_format`.

    Raises ObjectDamaged.
    """
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise ObjectDamaged(key, str(error)) from error
    if not isinstance(document, dict) or not isinstance(document.get("format"), int):
        raise ObjectDamaged(key, "it is not a JSON object with a format")
    version = document["format"]
    if not 1 <= version <= newest_format:
        raise ObjectDamaged(key, f"it is in format {version}, and this version reads up to {newest_format}")
    return document


def rename_fields(document: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the object with other names for some of its fields."""
    return {names.get(name, name): value for name, value in document.items()}
