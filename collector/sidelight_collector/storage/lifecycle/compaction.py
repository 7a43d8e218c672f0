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
from sidelight_collector.storage.blocks import InputUnreadable, holds, is_whole, stored_ids, write_block
from sidelight_collector.storage.lease import Leases, unleased
from sidelight_collector.storage.manifest import Block, Manifest, Version
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreError, StoreUnavailable
from sidelight_collector.storage.segments import ROOT, SegmentRef, parse_segment_key
from sidelight_collector.storage.tables import PARTS, SCHEMAS

MERGED_AT_ONCE: Final = 32
SEGMENTS_AT_ONCE: Final = 256
SEGMENT_BYTES_AT_ONCE: Final = 8 << 20
"""As they lie in the store: stacks of many services take thirty times as much memory while merged."""
OVER_SECONDS: Final = 3600.0
"""So long after its end a day is taken to be over; windows that come later make blocks of their own first."""
_log = structlog.get_logger()

Sized = tuple[SegmentRef, int]


@dataclass(frozen=True, slots=True)
class Rules:
    """When something is to be done.

    `segments` that no block has become one, or fewer if one began `wait_seconds` ago. Blocks become one if
    that has at most `block_rows` rows of samples; a row takes 150 bytes of memory. What is
    gone is deleted after `gone_seconds`, strays after `stray_seconds`; a step that takes longer than half
    of that is not committed.
    """

    segments: int = 64
    wait_seconds: float = 3600.0
    block_rows: int = 2_500_000
    gone_seconds: float = 600.0
    stray_seconds: float = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Day:
    """What can be compacted of one day, in the order in which it counts.

    `blocks` with their rows of samples, `segments` with their bytes.
    """

    day: date
    known: Version
    blocks: Sequence[Sized]
    segments: Sequence[Sized]

    def without(self, refs: Collection[SegmentRef]) -> Day:
        """The same but for these."""
        return replace(
            self,
            blocks=[each for each in self.blocks if each[0] not in refs],
            segments=[each for each in self.segments if each[0] not in refs],
        )


