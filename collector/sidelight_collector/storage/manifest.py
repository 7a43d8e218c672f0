"""Manifests: which blocks hold a day, and which objects they took the place of.

A block is tables like a segment's, and what they add up to, made of segments and of smaller blocks of the
same day. Nobody finds it by listing: it counts from the moment on which the day's manifest names it, and
what it was made of counts no longer. That moment is one write, of an object that has not changed since it was
read:

    v1/manifest/2026-11-21.json

    {"blocks": [{"key": "v1/raw/2026-11-21/1795252800000-1795256399000-0123456789abcdef/",
                 "parts": {"hours": 2044, "profiles": 4310, "samples": 49120, "stacks": 3377, "sums": 6120},
                 "rows": 9120, "services": ["shop"], "windows": 60}],
     "check": "5f2d1f7b3c0a9e84",
     "format": 1, "gone": ["v1/l0/2026-11-21/1795252800000-1795252859000-8426582ca3437431/"]}

`check` is the XXH3 64-bit hash of the same text without it: a digit that has changed would be another block,
and the one that it was would be deleted as a stray.

No window is in two blocks of one manifest. What is gone, a segment, a block or one table of a block, is
deleted later, when no query can be reading it any longer; until then the manifest says that it does not
count.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from typing import Any, Final

import xxhash

from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreError,
    StoreIncompatible,
)
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import SCHEMAS, SEGMENT_PARTS, SegmentPart

ROOT: Final = "v1/manifest/"
BLOCK_ROOT: Final = "v1/raw/"
FORMAT: Final = 1

_KEY_PATTERN: Final = re.compile(r"v1/manifest/(\d{4}-\d\d-\d\d)\.json")
_KEY_PREFIX_PATTERN: Final = re.compile(r"v1/(?:l0|raw)/\d{4}-\d\d-\d\d/(\d{13})-(\d{13})-[0-9a-f]{16}/")
_PART_KEY_PATTERN: Final = re.compile(rf"{_KEY_PREFIX_PATTERN.pattern}({'|'.join(SCHEMAS)})\.parquet")


class ManifestDamaged(StoreError):
    """A manifest is not what this version or an older one wrote."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(
            f"the manifest {key!r} cannot be read: {problem}",
            hint="The windows of its blocks are missing until it is restored, from a copy for instance.",
        )


