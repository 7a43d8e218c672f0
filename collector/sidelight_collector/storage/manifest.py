"""Manifests, which name the blocks of a day and the objects that they replaced.

Compaction builds a block from segments and smaller blocks of one day. Readers do not find blocks by
listing: a block counts once the manifest of its day names it, and from then on its inputs do not count. A
commit is one conditional write of this object:

    v1/manifest/2026-11-21.json

    {"blocks": [{"key": "v1/raw/2026-11-21/1795252800000-1795256399000-0123456789abcdef/",
                 "parts": {"hours": 2044, "profiles": 4310, "samples": 49120, "stacks": 3377, "sums": 6120},
                 "rows": 9120, "services": ["shop"], "windows": 60}],
     "check": "5f2d1f7b3c0a9e84",
     "format": 1, "gone": ["v1/l0/2026-11-21/1795252800000-1795252859000-8426582ca3437431/"]}

`check` is the XXH3 64-bit hash of the same text without this field. Without it, a changed digit would name
another block, and compaction would delete the real one as an orphaned object.

No window is in two blocks of one manifest. `gone` lists tombstones: segments, blocks and single tables of
blocks that no longer count. Compaction deletes these objects later, once no query can still be reading
them.

`rollups` lists sums of several blocks (see `day_rollup`), like `blocks`, each with the blocks that it sums. A
rollup counts while the day has all of them with their single windows.

`ids` has the first and the last time in the ids of a block, `stray_ids` is present in one with such ids, see
`window_ids`. `state` is present once retention drops single windows of the day, and with them the ids that
tell a repeated window from a new one, see DayState.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum
from typing import Any, Final

import xxhash

from sidelight_collector.storage.documents import DocumentStore, Stored
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreError, StoreIncompatible
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import SCHEMAS, SEGMENT_PARTS, SegmentPart

ROOT: Final = "v1/manifest/"
BLOCK_ROOT: Final = "v1/raw/"
ROLLUP_ROOT: Final = "v1/rollup/"
FORMAT: Final = 1

_KEY_PATTERN: Final = re.compile(r"v1/manifest/(\d{4}-\d\d-\d\d)\.json")
_KEY_PREFIX_PATTERN: Final = re.compile(
    r"v1/(?:l0|raw|rollup)/\d{4}-\d\d-\d\d/(\d{13})-(\d{13})-[0-9a-f]{16}/"
)
_PART_KEY_PATTERN: Final = re.compile(rf"{_KEY_PREFIX_PATTERN.pattern}({'|'.join(SCHEMAS)})\.parquet")


class ManifestDamaged(StoreError):
    """A manifest is not in a format that this version reads."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(
            f"the manifest {key!r} cannot be read: {problem}",
            hint="The windows of its blocks are missing until it is restored, from a copy for instance.",
        )


class DayState(StrEnum):
    """Whether a day still takes windows.

    Ingest commits a segment, reads the manifest, and acknowledges only if the day is OPEN. Retention commits
    CLOSING before it lists the segments of the day, and CLOSED, with the first block without single windows,
    once compaction has merged them all. A segment that retention did not see is therefore never acknowledged,
    and does not count in a CLOSED day.
    """

    OPEN = "open"
    CLOSING = "closing"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True)
