"""What counts at the moment: the blocks that manifests name, and the segments that no block has yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Final

import structlog

from sidelight_collector.lru import LruCache
from sidelight_collector.storage import manifest
from sidelight_collector.storage.manifest import Manifest, ManifestDamaged
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import SegmentRef, event_day, list_segments
from sidelight_collector.storage.tables import DAY_NS

ManifestEntry = tuple[date, str | None]
ReadManifest = Callable[[ManifestEntry], Manifest | None]
ReadManifests = Callable[[ReadManifest, Sequence[ManifestEntry]], Iterable[Manifest | None]]

MEMORY_BYTES_PER_JSON_BYTE: Final = 5
"""A manifest takes so many times as much memory as its JSON is long."""

_LAST_NS: Final = (2**63 - 1) // 10**9 * 10**9
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LiveObjects:
    """Blocks and segments that may hold windows of a range, in the order in which they count.

    Where a window is in two of them, the first counts. `damaged_manifests` is how many manifests could not
    be read: the windows of their blocks are missing.
    """

    refs: Sequence[SegmentRef]
    damaged_manifests: int


def list_live_objects(
    store: ObjectStore,
    from_ns: int,
    until_ns: int,
    read_all: ReadManifests = map,
    cache: LruCache[Manifest] | None = None,
) -> LiveObjects:
    """What may hold a window with from <= start < until (Unix ns).

    `read_all` reads the manifests of several days, as `map` does; one in `cache` whose etag the listing shows
    is not read again. The answer is good for as long as what is gone is not deleted: for the shortest
    `gone_seconds` of any compactor.
    """
    if until_ns <= from_ns:
        return LiveObjects([], 0)
    # Manifests first: a block made after this is made of segments that are listed below.
    first, last = event_day(max(from_ns, 0)), event_day(min(until_ns, _LAST_NS) - 1)
    wanted = [listed for listed in manifest.list_etags(store).items() if first <= listed[0] <= last]
    found = [None if cache is None else cache.get(listed) for listed in wanted]
    absent = [listed for listed, one in zip(wanted, found, strict=True) if one is None]
    read = iter(read_all(partial(_read_manifest, store, cache), absent))
    readable = [one for one in (next(read) if one is None else one for one in found) if one is not None]
    gone = {key for one in readable for key in one.tombstones}
    blocks = [
        block.ref for one in readable for block in one.blocks if _overlaps(block.ref, from_ns, until_ns)
    ]
    segments = [ref for ref in sorted(list_segments(store, from_ns, until_ns)) if ref.key_prefix not in gone]
    return LiveObjects([*blocks, *segments], len(found) - len(readable))


def _overlaps(ref: SegmentRef, from_ns: int, until_ns: int) -> bool:
    first = ref.min_start_ms * 10**6
    if not ref.is_raw:  # what its windows were added up to may have begun as early as their day
        first -= first % DAY_NS
    return first < until_ns and (ref.max_start_ms + 1) * 10**6 > from_ns


def _read_manifest(
    store: ObjectStore, cache: LruCache[Manifest] | None, entry: ManifestEntry
) -> Manifest | None:
    day, etag = entry
    try:
        read = manifest.read(store, day)
    except ManifestDamaged as error:
        _log.warning("manifest left out of a query", key=manifest.key_of(day), cause=error.message)
        return None
    if cache is not None and etag is not None:
        cache.put((day, read.etag), read.manifest, read.size * MEMORY_BYTES_PER_JSON_BYTE)
    return read.manifest
