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

MAX_ATTEMPTS: Final = 20
"""Attempts to change a document while other writers are faster."""
READ_CONCURRENCY: Final = 8

_log = structlog.get_logger()

Document = TypeVar("Document")
Current = TypeVar("Current")
"""What `change` gets: a document, or one that may be missing."""


@dataclass(frozen=True, slots=True)
class Stored(Generic[Document]):
    """A document as it was read or written, with its encoded size in bytes.

    `etag` is None if the store has no such document.
    """

    document: Document
    etag: str | None
    size: int = 0


class DocumentStore(Generic[Document]):
    """Documents of one kind in a store; safe to use from many threads.

    All calls block. `decode` takes a key and the content, and raises ObjectDamaged.
    """

    def __init__(
        self,
        store: ObjectStore,
        encode: Callable[[Document], bytes],
        decode: Callable[[str, bytes], Document],
    ) -> None:
        self._store = store
        self._encode = encode
        self._decode = decode

    def load(self, key: str) -> Stored[Document]:
        """Read one document. Raises ObjectMissing, ObjectDamaged."""
        content, etag = self._store.get_with_etag(key)
        return Stored(self._decode(key, content), etag, len(content))

    def find(self, key: str) -> Stored[Document | None]:
        """As `load`, but the document is None if it is missing or damaged."""
        try:
            content, etag = self._store.get_with_etag(key)
        except ObjectMissing:
            return Stored(None, None)
        with suppress(ObjectDamaged):
            return Stored(self._decode(key, content), etag, len(content))
        return Stored(None, etag, len(content))

    def commit(self, key: str, document: Document, etag: str | None) -> Stored[Document] | None:
        """Replace the document that has this etag; None if another writer was faster.

        Without an etag, create it. If the network loses the response, the result may be None although the
        commit succeeded.
        """
        content = self._encode(document)
        try:
            written = self._store.put(key, content, if_absent=etag is None, if_match=etag)
        except (ObjectExists, ObjectChanged):
            return None
        return Stored(document, written, len(content))

    def update(self, key: str, change: Callable[[Document], Document | None]) -> Document:
        """Replace a document by what `change` makes of it, and return it.

        `change` returns None to leave the document as it is, and is called again after a faster writer.
        Raises ObjectMissing, ObjectDamaged, and StoreUnavailable after MAX_ATTEMPTS.
        """
        return self._change(key, self.load, change)

    def upsert(self, key: str, change: Callable[[Document | None], Document | None]) -> Document | None:
        """As `update`, but `change` gets None for a document that is missing or damaged."""
        return self._change(key, self.find, change)

    def _change(
        self,
        key: str,
        read: Callable[[str], Stored[Current]],
        change: Callable[[Current], Document | None],
    ) -> Current | Document:
        for _ in range(MAX_ATTEMPTS):
            stored = read(key)
            changed = change(stored.document)
            if changed is None:
                return stored.document
            if self.commit(key, changed, stored.etag):
                return changed
        raise StoreUnavailable(f"{key} is being changed by other collectors", hint="Try again.")


class DocumentCollection(DocumentStore[Document]):
    """Documents that are also read by listing, in several threads.

    Listed documents are cached, up to `cache_bytes` of memory, as what `summarize` leaves of them; `measure`
    estimates the memory of one from the document and its encoded bytes.
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
        super().__init__(store, encode, decode)
        self._measure = measure
        self._summarize = summarize
        self._cache: LruCache[tuple[Document | None]] = LruCache(cache_bytes)
        self._read_pool = ThreadPoolExecutor(READ_CONCURRENCY, thread_name_prefix=f"{name}-read")

    def close(self) -> None:
        """Stop the reading threads."""
        self._read_pool.shutdown(cancel_futures=True)

    def load_all(self, keys: Iterable[str]) -> Iterator[Document]:
        """Read documents concurrently, in order, without missing or damaged ones."""
        stored = self._read_pool.map(self.find, keys)
        return (each.document for each in stored if each.document is not None)

    def load_listed(self, entries: Iterable[ObjectEntry]) -> Iterator[Document]:
        """As `load_all`, but take unchanged documents from the cache."""
        return (
            document for document in self._read_pool.map(self._load_cached, entries) if document is not None
        )

    def load_contents(self, keys: Iterable[str]) -> Iterator[bytes | None]:
        """Read the bytes of objects concurrently, in order; None if missing."""
        return self._read_pool.map(self._read_or_none, keys)

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
