"""Turning what --store says into an object store that is known to work."""

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
    """What was found out about a store: its format, and whether conditional writes hold there."""

    format: int
    conditional_writes: bool


def open_store(
    location: str, *, s3_endpoint: str | None = None, timeout_seconds: float = 20.0, read_only: bool = False
) -> ObjectStore:
    """The store at a directory path or `s3://bucket/prefix`. Raises StoreError when it cannot be used.

    With `read_only` opening it changes nothing: a directory that is not there is refused.
    """
    scheme, separator, rest = location.partition("://")
    if not separator:
        return DirectoryStore(Path(location), read_only=read_only)
    bucket, _, prefix = rest.partition("/")
    if scheme != "s3" or not bucket:
        raise StoreRefused(
            f"{location!r} is not a store", hint="--store is a directory path or s3://bucket/prefix."
        )
    # Imported here because the SDK takes a third of a second that a directory need not pay.
    from sidelight_collector.storage.backends.s3 import S3Store

    return S3Store(bucket, prefix, endpoint=s3_endpoint, timeout=timeout_seconds)


def verify_store(store: ObjectStore) -> StoreCapabilities:
    """Write, read, replace, list and delete a probe, then create or check the format marker.

    Raises StoreError: the cause the collector exits with at start-up.
    """
    conditional = probe_store(store)
    return StoreCapabilities(_ensure_format_marker(store, conditional_writes=conditional), conditional)


def probe_store(store: ObjectStore) -> bool:
    """Write, read, replace, list and delete an object; whether conditional writes hold. Raises StoreError."""
    key = f"{PROBE_ROOT}{token_hex(16)}"
    content = token_hex(16).encode()
    store.put(key, content)
    try:
        found, etag = store.get_with_etag(key)
        if found != content or [entry.key for entry in store.list(key)] != [key]:
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
    """The format that a marker tells. Raises StoreIncompatible for a later one, and for what is no marker."""
    try:
        found = json.loads(raw)["format"]
    except (ValueError, KeyError, TypeError):
        found = None
    if not isinstance(found, int) or found < 1:
        raise StoreIncompatible(
            f"{CONFIG_KEY} in {location} is not a format marker of Sidelight",
            hint="Choose another --store, or another prefix in the bucket.",
        )
    if found > FORMAT:
        raise StoreIncompatible(
            f"{location} is in format {found}, and this version reads up to {FORMAT}",
            hint="Run the version of Sidelight that wrote it, or a later one.",
        )
    return found
