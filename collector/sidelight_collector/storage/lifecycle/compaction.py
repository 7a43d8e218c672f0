"""Compaction, which merges many small segments into few large blocks.

At every moment each window counts exactly once. For each day, compaction repeats these steps until there is
nothing to do:

- It merges segments into a block once they are many or large, or have waited long enough.
- It merges blocks of similar size once they are 32 or have the rows of a full block, so that a window is
  rewritten once or twice on its day. Once a day is over, it merges all blocks of that day, and cuts large
  ones by service.
- It limits the size of a block, because a merge holds the whole block in memory.
- It leaves out windows that another block already has, so that no window is in two blocks.
- Once a day is over, it adds up the sums of blocks of the same services (see `day_rollup`).

Each step reads its inputs, writes the new block, and commits the manifest. If a collector dies in between,
or another collector commits first, its block is named by no manifest. Compaction deletes such orphaned
objects, and deletes replaced objects once no query can still be reading them. Each process measures the age
of both from when it first saw them, because clocks of other machines may be wrong.

Any number of collectors may compact concurrently without losing or duplicating windows. Leases avoid
duplicate work.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import partial
from itertools import accumulate, chain
from typing import Final

import pyarrow as pa
import structlog

from sidelight.waiting import wait_for_event
from sidelight_collector.arrow_ops import Array
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage import manifest, segments
from sidelight_collector.storage.blocks import (
    InputUnreadable,
    has_all_objects,
    has_all_windows,
    read_window_ids,
    write_blocks,
)
from sidelight_collector.storage.day_rollup import plan_rollups, write_rollup
from sidelight_collector.storage.documents import Stored
from sidelight_collector.storage.lease import Leases, iter_without_leases
from sidelight_collector.storage.manifest import Block, DayState, Manifest
from sidelight_collector.storage.objects import (
    DELETE_CONCURRENCY,
    ObjectMissing,
    ObjectStore,
    StoreError,
    StoreUnavailable,
)
from sidelight_collector.storage.segments import ROOT, SegmentRef, parse_segment_key
from sidelight_collector.storage.service_cuts import NAME_DIGITS, find_shared_digits
from sidelight_collector.storage.tables import ROLLUP_PARTS, SegmentPart
from sidelight_collector.storage.window_ids import SegmentWindows

MAX_BLOCKS_PER_MERGE: Final = 32
MAX_SEGMENTS_PER_MERGE: Final = 256
MAX_SEGMENT_BYTES_PER_MERGE: Final = 8 << 20
"""Size in the store of the segments that one merge reads.

With stacks of many services, a merge takes thirty times as much memory.
"""
LATE_ARRIVAL_SECONDS: Final = 3600.0
"""Time after its end at which a day counts as complete.

Windows that arrive later first go into blocks of their own.
"""
CUT_DAYS: Final = 2
"""Days after its end in which a block is rewritten only to cut it, and in which rollups are written.

