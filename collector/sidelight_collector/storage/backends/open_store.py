"""Opens the object store that --store names, and verifies that it works."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Final

from sidelight_collector.storage.backends.directory import DirectoryStore
from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreIncompatible,
    StoreRefused,
)

FORMAT: Final = 1
CONFIG_KEY: Final = "v1/config.json"
PROBE_ROOT: Final = "v1/probe/"


@dataclass(frozen=True, slots=True)
class StoreCapabilities:
    """The format of a store, and whether it supports conditional writes."""

    format: int
    conditional_writes: bool


def open_store(
    location: str, *, s3_endpoint: str | None = None, timeout_seconds: float = 20.0, read_only: bool = False
) -> ObjectStore:
    """Open the store at a directory path or `s3://bucket/prefix`.

    With `read_only`, opening changes nothing, and a missing directory is an error. Raises StoreError if the
    store cannot be used.
    """
    scheme, separator, rest = location.partition("://")
    if not separator:
        return DirectoryStore(Path(location), read_only=read_only)
    bucket, _, prefix = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise StoreRefused(
            f"{location!r} is not a store", hint="--store is a directory path or s3://bucket/prefix."
        )
    # Imported here because the import of the SDK takes a third of a second.
    from sidelight_collector.storage.backends.s3 import S3Store

    return S3Store(bucket, prefix, endpoint=s3_endpoint, timeout=timeout_seconds)


def verify_store(store: ObjectStore) -> StoreCapabilities:
    """Probe the store, then create or check the format marker.

    Raises StoreError, with which the collector exits at start-up.
    """
    conditional = probe_store(store)
    return StoreCapabilities(_ensure_format_marker(store, conditional_writes=conditional), conditional)


def probe_store(store: ObjectStore) -> bool:
    """Write, read, replace, list and delete an object.

    Returns whether the store supports conditional writes. Raises StoreError.
    """
    key = f"{PROBE_ROOT}{token_hex(16)}"
    content = token_hex(16).encode()
    store.put(key, content)
    try:
        stored, etag = store.get_with_etag(key)
        if stored != content or [entry.key for entry in store.list(key)] != [key]:
            raise StoreRefused(
                f"{store.location} does not give back what was written a moment ago",
                hint="The collector needs a store that is consistent after each write, as S3 is.",
            )
        return _has_conditional_writes(store, key, etag)
    finally:
        store.delete(key)


def _has_conditional_writes(store: ObjectStore, key: str, etag: str) -> bool:
    try:
        store.put(key, b"if absent", if_absent=True)
    except ObjectExists:
        return _has_if_match(store, key, etag)
    except StoreRefused:
        return False
    return False


def _has_if_match(store: ObjectStore, key: str, etag: str) -> bool:
    try:
        store.put(key, b"replaced", if_match=etag)
        store.put(key, b"replaced again", if_match=etag)
    except ObjectChanged:
        return store.get(key) == b"replaced"
    except StoreRefused:
        return False
    return False


def _ensure_format_marker(store: ObjectStore, *, conditional_writes: bool) -> int:
    try:
        raw = store.get(CONFIG_KEY)
    except ObjectMissing:
        raw = json.dumps({"format": FORMAT}).encode()
        try:
            store.put(CONFIG_KEY, raw, if_absent=conditional_writes)
        except ObjectExists:
            raw = store.get(CONFIG_KEY)
    return parse_format_marker(raw, store.location)


def parse_format_marker(raw: bytes, location: str) -> int:
    """Parse the format of a store from its marker.

    Raises StoreIncompatible for a newer format and for an invalid marker.
    """
    try:
        store_format = json.loads(raw)["format"]
    except (ValueError, KeyError, TypeError):
        store_format = None
    if not isinstance(store_format, int) or store_format < 1:
        raise StoreIncompatible(
            f"{CONFIG_KEY} in {location} is not a format marker of Sidelight",
            hint="Choose another --store, or another prefix in the bucket.",
        )
    if store_format > FORMAT:
        raise StoreIncompatible(
            f"{location} is in format {store_format}, and this version reads up to {FORMAT}",
            hint="Run the version of Sidelight that wrote it, or a later one.",
        )
    return store_format