@dataclass(frozen=True, slots=True)
class Block:
    """A block as its manifest describes it: rows of `samples`, and the bytes of each of its tables."""

    ref: SegmentRef
    services: tuple[str, ...]
    windows: int
    rows: int
    parts: Mapping[SegmentPart, int]

    @property
    def bytes(self) -> int:
        """Of all its tables."""
        return sum(self.parts.values())

    def drop_parts(self, parts: Iterable[SegmentPart]) -> Block:
        """The same block when these tables of it are gone."""
        left = {part: size for part, size in self.parts.items() if part not in parts}
        return replace(self, ref=replace(self.ref, parts=frozenset(left)), parts=left)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The blocks of a day in the order in which they count, and what they took the place of.

    `tombstones` has key prefixes of segments and blocks, each ends with `/`, and keys of single tables.
    """

    blocks: tuple[Block, ...] = ()
    tombstones: frozenset[str] = frozenset()

    def encode(self) -> bytes:
        """As it lies in the store: equal manifests are equal bytes."""
        blocks = [
            {
                "key": block.ref.key_prefix,
                "services": list(block.services),
                "windows": block.windows,
                "rows": block.rows,
                "parts": dict(block.parts),
            }
            for block in self.blocks
        ]
        content = {"format": FORMAT, "blocks": blocks, "gone": sorted(self.tombstones)}
        return _to_json({**content, "check": _compute_checksum(content)})


@dataclass(frozen=True, slots=True)
class ManifestVersion:
    """A manifest as it was read; `etag` is None if there was none yet. `size` is in bytes of JSON."""

    manifest: Manifest
    etag: str | None
    size: int = 0


def key_of(day: date) -> str:
    """Where the manifest of a day lies."""
    return f"{ROOT}{day.isoformat()}.json"


def list_days(store: ObjectStore) -> list[date]:
    """The days that have a manifest, in order."""
    return list(list_etags(store))


def list_etags(store: ObjectStore) -> dict[date, str | None]:
    """The days that have a manifest, in order, with the etag of each where listings of the store have it."""
    found: dict[date, str | None] = {}
    for entry in store.list(ROOT):
        if match := _KEY_PATTERN.fullmatch(entry.key):
            with suppress(ValueError):  # no day of any month: somebody else's
                found[date.fromisoformat(match[1])] = entry.etag
    return found


def read(store: ObjectStore, day: date) -> ManifestVersion:
    """The manifest of a day; an empty one if there is none. Raises ManifestDamaged, StoreIncompatible."""
    try:
        return _read_once(store, day)
    except ManifestDamaged:
        return _read_once(store, day)  # it may have been damaged on its way


def _read_once(store: ObjectStore, day: date) -> ManifestVersion:
    key = key_of(day)
    try:
        content, etag = store.get_with_etag(key)
    except ObjectMissing:
        return ManifestVersion(Manifest(), None)
    return ManifestVersion(decode(content, key), etag, len(content))


def commit(
    store: ObjectStore, day: date, base: ManifestVersion, manifest: Manifest
) -> ManifestVersion | None:
    """Put a manifest in the place of the one that was read; None if another writer was faster.

    A commit whose answer was lost may be told as None, and may have been made all the same.
    """
    content = manifest.encode()
    try:
        if base.etag is None:
            return ManifestVersion(manifest, store.put(key_of(day), content, if_absent=True), len(content))
        return ManifestVersion(manifest, store.put(key_of(day), content, if_match=base.etag), len(content))
    except (ObjectExists, ObjectChanged):
        return None


def decode(content: bytes, key: str) -> Manifest:
    """What `encode` wrote; `key` is for the message."""
    try:
        told = json.loads(content)
        check = told.pop("check", None)
        if check is not None and check != _compute_checksum(told):
            raise ManifestDamaged(key, "its checksum is that of other bytes")
        if told["format"] > FORMAT:
            raise StoreIncompatible(
                f"the manifest {key!r} is in format {told['format']}, and this version reads up to {FORMAT}",
                hint="Run the version of Sidelight that wrote it, or a later one.",
            )
        return Manifest(tuple(_parse_blocks(told["blocks"])), frozenset(map(_parse_tombstone, told["gone"])))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestDamaged(key, f"{type(error).__name__}: {error}") from error


def _to_json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _compute_checksum(content: Mapping[str, Any]) -> str:
    return xxhash.xxh3_64_hexdigest(_to_json(content))


def _parse_blocks(entries: Iterable[Mapping[str, Any]]) -> Iterable[Block]:
    for each in entries:
        ref = parse_key_prefix(str(each["key"]))
        services = tuple(str(service) for service in each["services"])
        windows, rows = int(each["windows"]), int(each["rows"])
        parts = {_parse_part(name): int(size) for name, size in _parse_part_sizes(each).items()}
        yield Block(replace(ref, parts=frozenset(parts), rows=rows), services, windows, rows, parts)


def _parse_part_sizes(entry: Mapping[str, Any]) -> Mapping[str, int]:
    """The bytes of each table; the first blocks tell only those of all, and whether they have sums."""
    if "parts" in entry:
        return dict(entry["parts"])
    sums: dict[str, int] = {"sums": 0} if int(entry["sums"]) else {}
    return {**dict.fromkeys(SEGMENT_PARTS, 0), **sums, "samples": int(entry["bytes"])}


def _parse_part(name: str) -> SegmentPart:
    if name not in SCHEMAS:
        raise ValueError(f"{name!r} is no table of a block")
    return name


def _parse_tombstone(key: object) -> str:
    if isinstance(key, str) and (_KEY_PREFIX_PATTERN.fullmatch(key) or _PART_KEY_PATTERN.fullmatch(key)):
        return key
    raise ValueError(f"{key!r} names no segment, no block and no table of one")


def is_key_prefix(key_prefix: str) -> bool:
    """Whether a segment or a block can have this key prefix."""
    return _KEY_PREFIX_PATTERN.fullmatch(key_prefix) is not None


def parse_key_prefix(key_prefix: str) -> SegmentRef:
    """The segment or block with this key prefix; ValueError if none can have it."""
    match = _KEY_PREFIX_PATTERN.fullmatch(key_prefix)
    if match is None:
        raise ValueError(f"{key_prefix!r} names no segment and no block")
    return SegmentRef(key_prefix, int(match[1]), int(match[2]))