An upgrade therefore does not rewrite the older days of a store; queries read uncut blocks as well.
"""
_log = structlog.get_logger()

SizedRef = tuple[SegmentRef, int]


@dataclass(frozen=True, slots=True)
class CompactionPolicy:
    """The thresholds of compaction.

    Segments are merged once there are `min_segments`, once they have MAX_SEGMENT_BYTES_PER_MERGE bytes, or
    once the last window of one began `max_wait_seconds` ago. Blocks are merged if the result has at most
    `max_block_rows` rows of `samples`; a row takes 150 bytes of memory. On a complete day, several services
    share a block of at most `max_shared_rows` rows. Replaced objects are deleted after
    `deletion_delay_seconds`, orphaned objects after `orphan_age_seconds`. A step that takes longer than half
    of `orphan_age_seconds` is not committed.
    """

    min_segments: int = 64
    max_wait_seconds: float = 3600.0
    max_block_rows: int = 2_500_000
    max_shared_rows: int = 262_144
    deletion_delay_seconds: float = 120.0
    orphan_age_seconds: float = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class DayInputs:
    """The segments and blocks of one day that can be merged, in order of precedence.

    `blocks` come with their rows of `samples`, `segments` with their size in bytes.
    """

    day: date
    version: Stored[Manifest]
    blocks: Sequence[SizedRef]
    segments: Sequence[SizedRef]

    def exclude(self, refs: Collection[SegmentRef]) -> DayInputs:
        """Return the inputs without `refs`."""
        return replace(
            self,
            blocks=[item for item in self.blocks if item[0] not in refs],
            segments=[item for item in self.segments if item[0] not in refs],
        )


def select_merge_inputs(day_inputs: DayInputs, now: float, policy: CompactionPolicy) -> list[SegmentRef]:
    """Select the inputs of the next merge, in order of precedence.

    The list is empty if no merge is due. `now` is in Unix seconds.
    """
    is_due = any(ref.max_start_ms / 1000 + policy.max_wait_seconds <= now for ref, _ in day_inputs.segments)
    if is_due or _has_enough(day_inputs.segments, policy.min_segments, MAX_SEGMENT_BYTES_PER_MERGE):
        return _take_up_to(MAX_SEGMENT_BYTES_PER_MERGE, day_inputs.segments[:MAX_SEGMENTS_PER_MERGE])
    # In order of time, so that few blocks have windows of the same hour.
    small = sorted(block for block in day_inputs.blocks if block[1] < policy.max_block_rows)
    is_complete = is_day_complete(day_inputs.day, now)
    if is_complete and sum(rows for _, rows in small) <= policy.max_shared_rows:
        groups = [small]
    elif is_complete:
        by_digits: dict[str, list[SizedRef]] = defaultdict(list)
        for block in small:
            by_digits[find_shared_digits(block[0].services)].append(block)
        groups = [by_digits[digits] for digits in sorted(by_digits)]
    else:
        by_size: dict[tuple[str, int], list[SizedRef]] = defaultdict(list)
        for block in small:
            by_size[find_shared_digits(block[0].services), block[1].bit_length() // 3].append(block)
        groups = [
            blocks[:MAX_BLOCKS_PER_MERGE]
            for _, blocks in sorted(by_size.items())
            if _has_enough(blocks, MAX_BLOCKS_PER_MERGE, policy.max_block_rows)
        ]
    for group in groups:
        for start in range(len(group) - 1):
            selected = _take_up_to(policy.max_block_rows, group[start:])
            if len(selected) > 1:
                return [ref for ref, _ in day_inputs.blocks if ref in selected]
    is_recent = _is_recently_complete(day_inputs.day, now)
    return next(([ref] for ref, rows in day_inputs.blocks if is_recent and _can_cut(ref, rows, policy)), [])


def _has_enough(inputs: Sequence[SizedRef], count: int, total: int) -> bool:
    """Whether there are `count` inputs, or several of this total size."""
    return len(inputs) >= count or (len(inputs) > 1 and sum(size for _, size in inputs) >= total)


def _can_cut(block: SegmentRef, rows: int, policy: CompactionPolicy) -> bool:
    """Whether a block of a complete day has too many rows for several services."""
    return rows > policy.max_shared_rows and len(find_shared_digits(block.services)) < NAME_DIGITS


def _is_uncut(inputs: Sequence[SegmentRef]) -> bool:
    """Whether these are blocks that have services of every kind of name."""
    return not any(ref.is_segment or find_shared_digits(ref.services) for ref in inputs)


def is_day_complete(day: date, now: float) -> bool:
    """Return whether few windows of the day are still expected; `now` in Unix seconds."""
    end = datetime.combine(day + timedelta(days=1), datetime.min.time(), UTC)
    return now >= end.timestamp() + LATE_ARRIVAL_SECONDS


def _is_recently_complete(day: date, now: float) -> bool:
    return is_day_complete(day, now) and not is_day_complete(day + timedelta(days=CUT_DAYS), now)


def _take_up_to(limit: int, inputs: Sequence[SizedRef]) -> list[SegmentRef]:
    """Return the first inputs up to a total size of `limit`, but at least one."""
    totals = accumulate(size for _, size in inputs)
    return [
        ref
        for at, ((ref, _), total) in enumerate(zip(inputs, totals, strict=True))
        if not at or total <= limit
    ]


class Compaction:
    """The root task that compacts periodically; it retries when the store fails."""

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
        """Compact every `interval_seconds` until `stop` is set."""
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            await loop.run_in_executor(None, self.run_once, stop.is_set)
            await wait_for_event(stop, self._interval_seconds)

    def run_once(self, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Do all compaction that is due now; blocks.

        Ends early when `should_stop` returns true; the next run does the remaining work.
        """
        try:
            days_with_segments = set(segments.list_days(self._store))
            days = days_with_segments.union(manifest.list_days(self._store))
            self._compacted_days &= days - days_with_segments
            for day, must_stop in self._iter_acquired_days(sorted(days - self._compacted_days), should_stop):
                self._compact_day(day, must_stop)
        except StoreError as error:
            self._record_failure(error)

    def revisit(self, day: date) -> None:
        """Include a day in the next run, because it has objects to delete."""
        self._compacted_days.discard(day)

    def _compact_day(self, day: date, should_stop: Callable[[], bool]) -> None:
        """Merge the inputs of one day step by step, then delete its garbage."""
        try:
            day_inputs = self._bury_refused(self._load_day(day))
            while (
                day_inputs
                and not should_stop()
                and (inputs := select_merge_inputs(day_inputs, self._clock(), self._policy))
            ):
                day_inputs = self._merge_inputs(day_inputs, inputs)
                pa.default_memory_pool().release_unused()
            if day_inputs and not should_stop():
                self._write_rollups(day_inputs, should_stop)
            self._delete_garbage(day)
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._record_failure(error)

    def _load_day(self, day: date) -> DayInputs:
        # The manifest first: every segment that is listed after it and has no tombstone in it counts.
        version = manifest.read(self._store, day)
        blocks = [(block.ref, block.rows) for block in version.document.blocks if block.ref.is_raw]
        segments = [
            item
            for item in _list_sized_segments(self._store, day)
            if item[0].key_prefix not in version.document.tombstones
        ]
        return DayInputs(day, version, blocks, segments).exclude(self._damaged_refs)

    def _bury_refused(self, day_inputs: DayInputs) -> DayInputs | None:
        """Give tombstones to segments of a closed day, which were never acknowledged.

        Returns the remaining inputs, or None if another collector was faster.
        """
        current, refs = day_inputs.version.document, [ref for ref, _ in day_inputs.segments]
        if current.state is not DayState.CLOSED or not refs:
            return day_inputs
        updated = replace(current, tombstones=current.tombstones | {ref.key_prefix for ref in refs})
        committed = manifest.commit(self._store, day_inputs.day, day_inputs.version, updated)
        return replace(day_inputs, version=committed).exclude(refs) if committed else None

    def _merge_inputs(self, day_inputs: DayInputs, inputs: Sequence[SegmentRef]) -> DayInputs | None:
        """Merge `inputs` into a block and commit it.

        Returns the remaining inputs, or None if another collector was faster.
        """
        began = self._timer()
        try:
            is_complete = is_day_complete(day_inputs.day, self._clock())
            new_blocks = write_blocks(
                self._store,
                day_inputs.day,
                inputs,
                find_excluded_ids=partial(self._read_duplicate_candidates, day_inputs, inputs),
                all_rollups=is_complete,
                max_shared_rows=self._policy.max_shared_rows if is_complete or _is_uncut(inputs) else None,
            )
        except ObjectMissing as error:
            # Another collector or retention may have deleted it. Otherwise it is missing again next time.
            lost = [
                ref for ref in inputs if error.key.startswith(ref.key_prefix) and ref in self._missing_refs
            ]
            self._missing_refs = {ref for ref in inputs if error.key.startswith(ref.key_prefix)}
            return self._drop_missing(day_inputs, lost, error) if lost else None
        except InputUnreadable as error:
            if error.ref in inputs:
                return self._exclude_damaged(day_inputs, [error.ref], error)
            # An unreadable block may have the same windows, so the segments that overlap it must wait. Those
            # of stray ids, or of ids of another hour, do not overlap it.
            segments = [ref for ref in inputs if ref.is_segment]
            block_hours = set(error.ref.list_hour_starts())
            overlapping = [ref for ref in segments if not block_hours.isdisjoint(ref.list_hour_starts())]
            waiting = segments if error.ref.has_stray_ids else overlapping or segments
            return self._exclude_damaged(day_inputs, waiting, error)
        # If this process was suspended for hours, others may have deleted the new block as orphaned.
        is_late = self._timer() - began > self._policy.orphan_age_seconds / 2
        if is_late or not all(has_all_objects(self._store, block) for block in new_blocks):
            return None
        current = day_inputs.version.document
        input_prefixes = {ref.key_prefix for ref in inputs}
        merged = replace(
            current,
            blocks=tuple(_replace_inputs(current.blocks, new_blocks, input_prefixes)),
            tombstones=current.tombstones | input_prefixes,
        )
        committed = manifest.commit(self._store, day_inputs.day, day_inputs.version, merged)
        if committed is None:
            return None
        self._metrics.compaction_seconds.observe(self._timer() - began)
        blocks = list(day_inputs.blocks)
        for block in new_blocks:
            self._metrics.compacted_windows.inc(block.windows)
            _log.debug("block stored", key=block.ref.key_prefix, inputs=len(inputs), windows=block.windows)
            blocks.append((block.ref, block.rows))
        return replace(day_inputs, version=committed, blocks=blocks).exclude(inputs)

    def _write_rollups(self, day_inputs: DayInputs, should_stop: Callable[[], bool]) -> None:
        """Add up the sums of the blocks of a day that was over recently, and commit them."""
        current = day_inputs.version.document
        planned = list(plan_rollups(current))
        if not planned or not _is_recently_complete(day_inputs.day, self._clock()):
            return
        began = self._timer()
        rollups: list[Block] = []
        for blocks in planned:
            if should_stop():
                break
            try:
                rollups.append(write_rollup(self._store, day_inputs.day, blocks))
            except (InputUnreadable, ObjectMissing) as error:
                self._record_failure(error)
        is_late = self._timer() - began > self._policy.orphan_age_seconds / 2
        if is_late or not all(has_all_objects(self._store, rollup) for rollup in rollups):
            return
        replaced = {key for rollup in rollups for key in rollup.ref.covered}
        kept = [rollup for rollup in current.live_rollups if replaced.isdisjoint(rollup.ref.covered)]
        updated = replace(current, rollups=(*kept, *rollups))
        if rollups and manifest.commit(self._store, day_inputs.day, day_inputs.version, updated):
            self._metrics.compaction_seconds.observe(self._timer() - began)

    def _drop_missing(
        self, day_inputs: DayInputs, refs: Sequence[SegmentRef], error: StoreError
    ) -> DayInputs | None:
        """Exclude inputs with permanently missing objects; None if another was faster.

        A segment that was written again while it was being deleted may have only `samples` left. If blocks
        have all its windows, it gets a tombstone.
        """
        current = day_inputs.version.document
        raw_blocks = [block.ref for block in current.blocks if block.ref.is_raw]
        covered = {
            ref.key_prefix for ref in refs if ref.is_segment and has_all_windows(self._store, raw_blocks, ref)
        }
        if len(covered) < len(refs):
            return self._exclude_damaged(day_inputs, refs, error)
        updated = replace(current, tombstones=current.tombstones | covered)
        committed = manifest.commit(self._store, day_inputs.day, day_inputs.version, updated)
        return replace(day_inputs, version=committed).exclude(refs) if committed else None

    def _read_duplicate_candidates(
        self, day_inputs: DayInputs, inputs: Sequence[SegmentRef], profiles: Sequence[pa.Table]
    ) -> Array | None:
        """Return the ids of windows in blocks that may also be in the input segments.

        `profiles` are those of `inputs`. None if no block may have one. Raises InputUnreadable for a damaged
        block.
        """
        by_ref = zip(inputs, profiles, strict=True)
        windows = SegmentWindows([item for item in by_ref if item[0].is_segment])
        raw_blocks = [block.ref for block in day_inputs.version.document.blocks if block.ref.is_raw]
        cached_ids, self._window_ids = self._window_ids, {}
        for ref in [ref for ref in raw_blocks if ref not in inputs and windows.may_share(ref)]:
            self._window_ids[ref] = (
                cached_ids[ref] if ref in cached_ids else read_window_ids(self._store, ref)
            )
        return pa.concat_arrays(list(self._window_ids.values())) if self._window_ids else None

    def _exclude_damaged(
        self, day_inputs: DayInputs, refs: Sequence[SegmentRef], error: StoreError
    ) -> DayInputs:
        """Exclude `refs` for the lifetime of this process; returns the other inputs."""
        self._record_failure(error)
        self._damaged_refs.update(refs)
        return day_inputs.exclude(refs)

    def _delete_garbage(self, day: date) -> None:
        """Delete objects whose tombstone is old enough, and orphaned blocks."""
        version = manifest.read(self._store, day)
        tombstones = version.document.tombstones
        named = (*version.document.blocks, *version.document.live_rollups)
        named_prefixes = {*(block.ref.key_prefix for block in named), *tombstones}
        orphans = _list_block_prefixes(self._store, day) - named_prefixes
        expired = self._select_aged(day, "gone", tombstones, self._policy.deletion_delay_seconds)
        orphaned = self._select_aged(day, "stray", orphans, self._policy.orphan_age_seconds)
        with ThreadPoolExecutor(DELETE_CONCURRENCY, thread_name_prefix="compaction") as threads:
            for _ in threads.map(self._delete_objects, sorted(expired | orphaned)):
                pass  # raises the first error
        if expired:
            manifest.commit(
                self._store, day, version, replace(version.document, tombstones=tombstones - expired)
            )
        if is_day_complete(day, self._clock()) and not tombstones and not orphans:
            self._compacted_days.add(day)

    def _select_aged(self, day: date, kind: str, keys: Iterable[str], seconds: float) -> frozenset[str]:
        """Return the keys that this process first saw at least `seconds` ago as `kind`."""
        now, previous = self._timer(), self._first_seen.get((day, kind), {})
        first_seen = {key: previous.get(key, now) for key in keys}
        self._first_seen[day, kind] = first_seen
        return frozenset(key for key, since in first_seen.items() if now - since >= seconds)

    def _delete_objects(self, key: str) -> None:
        if not key.endswith("/"):
            self._store.delete(key)
            self._metrics.compaction_deleted.inc()
            return
        # `samples` first: a segment without it does not count.
        of_segment: tuple[SegmentPart, ...] = ("samples", "profiles", "stacks")
        parts = {
            ROOT: of_segment,
            manifest.BLOCK_ROOT: (*of_segment, *ROLLUP_PARTS),
            manifest.ROLLUP_ROOT: ("stacks", *ROLLUP_PARTS, "steps"),
        }[key[: key.index("/", len("v1/")) + 1]]
        for part in parts:
            self._store.delete(f"{key}{part}.parquet")
        self._metrics.compaction_deleted.inc(len(parts))

    def _record_failure(self, error: StoreError) -> None:
        self._metrics.compaction_errors.inc()
        _log.warning("compaction failed", error=error.message, hint=error.hint)