def next_step(found: Day, now: float, rules: Rules) -> list[SegmentRef]:
    """What is to become one block first, in the order in which it counts; nothing if all is well.

    `now` is Unix seconds.
    """
    due = any(ref.max_start_ms / 1000 + rules.wait_seconds <= now for ref, _ in found.segments)
    if due or len(found.segments) >= rules.segments:
        return _up_to(SEGMENT_BYTES_AT_ONCE, found.segments[:SEGMENTS_AT_ONCE])
    small = sorted((each for each in found.blocks if each[1] < rules.block_rows), key=lambda each: each[1])
    same_size = [small]
    if not is_over(found.day, now):
        sizes = groupby(small, key=lambda each: each[1].bit_length() // 3)
        same_size = [
            group[:MERGED_AT_ONCE] for _, each in sizes if len(group := list(each)) >= MERGED_AT_ONCE
        ]
    for group in same_size:
        chosen = _up_to(rules.block_rows, group)
        if len(chosen) > 1:
            return [ref for ref, _ in found.blocks if ref in chosen]
    return []


def is_over(day: date, now: float) -> bool:
    """Whether hardly any window of the day is still to come."""
    end = datetime.combine(day + timedelta(days=1), datetime.min.time(), UTC)
    return now >= end.timestamp() + OVER_SECONDS


def _up_to(most: int, inputs: Sequence[Sized]) -> list[SegmentRef]:
    """The first ones that together are at most so many, and at least one."""
    totals = accumulate(size for _, size in inputs)
    return [
        ref
        for at, ((ref, _), total) in enumerate(zip(inputs, totals, strict=True))
        if not at or total <= most
    ]


class Compaction:
    """Looks at the store every so often, as a root task; a failing store is waited for."""

    def __init__(
        self,
        store: ObjectStore,
        metrics: Metrics,
        rules: Rules,
        *,
        interval_seconds: float,
        leases: Leases[date] | None = None,
        clock: Callable[[], float] = time.time,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._rules = rules
        self._interval_seconds = interval_seconds
        self._taken = leases.taken if leases else unleased
        self._clock = clock
        self._timer = timer
        self._settled: set[date] = set()
        self._damaged: set[SegmentRef] = set()
        self._missing: set[SegmentRef] = set()
        self._seen: dict[tuple[date, str], Mapping[str, float]] = {}
        self._ids: dict[SegmentRef, Array] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Look and wait, until `stop` is set."""
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            await loop.run_in_executor(None, self.look, stop.is_set)
            try:
                async with asyncio.timeout(self._interval_seconds):
                    await stop.wait()
            except TimeoutError:
                continue

    def look(self, stopped: Callable[[], bool] = lambda: False) -> None:
        """Do all that is to be done now; blocks. What is left when `stopped` waits for the next look."""
        try:
            fresh = set(segments.days(self._store))
            days = fresh.union(manifest.days(self._store))
            self._settled &= days - fresh
            for day, ended in self._taken(sorted(days - self._settled), stopped):
                self._tend(day, ended)
        except StoreError as error:
            self._failed(error)

    def revisit(self, day: date) -> None:
        """There is something to be deleted of a day that was in order."""
        self._settled.discard(day)

    def _tend(self, day: date, stopped: Callable[[], bool]) -> None:
        """Bring one day in order, step by step."""
        try:
            found: Day | None = self._find(day)
            while found and not stopped() and (inputs := next_step(found, self._clock(), self._rules)):
                found = self._do(found, inputs)
            self._sweep(day)
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._failed(error)

    def _find(self, day: date) -> Day:
        # The manifest first: whatever is not gone in it, and is listed after, counts.
        known = manifest.read(self._store, day)
        blocks = [(block.ref, block.rows) for block in known.manifest.blocks if block.ref.is_whole]
        segments = [
            each for each in _segments(self._store, day) if each[0].key_prefix not in known.manifest.gone
        ]
        return Day(day, known, blocks, segments).without(self._damaged)

    def _do(self, found: Day, inputs: Sequence[SegmentRef]) -> Day | None:
        """Make one block of these and commit it; what there is then, or None if another was faster."""
        began = self._timer()
        try:
            taken = self._stored_ids(found, inputs)
            over = is_over(found.day, self._clock())
            block = write_block(self._store, found.day, inputs, but=taken, whole=over)
        except ObjectMissing as error:
            # Another collector, or retention, was faster; if not, it will be missing again.
            lost = [ref for ref in inputs if error.key.startswith(ref.key_prefix) and ref in self._missing]
            self._missing = {ref for ref in inputs if error.key.startswith(ref.key_prefix)}
            return self._lost(found, lost, error) if lost else None
        except InputUnreadable as error:
            if error.ref in inputs:
                return self._leave_out(found, [error.ref], error)
            # Nobody knows which of their windows are in this block.
            doubtful = [ref for ref in inputs if not set(ref.hours()).isdisjoint(error.ref.hours())]
            return self._leave_out(found, doubtful, error)
        # Nobody takes it for a stray yet. But this process may have stood still for hours.
        late = self._timer() - began > self._rules.stray_seconds / 2
        if late or (block and not is_whole(self._store, block)):
            return None
        known = found.known.manifest
        gone = {ref.key_prefix for ref in inputs}
        made = Manifest(tuple(_in_place(known.blocks, block, gone)), known.gone | gone)
        committed = manifest.commit(self._store, found.day, found.known, made)
        if committed is None:
            return None
        self._metrics.compaction_seconds.observe(self._timer() - began)
        blocks = list(found.blocks)
        if block:
            self._metrics.compacted_windows.inc(block.windows)
            _log.debug("block stored", key=block.ref.key_prefix, inputs=len(inputs), windows=block.windows)
            blocks.append((block.ref, block.rows))
        return replace(found, known=committed, blocks=blocks).without(inputs)

    def _lost(self, found: Day, refs: Sequence[SegmentRef], error: StoreError) -> Day | None:
        """What there is without segments or blocks of which something is missing for good.

        A segment that was sent and written once more while it was being deleted may have samples and nothing
        else. All its windows are in blocks, so it is gone.
        """
        known = found.known.manifest
        whole = [block.ref for block in known.blocks if block.ref.is_whole]
        gone = {ref.key_prefix for ref in refs if ref.is_segment and holds(self._store, whole, ref)}
        if len(gone) < len(refs):
            return self._leave_out(found, refs, error)
        left = replace(known, gone=known.gone | gone)
        committed = manifest.commit(self._store, found.day, found.known, left)
        return replace(found, known=committed).without(refs) if committed else None

    def _stored_ids(self, found: Day, inputs: Sequence[SegmentRef]) -> Array | None:
        """The ids of windows that blocks have and these segments may have once more; None if none can.

        Raises InputUnreadable for a block that cannot say.
        """
        segments = [ref for ref in inputs if ref.is_segment]
        hours = {hour for ref in segments for hour in ref.hours()}
        whole = [block.ref for block in found.known.manifest.blocks if block.ref.is_whole]
        blocks = [ref for ref in whole if ref not in inputs and not hours.isdisjoint(ref.hours())]
        known, self._ids = self._ids, {}
        for ref in blocks if segments else []:
            self._ids[ref] = known[ref] if ref in known else stored_ids(self._store, ref)
        return pa.concat_arrays(list(self._ids.values())) if self._ids else None

    def _leave_out(self, found: Day, refs: Sequence[SegmentRef], error: StoreError) -> Day:
        """What there is without these, as long as this process lives."""
        self._failed(error)
        self._damaged.update(refs)
        return found.without(refs)

    def _sweep(self, day: date) -> None:
        """Delete what has been gone for long enough, and blocks that nobody committed."""
        known = manifest.read(self._store, day)
        gone = known.manifest.gone
        named = {*(block.ref.key_prefix for block in known.manifest.blocks), *gone}
        strays = _blocks(self._store, day) - named
        old = self._aged(day, "gone", gone, self._rules.gone_seconds)
        for key in sorted(old | self._aged(day, "stray", strays, self._rules.stray_seconds)):
            self._delete(key)
        if old:
            manifest.commit(self._store, day, known, replace(known.manifest, gone=gone - old))
        if is_over(day, self._clock()) and not gone and not strays:
            self._settled.add(day)

    def _aged(self, day: date, what: str, keys: Iterable[str], seconds: float) -> frozenset[str]:
        """Those of the keys that this process has seen to be so for so long."""
        now, before = self._timer(), self._seen.get((day, what), {})
        seen = {key: before.get(key, now) for key in keys}
        self._seen[day, what] = seen
        return frozenset(key for key, since in seen.items() if now - since >= seconds)

    def _delete(self, gone: str) -> None:
        if not gone.endswith("/"):
            self._store.delete(gone)
            self._metrics.compaction_deleted.inc()
            return
        # Samples first: a segment without does not count.
        others = (
            [part for part in SCHEMAS if part != "samples"] if gone.startswith(manifest.BLOCKS) else PARTS
        )
        parts = ["samples", *(part for part in others if part != "samples")]
        for part in parts:
            self._store.delete(f"{gone}{part}.parquet")
        self._metrics.compaction_deleted.inc(len(parts))

    def _failed(self, error: StoreError) -> None:
        self._metrics.compaction_errors.inc()
        _log.warning("compaction failed", error=error.message, hint=error.hint)


def _in_place(known: Sequence[Block], block: Block | None, taken: set[str]) -> Iterator[Block]:
    """The blocks of a day with a new one, in the order in which they count.

    It stands where the first stood that it was made of, and at the end if it was made of segments.
    """
    made = False
    for each in known:
        if each.ref.key_prefix not in taken:
            yield each
        elif block and not made:
            made = True
            yield block
    if block and not made:
        yield block


def _segments(store: ObjectStore, day: date) -> list[Sized]:
    """Committed segments, in the order in which they count, with their bytes."""
    sizes: Counter[str] = Counter()
    found: list[SegmentRef] = []
    for entry in store.list(f"{ROOT}{day.isoformat()}/"):
        sizes[entry.key[: entry.key.rfind("/") + 1]] += entry.size
        if ref := parse_segment_key(entry.key):
            found.append(ref)
    return sorted((ref, sizes[ref.key_prefix]) for ref in found)


def _blocks(store: ObjectStore, day: date) -> set[str]:
    """Key prefixes of all blocks of this day of which an object is there."""
    entries = store.list(f"{manifest.BLOCKS}{day.isoformat()}/")
    prefixes = {entry.key[: entry.key.rfind("/") + 1] for entry in entries}
    return {prefix for prefix in prefixes if manifest.is_place(prefix)}
