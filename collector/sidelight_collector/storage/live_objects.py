"""Selection of the live blocks and segments that a query reads.

Live are the blocks that manifests name, and the segments that no block contains yet.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Final, Protocol, TypeVar

import structlog

from sidelight_collector.lru import LruCache
from sidelight_collector.storage import manifest
from sidelight_collector.storage.manifest import DayState, Manifest, ManifestDamaged
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import SegmentRef, days_of, list_segments_of_days
from sidelight_collector.storage.tables import DAY_NS

ManifestEntry = tuple[date, str | None]

MEMORY_BYTES_PER_JSON_BYTE: Final = 5
"""Estimated memory that a parsed manifest takes for each byte of its JSON."""

Listing = TypeVar("Listing")
Argument = TypeVar("Argument")
Result = TypeVar("Result")
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class LiveObjects:
    """Blocks and segments that may hold windows of a range, in order of precedence.

    If two of them have the same window, the first counts. `damaged_manifests` is the number of manifests
    that could not be read; the windows of their blocks are missing. `rollups` sum several of the blocks.
    """

    refs: Sequence[SegmentRef]
    damaged_manifests: int
    rollups: Sequence[SegmentRef] = ()


class RunAll(Protocol):
    """Calls a function for each argument, as `map` does."""

    def __call__(
        self, function: Callable[[Argument], Result], arguments: Sequence[Argument], /
    ) -> Iterable[Result]: ...


class ShareListing(Protocol):
    """Calls a function that lists, or shares the result of an equal call.

    That call begins after this one.
    """

    def __call__(self, key: Hashable, compute: Callable[[], Listing], /) -> Listing: ...


def list_live_objects(
    store: ObjectStore,
    from_ns: int,
    until_ns: int,
    run_all: RunAll = map,
    cache: LruCache[Manifest] | None = None,
    share: ShareListing = lambda _, compute: compute(),
) -> LiveObjects:
    """List what may hold windows that start in [`from_ns`, `until_ns`) (Unix ns).

    `run_all` has the signature of `map`; if it uses threads, segments are listed while manifests are read. A
    manifest in `cache` is not read again if the listing shows the same etag. The result is valid until
    compaction deletes replaced objects: for the shortest `deletion_delay_seconds` of any compactor.
    """
    if until_ns <= from_ns:
        return LiveObjects([], 0)
    # In any order: a newer manifest has tombstones of what it replaces, and what is replaced later is listed.
    first, last = days_of(from_ns, until_ns)
    list_days = partial(share, (first, last), partial(list_segments_of_days, store, first, last))
    listing = iter(run_all(lambda call: call(), [list_days]))
    etags = share("manifests", partial(manifest.list_etags, store))
    entries = [entry for entry in etags.items() if first <= entry[0] <= last]
    cached = [None if cache is None else cache.get(entry) for entry in entries]
    uncached = [entry for entry, item in zip(entries, cached, strict=True) if item is None]
    read = iter(run_all(partial(_read_manifest, store, cache), uncached))
    by_entry = [next(read) if item is None else item for item in cached]
    manifests = [item for item in by_entry if item]
    tombstones = {key for item in manifests for key in item.tombstones}
    closed_days = {
        entry[0]
        for entry, item in zip(entries, by_entry, strict=True)
        if item and item.state is DayState.CLOSED
    }
    blocks = [
        block.ref for item in manifests for block in item.blocks if _overlaps(block.ref, from_ns, until_ns)
    ]
    segments = [
        ref
        for ref in sorted(next(listing))
        if _overlaps(ref, from_ns, until_ns)
        and ref.key_prefix not in tombstones
        and ref.day not in closed_days
    ]
    rollups = [
        block.ref
        for item in manifests
        for block in item.live_rollups
        if _overlaps(block.ref, from_ns, until_ns)
    ]
    return LiveObjects([*blocks, *segments], len(cached) - len(manifests), rollups)


def _overlaps(ref: SegmentRef, from_ns: int, until_ns: int) -> bool:
    first = ref.min_start_ms * 10**6
    if not ref.is_raw:  # its daily sums may cover the day from its start
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
        cache.put((day, read.etag), read.document, read.size * MEMORY_BYTES_PER_JSON_BYTE)
    return read.document