def _replace_inputs(
    blocks: Sequence[Block], new_blocks: Sequence[Block], input_prefixes: set[str]
) -> Iterator[Block]:
    """Replace merged blocks of a day by the new blocks, in order of precedence.

    The new blocks take the position of their first input, or the end if they were built from segments only.
    """
    is_placed = False
    for other in blocks:
        if other.ref.key_prefix not in input_prefixes:
            yield other
        elif not is_placed:
            is_placed = True
            yield from new_blocks
    if not is_placed:
        yield from new_blocks


def _list_sized_segments(store: ObjectStore, day: date) -> list[SizedRef]:
    """List committed segments with their size in bytes, in order of precedence."""
    sizes: Counter[str] = Counter()
    segments: list[SegmentRef] = []
    for entry in store.list(f"{ROOT}{day.isoformat()}/"):
        sizes[entry.key[: entry.key.rfind("/") + 1]] += entry.size
        if ref := parse_segment_key(entry.key):
            segments.append(ref)
    return sorted((ref, sizes[ref.key_prefix]) for ref in segments)


def _list_block_prefixes(store: ObjectStore, day: date) -> set[str]:
    """List the key prefixes of a day's blocks and rollups that have an object."""
    roots = (manifest.BLOCK_ROOT, manifest.ROLLUP_ROOT)
    entries = chain.from_iterable(store.list(f"{root}{day.isoformat()}/") for root in roots)
    prefixes = {entry.key[: entry.key.rfind("/") + 1] for entry in entries}
    return {prefix for prefix in prefixes if manifest.is_key_prefix(prefix)}