class Block:
    """A block as its manifest describes it.

    `rows` counts the rows of `samples`; `parts` has the size of each table in bytes.
    """

    ref: SegmentRef
    services: tuple[str, ...]
    windows: int
    rows: int
    parts: Mapping[SegmentPart, int]

    @property
    def bytes(self) -> int:
        """The size of all its tables in bytes."""
        return sum(self.parts.values())

    def drop_parts(self, parts: Iterable[SegmentPart]) -> Block:
        """Return the block without these tables."""
        remaining = {part: size for part, size in self.parts.items() if part not in parts}
        return replace(self, ref=replace(self.ref, parts=frozenset(remaining)), parts=remaining)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The blocks of a day, in order of precedence, and the objects they replaced.

    `tombstones` has key prefixes of segments and blocks, which end with `/`, and keys of single tables.
    """

    blocks: tuple[Block, ...] = ()
    tombstones: frozenset[str] = frozenset()
    state: DayState = DayState.OPEN
    rollups: tuple[Block, ...] = ()

    @property
    def takes_windows(self) -> bool:
        """Whether every window of the day that is sent again would be recognized.

        Earlier versions dropped single windows without a change of the state.
        """
        return self.state is DayState.OPEN and all(block.ref.is_raw for block in self.blocks)

    @property
    def live_rollups(self) -> tuple[Block, ...]:
        """The rollups of which the day has all blocks with their single windows."""
        raw = {block.ref.key_prefix for block in self.blocks if block.ref.is_raw}
        return tuple(rollup for rollup in self.rollups if rollup.ref.covered <= raw)

    def encode(self) -> bytes:
        """Encode as stored JSON; equal manifests give equal bytes."""
        blocks = list(map(_describe_block, self.blocks))
        content: dict[str, Any] = {"format": FORMAT, "blocks": blocks, "gone": sorted(self.tombstones)}
        if self.state is not DayState.OPEN:
            content["state"] = self.state.value
        if self.live_rollups:
            content["rollups"] = list(map(_describe_block, self.live_rollups))
        return _to_json({**content, "check": _compute_checksum(content)})


def key_of(day: date) -> str:
    """Return the key of the manifest of a day."""
    return f"{ROOT}{day.isoformat()}.json"


def list_days(store: ObjectStore) -> list[date]:
    """List the days that have a manifest, in order."""
    return list(list_etags(store))


def list_etags(store: ObjectStore) -> dict[date, str | None]:
    """List the days that have a manifest, in order, with its etag.

    The etag is None in a store whose listings have no etags.
    """
    etags: dict[date, str | None] = {}
    for entry in store.list(ROOT):
        if match := _KEY_PATTERN.fullmatch(entry.key):
            with suppress(ValueError):  # not a date, so no collector wrote it
                etags[date.fromisoformat(match[1])] = entry.etag
    return etags


def read(store: ObjectStore, day: date) -> Stored[Manifest]:
    """Read the manifest of a day, an empty one without an etag if it has none.

    Raises ManifestDamaged, and StoreIncompatible for a newer format.
    """
    documents = DocumentStore(store, Manifest.encode, decode)
    try:
        with suppress(ManifestDamaged):  # the damage may have happened in transit
            return documents.load(key_of(day))
        return documents.load(key_of(day))
    except ObjectMissing:
        return Stored(Manifest(), None)


def commit(
    store: ObjectStore, day: date, base: Stored[Manifest], manifest: Manifest
) -> Stored[Manifest] | None:
    """Replace the manifest that was read as `base`; None if another writer was faster.

    If the network loses the response, the result may be None although the commit succeeded.
    """
    return DocumentStore(store, Manifest.encode, decode).commit(key_of(day), manifest, base.etag)


def decode(key: str, content: bytes) -> Manifest:
    """Parse what `Manifest.encode` wrote; `key` is for error messages.

    Raises ManifestDamaged, and StoreIncompatible for a newer format.
    """
    try:
        fields = json.loads(content)
        check = fields.pop("check", None)
        if check is not None and check != _compute_checksum(fields):
            raise ManifestDamaged(key, "its checksum is that of other bytes")
        if fields["format"] > FORMAT:
            raise StoreIncompatible(
                f"the manifest {key!r} is in format {fields['format']}, "
                f"and this version reads up to {FORMAT}",
                hint="Run the version of Sidelight that wrote it, or a later one.",
            )
        return Manifest(
            tuple(_parse_blocks(fields["blocks"])),
            frozenset(map(_parse_tombstone, fields["gone"])),
            DayState(fields.get("state", DayState.OPEN)),
            tuple(_parse_blocks(fields.get("rollups", ()))),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ManifestDamaged(key, f"{type(error).__name__}: {error}") from error


def _to_json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":")).encode()


def _compute_checksum(content: Mapping[str, Any]) -> str:
    return xxhash.xxh3_64_hexdigest(_to_json(content))


def _describe_block(block: Block) -> dict[str, Any]:
    return {
        "key": block.ref.key_prefix,
        "services": list(block.services),
        "windows": block.windows,
        "rows": block.rows,
        "parts": dict(block.parts),
        **({"ids": list(block.ref.id_span_ms)} if block.ref.id_span_ms else {}),
        **({"stray_ids": True} if block.ref.has_stray_ids else {}),
        **({"blocks": sorted(block.ref.covered)} if block.ref.covered else {}),
    }


def _parse_blocks(entries: Iterable[Mapping[str, Any]]) -> Iterable[Block]:
    for entry in entries:
        services = tuple(map(str, entry["services"]))
        parts = {_parse_part(name): int(size) for name, size in _parse_part_sizes(entry).items()}
        ref = replace(
            parse_key_prefix(str(entry["key"])),
            parts=frozenset(parts),
            rows=int(entry["rows"]),
            services=services,
            has_stray_ids=entry.get("stray_ids") is True,
            id_span_ms=_parse_id_span(entry),
            sizes=parts if "parts" in entry else {},
            covered=frozenset(map(_parse_tombstone, entry.get("blocks", ()))),
        )
        yield Block(ref, services, int(entry["windows"]), ref.rows, parts)


def _parse_id_span(entry: Mapping[str, Any]) -> tuple[int, int] | None:
    if "ids" not in entry:
        return None
    first, last = entry["ids"]
    return int(first), int(last)


def _parse_part_sizes(entry: Mapping[str, Any]) -> Mapping[str, int]:
    """Return the size of each table in bytes.

    Early manifests have only the total size, which is returned for `samples`, and whether there are `sums`.
    """
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
    """Return whether this is a valid key prefix of a segment or block."""
    return _KEY_PREFIX_PATTERN.fullmatch(key_prefix) is not None


def parse_key_prefix(key_prefix: str) -> SegmentRef:
    """Parse the key prefix of a segment or block. Raises ValueError if it is invalid."""
    match = _KEY_PREFIX_PATTERN.fullmatch(key_prefix)
    if match is None:
        raise ValueError(f"{key_prefix!r} names no segment and no block")
    return SegmentRef(key_prefix, int(match[1]), int(match[2]))
