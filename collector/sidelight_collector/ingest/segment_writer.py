"""Write batches of windows as segments, and acknowledge them once durable."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Final

import structlog

from sidelight_collector.ingest.batch import (
    ACTIVITY_FACTOR,
    ArrivalHistory,
    FlushPolicy,
    WindowBatch,
    seconds_until_due,
)
from sidelight_collector.ingest.dedup import DedupCache, DuplicateId
from sidelight_collector.ingest.stats import IngestStats
from sidelight_collector.metrics import Metrics
from sidelight_collector.stack_hashing import HashedWindow
from sidelight_collector.storage import manifest
from sidelight_collector.storage.objects import ObjectStore, StoreError, StoreIncompatible, StoreUnavailable
from sidelight_collector.storage.segments import SegmentRef, event_day, write_hashed_segment
from sidelight_model.errors import Reason, SidelightError

WRITE_CONCURRENCY: Final = 4

WriteOutcome = SidelightError | None
_Completion = asyncio.Future[WriteOutcome]
_log = structlog.get_logger()


class ShuttingDown(SidelightError):
    """The collector is shutting down and accepts no windows."""

    reason = Reason.SHUTTING_DOWN

    def __init__(self) -> None:
        super().__init__("the collector is shutting down", hint="Send again after Retry-After.")


class DayClosed(SidelightError):
    """Retention has dropped single windows of this day."""

    reason = Reason.TOO_OLD

    def __init__(self, day: date) -> None:
        super().__init__(
            f"the collector stores only sums of {day}, and takes no more windows of it",
            hint="A window that was sent before is in the sums. The collector stores single windows "
            "longer with a larger --retention-bytes or --retention-raw-days.",
        )
        self.day = day


@dataclass(frozen=True, slots=True)
class Receipt:
    """Ids of durable windows: new ones, and duplicates of stored or pending ones."""

    accepted: list[str]
    duplicates: list[str]


class SegmentWriter:
    """Collects windows in batches by the day of their start, and stores segments.

    `submit` returns when its windows are durable, or raises. It may be cancelled; its windows stay in their
    batch. `run` is a root task, which ends after `close` once everything is stored.
    """

    def __init__(
        self,
        store: ObjectStore,
        policy: FlushPolicy,
        metrics: Metrics,
        stats: IngestStats,
        dedup_cache: DedupCache,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store = store
        self._policy = policy
        self._metrics = metrics
        self._stats = stats
        self._dedup_cache = dedup_cache
        self._clock = clock
        self._wall_clock_ns = wall_clock_ns
        self._arrivals = ArrivalHistory(ACTIVITY_FACTOR * policy.max_seconds)
        self._open_batches: dict[date, WindowBatch[_Completion]] = {}
        self._pending_windows: dict[str, tuple[int, _Completion]] = {}
        self._wakeup = asyncio.Event()
        self._is_closing = False
        self._write_slots = asyncio.Semaphore(WRITE_CONCURRENCY)

    async def submit(
        self, windows: Sequence[HashedWindow], memory_bytes: int, connection: int | None = None
    ) -> Receipt:
        """Make windows durable; `memory_bytes` is the size of all of them.

        `connection` identifies the connection of the sender.
        Raises DuplicateId (then none is stored), DayClosed and StoreUnavailable (windows of other days may be
        durable: send all again), ShuttingDown.
        """
        if self._is_closing:
            raise ShuttingDown
        for row in windows:
            digest = self._find_digest(row.window.id)
            if digest is not None and digest != row.digest:
                raise DuplicateId(row.window.id)
        fresh: dict[str, HashedWindow] = {}
        for row in windows:
            if (
                self._find_digest(row.window.id) is None
                and fresh.setdefault(row.window.id, row).digest != row.digest
            ):
                raise DuplicateId(row.window.id)
        if fresh:
            has_pending = bool(self._pending_windows)
            self._arrivals.record(
                _find_sender(windows[0]), connection, self._clock(), has_pending=has_pending
            )
        for row in fresh.values():
            self._add_to_batch(row, memory_bytes // len(windows))
        duplicates = [row.window.id for row in windows if row.window.id not in fresh]
        self._metrics.windows_duplicate.inc(len(windows) - len(fresh))
        waits = [
            self._pending_windows[row.window.id][1]
            for row in windows
            if row.window.id in self._pending_windows
        ]
        for done in dict.fromkeys(waits):
            if failure := await asyncio.shield(done):
                raise _copy_error(failure)
        return Receipt(list(fresh), list(dict.fromkeys(duplicates)))

    async def run(self) -> None:
        """Store batches when they are due, until closed."""
        with ThreadPoolExecutor(WRITE_CONCURRENCY, thread_name_prefix="store-write") as threads:
            async with asyncio.TaskGroup() as writes:
                while not (self._is_closing and not self._open_batches):
                    for batch in self._list_due_batches():
                        await self._write_slots.acquire()
                        del self._open_batches[batch.day]
                        writes.create_task(
                            self._write_batch(batch, threads), name=f"store windows of {batch.day}"
                        )
                    await self._wait_until_due()

    def close(self) -> None:
        """Refuse new windows, and let `run` store the open batches and end."""
        self._is_closing = True
        self._wakeup.set()

    def _find_digest(self, window_id: str) -> int | None:
        pending = self._pending_windows.get(window_id)
        return pending[0] if pending else self._dedup_cache.get_digest(window_id)

    def _add_to_batch(self, row: HashedWindow, memory_bytes: int) -> None:
        day = event_day(row.window.start_ns)
        batch = self._open_batches.get(day)
        if batch is None:
            batch = self._open_batches[day] = WindowBatch(
                day, self._clock(), asyncio.get_running_loop().create_future()
            )
            self._wakeup.set()
        batch.windows.append(row)
        batch.memory_bytes += memory_bytes
        self._pending_windows[row.window.id] = (row.digest, batch.completion)
        if batch.memory_bytes >= self._policy.max_bytes:
            self._wakeup.set()

    def _list_due_batches(self) -> list[WindowBatch[_Completion]]:
        now = self._clock()
        return [
            batch
            for batch in self._open_batches.values()
            if self._is_closing or not self._seconds_left(batch, now)
        ]

    def _seconds_left(self, batch: WindowBatch[_Completion], now: float) -> float:
        has_concurrent_senders = self._arrivals.has_concurrent_senders(now)
        return seconds_until_due(
            now,
            batch.opened_at,
            batch.memory_bytes,
            self._policy,
            has_concurrent_senders=has_concurrent_senders,
        )

    async def _wait_until_due(self) -> None:
        now = self._clock()
        seconds = min((self._seconds_left(batch, now) for batch in self._open_batches.values()), default=None)
        try:
            async with asyncio.timeout(seconds):
                if not self._is_closing:
                    await self._wakeup.wait()
        except TimeoutError:
            pass
        self._wakeup.clear()

    async def _write_batch(self, batch: WindowBatch[_Completion], threads: ThreadPoolExecutor) -> None:
        outcome: WriteOutcome = ShuttingDown()
        start = time.perf_counter()
        try:
            loop = asyncio.get_running_loop()
            ref = await loop.run_in_executor(threads, self._write_segment, batch.day, batch.windows)
            outcome = None
        except DayClosed as error:
            outcome = error
        except StoreError as error:
            outcome = error
            _log.warning(
                "segment not stored", windows=len(batch.windows), error=error.message, hint=error.hint
            )
        else:
            self._record_written(batch, time.perf_counter() - start)
            _log.debug("segment stored", key=ref.key_prefix, windows=len(batch.windows))
        finally:
            self._write_slots.release()
            for row in batch.windows:
                del self._pending_windows[row.window.id]
            batch.completion.set_result(outcome)

    def _write_segment(self, day: date, windows: Sequence[HashedWindow]) -> SegmentRef:
        """Write windows of one day. Raises DayClosed, and StoreError.

        The second check is what `manifest.DayState` relies on; the first saves the write.
        """
        self._check_day(day)
        ref = write_hashed_segment(self._store, windows)
        self._check_day(day)
        return ref

    def _check_day(self, day: date) -> None:
        """Raise DayClosed if retention has dropped, or is about to drop, the ids of a day."""
        if day >= event_day(self._wall_clock_ns()):
            return  # retention takes only days that are over
        try:
            takes_windows = manifest.read(self._store, day).document.takes_windows
        except (manifest.ManifestDamaged, StoreIncompatible):
            return
        if not takes_windows:
            raise DayClosed(day)

    def _record_written(self, batch: WindowBatch[_Completion], seconds: float) -> None:
        now_ns = self._wall_clock_ns()
        self._metrics.segments_written.inc()
        self._metrics.segment_write_seconds.observe(seconds)
        self._metrics.windows_accepted.inc(len(batch.windows))
        self._metrics.last_ingest.set(now_ns / 1e9)
        for row in batch.windows:
            self._dedup_cache.add(row.window.id, row.digest)
        window_labels = [row.window.labels for row in batch.windows]
        senders = [
            (labels.get("pod", ""), labels["service"], labels.get("namespace", ""))
            for labels in window_labels
        ]
        self._stats.record_acknowledged(senders, now_ns)


def _find_sender(row: HashedWindow) -> str:
    labels = row.window.labels
    return "\n".join(labels.get(name, "") for name in ("namespace", "pod", "service"))


def _copy_error(failure: SidelightError) -> SidelightError:
    """Copy the error of a batch, to raise it in one of the waiting requests."""
    if isinstance(failure, ShuttingDown):
        return ShuttingDown()
    if isinstance(failure, DayClosed):
        return DayClosed(failure.day)
    return StoreUnavailable(failure.message, reason=Reason.STORE_UNAVAILABLE, hint=failure.hint)
