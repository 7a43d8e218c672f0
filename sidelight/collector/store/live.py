"""What counts at the moment: the blocks that manifests name, and the segments that no block has yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Final

import structlog

from sidelight.collector.store import manifest
from sidelight.collector.store.manifest import Manifest, ManifestDamaged
from sidelight.collector.store.objects import ObjectStore
from sidelight.collector.store.segments import SegmentRef, event_day, list_segments
from sidelight.collector.store.tables import DAY_NS

Read = Callable[[date], Manifest | None]
ReadAll = Callable[[Read, Sequence[date]], Iterable[Manifest | None]]

_LAST_NS: Final = (2**63 - 1) // 10**9 * 10**9
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Live:
    """Blocks and segments that may hold windows of a range, in the order in which they count.

    Where a window is in two of them, the first counts. `damaged` is how many manifests could not be read: the
    windows of their blocks are missing.
    """

    refs: Sequence[SegmentRef]
    damaged: int


def live(store: ObjectStore, from_ns: int, until_ns: int, read_all: ReadAll = map) -> Live:
    """What may hold a window with from <= start < until (Unix ns).

    `read_all` reads the manifests of several days, as `map` does. It is good for as long as what is gone is
    not deleted: for the shortest `gone_seconds` of any compactor.
    """
    if until_ns <= from_ns:
        return Live([], 0)
    # Manifests first: a block made after this is made of segments that are listed below.
    first, last = event_day(max(from_ns, 0)), event_day(min(until_ns, _LAST_NS) - 1)
    wanted = [day for day in manifest.days(store) if first <= day <= last]
    found = list(read_all(partial(_manifest, store), wanted))
    known = [one for one in found if one is not None]
    gone = {key for one in known for key in one.gone}
    blocks = [block.ref for one in known for block in one.blocks if _meets(block.ref, from_ns, until_ns)]
    segments = [ref for ref in sorted(list_segments(store, from_ns, until_ns)) if ref.key_prefix not in gone]
    return Live([*blocks, *segments], len(found) - len(known))


def _meets(ref: SegmentRef, from_ns: int, until_ns: int) -> bool:
    first = ref.min_start_ms * 10**6
    if not ref.is_whole:  # what its windows were added up to may have begun as early as their day
        first -= first % DAY_NS
    return first < until_ns and (ref.max_start_ms + 1) * 10**6 > from_ns


def _manifest(store: ObjectStore, day: date) -> Manifest | None:
    try:
        return manifest.read(store, day).manifest
    except ManifestDamaged as error:
        _log.warning("manifest left out of a query", key=manifest.key_of(day), cause=error.message)
        return None
