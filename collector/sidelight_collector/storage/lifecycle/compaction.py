"""Compaction: many small segments become few large blocks, and no window counts twice or not at any moment.

For each day, as long as there is something to do:

- segments that are many, or have waited long enough, become a block;
- blocks of about the same size become one, 32 at a time, so that a window is written anew once or twice on
  its day; those of a day that is over become one as soon as it is;
- neither makes a block larger than a limit, for all of it is held in memory;
- windows that a block has already are left out of another, so that no window is in two blocks.

Each is one step: read, write the new block, commit the manifest. A collector that dies in the middle leaves
a block that no manifest names; one that comes second with its commit leaves its block too. Both are deleted
as strays. What a block took the place of is deleted once no query can be reading it any longer. How long
something has been stray or gone, each process measures itself from when it first saw it: other machines'
clocks may be wrong.

Any number of collectors may do this at once, and it stays right; leases keep them from doing work twice.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import accumulate, groupby
from typing import Final

import pyarrow as pa
import structlog

from sidelight_collector.arrow_ops import Array
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage import manifest, segments
from sidelight_collector.storage.blocks import (
    InputUnreadable,
    has_all_objects,
    has_all_windows,
    read_window_ids,
    write_block,
)
from sidelight_collector.storage.lease import Leases, iter_without_leases
from sidelight_collector.storage.manifest import Block, Manifest, ManifestVersion
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreError, StoreUnavailable
from sidelight_collector.storage.segments import ROOT, SegmentRef, parse_segment_key
from sidelight_collector.storage.tables import SCHEMAS, SEGMENT_PARTS

MAX_BLOCKS_PER_MERGE: Final = 32
MAX_SEGMENTS_PER_MERGE: Final = 256
MAX_SEGMENT_BYTES_PER_MERGE: Final = 8 << 20
"""As they lie in the store: stacks of many services take thirty times as much memory while merged."""
LATE_ARRIVAL_SECONDS: Final = 3600.0
"""So long after its end a day is taken to be over; windows that come later make blocks of their own first."""
_log = structlog.get_logger()

SizedRef = tuple[SegmentRef, int]


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """When something is to be done.

    `min_segments` that no block has become one, or fewer if one began `max_wait_seconds` ago. Blocks become
    one if that has at most `max_block_rows` rows of samples; a row takes 150 bytes of memory. What is
    gone is deleted after `deletion_delay_seconds`, strays after `orphan_age_seconds`; a step that takes
    longer than half of that is not committed.
    """

    min_segments: int = 64
    max_wait_seconds: float = 3600.0
    max_block_rows: int = 2_500_000
    deletion_delay_seconds: float = 600.0
    orphan_age_seconds: float = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class DayInputs:
    """What can be compacted of one day, in the order in which it counts.

    `blocks` with their rows of samples, `segments` with their bytes.
    """

    day: date
    version: ManifestVersion
    blocks: Sequence[SizedRef]
    segments: Sequence[SizedRef]

    def exclude(self, refs: Collection[SegmentRef]) -> DayInputs:
        """The same but for these."""
        return replace(
            self,
            blocks=[each for each in self.blocks if each[0] not in refs],
            segments=[each for each in self.segments if each[0] not in refs],
        )


def select_merge_inputs(day_inputs: DayInputs, now: float, policy: CompactionPolicy) -> list[SegmentRef]:
    """What is to become one block first, in the order in which it counts; nothing if all is well.

    `now` is Unix seconds.
    """
    due = any(ref.max_start_ms / 1000 + policy.max_wait_seconds <= now for ref, _ in day_inputs.segments)
    if due or len(day_inputs.segments) >= policy.min_segments:
        return _take_up_to(MAX_SEGMENT_BYTES_PER_MERGE, day_inputs.segments[:MAX_SEGMENTS_PER_MERGE])
    small = sorted(
        (each for each in day_inputs.blocks if each[1] < policy.max_block_rows), key=lambda each: each[1]
    )
    same_size = [small]
    if not is_day_complete(day_inputs.day, now):
        sizes = groupby(small, key=lambda each: each[1].bit_length() // 3)
        same_size = [
            group[:MAX_BLOCKS_PER_MERGE]
            for _, each in sizes
            if len(group := list(each)) >= MAX_BLOCKS_PER_MERGE
        ]
    for group in same_size:
        chosen = _take_up_to(policy.max_block_rows, group)
        if len(chosen) > 1:
            return [ref for ref, _ in day_inputs.blocks if ref in chosen]
    return []


def is_day_complete(day: date, now: float) -> bool:
    """Whether hardly any window of the day is still to come."""
    end = datetime.combine(day + timedelta(days=1), datetime.min.time(), UTC)
    return now >= end.timestamp() + LATE_ARRIVAL_SECONDS


def _take_up_to(limit: int, inputs: Sequence[SizedRef]) -> list[SegmentRef]:
    """The first ones that together are at most so many, and at least one."""
    totals = accumulate(size for _, size in inputs)
    return [
        ref
        for at, ((ref, _), total) in enumerate(zip(inputs, totals, strict=True))
        if not at or total <= limit
    ]


class Compaction:
    """Looks at the store every so often, as a root task; a failing store is waited for."""

    def __init__(
        self,
        store: ObjectStore,
        metrics: Metrics,
        policy: CompactionPolicy,
        *,
        interval_seconds: float,
        leases: Leases[date] | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._policy = policy
        self._interval_seconds = interval_seconds
        self._iter_acquired_days = leases.iter_acquired if leases else iter_without_leases
        self._clock = clock
        self._timer = timer
        self._compacted_days: set[date] = set()
        self._damaged_refs: set[SegmentRef] = set()
        self._missing_refs: set[SegmentRef] = set()
        self._first_seen: dict[tuple[date, str], Mapping[str, float]] = {}
        self._window_ids: dict[SegmentRef, Array] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Look and wait, until `stop` is set."""
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            await loop.run_in_executor(None, self.run_once, stop.is_set)
            try:
                async with asyncio.timeout(self._interval_seconds):
                    await stop.wait()
            except TimeoutError:
                continue

    def run_once(self, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Do all that is to be done now; blocks. What is left when `should_stop` waits for the next look."""
        try:
            fresh = set(segments.list_days(self._store))
            days = fresh.union(manifest.list_days(self._store))
            self._compacted_days &= days - fresh
            for day, ended in self._iter_acquired_days(sorted(days - self._compacted_days), should_stop):
                self._compact_day(day, ended)
        except StoreError as error:
            self._record_failure(error)

    def revisit(self, day: date) -> None:
        """There is something to be deleted of a day that was in order."""
        self._compacted_days.discard(day)

    def _compact_day(self, day: date, should_stop: Callable[[], bool]) -> None:
        """Bring one day in order, step by step."""
        try:
            found: DayInputs | None = self._load_day(day)
            while (
                found
                and not should_stop()
                and (inputs := select_merge_inputs(found, self._clock(), self._policy))
            ):
                found = self._merge_inputs(found, inputs)
            self._delete_garbage(day)
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._record_failure(error)

    def _load_day(self, day: date) -> DayInputs:
        # The manifest first: whatever is not gone in it, and is listed after, counts.
        known = manifest.read(self._store, day)
        blocks = [(block.ref, block.rows) for block in known.manifest.blocks if block.ref.is_raw]
        segments = [
            each
            for each in _list_sized_segments(self._store, day)
            if each[0].key_prefix not in known.manifest.tombstones
        ]
        return DayInputs(day, known, blocks, segments).exclude(self._damaged_refs)

    def _merge_inputs(self, day_inputs: DayInputs, inputs: Sequence[SegmentRef]) -> DayInputs | None:
        """Make one block of these and commit it; what there is then, or None if another was faster."""
        began = self._timer()
        try:
            duplicate_ids = self._read_duplicate_candidates(day_inputs, inputs)
            is_complete = is_day_complete(day_inputs.day, self._clock())
            block = write_block(
                self._store, day_inputs.day, inputs, excluded_ids=duplicate_ids, all_rollups=is_complete
            )
        except ObjectMissing as error:
            # Another collector, or retention, was faster; if not, it will be missing again.
            lost = [
                ref for ref in inputs if error.key.startswith(ref.key_prefix) and ref in self._missing_refs
            ]
            self._missing_refs = {ref for ref in inputs if error.key.startswith(ref.key_prefix)}
            return self._drop_missing(day_inputs, lost, error) if lost else None
        except InputUnreadable as error:
            if error.ref in inputs:
                return self._exclude_damaged(day_inputs, [error.ref], error)
            # Nobody knows which of their windows are in this block.
            doubtful = [
                ref
                for ref in inputs
                if not set(ref.list_hour_starts()).isdisjoint(error.ref.list_hour_starts())
            ]
            return self._exclude_damaged(day_inputs, doubtful, error)
        # Nobody takes it for a stray yet. But this process may have stood still for hours.
        late = self._timer() - began > self._policy.orphan_age_seconds / 2
        if late or (block and not has_all_objects(self._store, block)):
            return None
        known = day_inputs.version.manifest
        gone = {ref.key_prefix for ref in inputs}
        made = Manifest(tuple(_replace_inputs(known.blocks, block, gone)), known.tombstones | gone)
        committed = manifest.commit(self._store, day_inputs.day, day_inputs.version, made)
        if committed is None:
            return None
        self._metrics.compaction_seconds.observe(self._timer() - began)
        blocks = list(day_inputs.blocks)
        if block:
            self._metrics.compacted_windows.inc(block.windows)
            _log.debug("block stored", key=block.ref.key_prefix, inputs=len(inputs), windows=block.windows)
            blocks.append((block.ref, block.rows))
        return replace(day_inputs, version=committed, blocks=blocks).exclude(inputs)

    def _drop_missing(
        self, day_inputs: DayInputs, refs: Sequence[SegmentRef], error: StoreError
    ) -> DayInputs | None:
        """What there is without segments or blocks of which something is missing for good.

        A segment that was sent and written once more while it was being deleted may have samples and nothing
        else. All its windows are in blocks, so it is gone.
        """
        known = day_inputs.version.manifest
        whole = [block.ref for block in known.blocks if block.ref.is_raw]
        gone = {ref.key_prefix for ref in refs if ref.is_segment and has_all_windows(self._store, whole, ref)}
        if len(gone) < len(refs):
            return self._exclude_damaged(day_inputs, refs, error)
        left = replace(known, tombstones=known.tombstones | gone)
        committed = manifest.commit(self._store, day_inputs.day, day_inputs.version, left)
        return replace(day_inputs, version=committed).exclude(refs) if committed else None

    def _read_duplicate_candidates(self, day_inputs: DayInputs, inputs: Sequence[SegmentRef]) -> Array | None:
        """The ids of windows that blocks have and these segments may have once more; None if none can.

        Raises InputUnreadable for a block that cannot say.
        """
        segments = [ref for ref in inputs if ref.is_segment]
        hours = {hour for ref in segments for hour in ref.list_hour_starts()}
        whole = [block.ref for block in day_inputs.version.manifest.blocks if block.ref.is_raw]
        blocks = [ref for ref in whole if ref not in inputs and not hours.isdisjoint(ref.list_hour_starts())]
        known, self._window_ids = self._window_ids, {}
        for ref in blocks if segments else []:
            self._window_ids[ref] = known[ref] if ref in known else read_window_ids(self._store, ref)
        return pa.concat_arrays(list(self._window_ids.values())) if self._window_ids else None

    def _exclude_damaged(
        self, day_inputs: DayInputs, refs: Sequence[SegmentRef], error: StoreError
    ) -> DayInputs:
        """What there is without these, as long as this process lives."""
        self._record_failure(error)
        self._damaged_refs.update(refs)
        return day_inputs.exclude(refs)

    def _delete_garbage(self, day: date) -> None:
        """Delete what has been gone for long enough, and blocks that nobody committed."""
        known = manifest.read(self._store, day)
        gone = known.manifest.tombstones
        named = {*(block.ref.key_prefix for block in known.manifest.blocks), *gone}
        strays = _list_block_prefixes(self._store, day) - named
        old = self._select_aged(day, "gone", gone, self._policy.deletion_delay_seconds)
        for key in sorted(old | self._select_aged(day, "stray", strays, self._policy.orphan_age_seconds)):
            self._delete_objects(key)
        if old:
            manifest.commit(self._store, day, known, replace(known.manifest, tombstones=gone - old))
        if is_day_complete(day, self._clock()) and not gone and not strays:
            self._compacted_days.add(day)

    def _select_aged(self, day: date, kind: str, keys: Iterable[str], seconds: float) -> frozenset[str]:
        """Those of the keys that this process has seen to be so for so long."""
        now, before = self._timer(), self._first_seen.get((day, kind), {})
        seen = {key: before.get(key, now) for key in keys}
        self._first_seen[day, kind] = seen
        return frozenset(key for key, since in seen.items() if now - since >= seconds)

    def _delete_objects(self, key: str) -> None:
        if not key.endswith("/"):
            self._store.delete(key)
            self._metrics.compaction_deleted.inc()
            return
        # Samples first: a segment without does not count.
        others = (
            [part for part in SCHEMAS if part != "samples"]
            if key.startswith(manifest.BLOCK_ROOT)
            else SEGMENT_PARTS
        )
        parts = ["samples", *(part for part in others if part != "samples")]
        for part in parts:
            self._store.delete(f"{key}{part}.parquet")
        self._metrics.compaction_deleted.inc(len(parts))

    def _record_failure(self, error: StoreError) -> None:
        self._metrics.compaction_errors.inc()
        _log.warning("compaction failed", error=error.message, hint=error.hint)


def _replace_inputs(
    blocks: Sequence[Block], block: Block | None, input_prefixes: set[str]
) -> Iterator[Block]:
    """The blocks of a day with a new one, in the order in which they count.

    It stands where the first stood that it was made of, and at the end if it was made of segments.
    """
    made = False
    for each in blocks:
        if each.ref.key_prefix not in input_prefixes:
            yield each
        elif block and not made:
            made = True
            yield block
    if block and not made:
        yield block


def _list_sized_segments(store: ObjectStore, day: date) -> list[SizedRef]:
    """Committed segments, in the order in which they count, with their bytes."""
    sizes: Counter[str] = Counter()
    found: list[SegmentRef] = []
    for entry in store.list(f"{ROOT}{day.isoformat()}/"):
        sizes[entry.key[: entry.key.rfind("/") + 1]] += entry.size
        if ref := parse_segment_key(entry.key):
            found.append(ref)
    return sorted((ref, sizes[ref.key_prefix]) for ref in found)


def _list_block_prefixes(store: ObjectStore, day: date) -> set[str]:
    """Key prefixes of all blocks of this day of which an object is there."""
    entries = store.list(f"{manifest.BLOCK_ROOT}{day.isoformat()}/")
    prefixes = {entry.key[: entry.key.rfind("/") + 1] for entry in entries}
    return {prefix for prefix in prefixes if manifest.is_key_prefix(prefix)}
