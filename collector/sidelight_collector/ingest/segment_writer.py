"""Acknowledged means durable: windows wait together, are stored as one segment, and then are answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from typing import Final

import structlog

from sidelight_collector.ingest.batch import Batch, FlushRule, seconds_until_due
from sidelight_collector.ingest.dedup import DuplicateId, RecentIds
from sidelight_collector.ingest.stats import Activity
from sidelight_collector.metrics import Metrics
from sidelight_collector.stack_hashing import HashedWindow
from sidelight_collector.storage.objects import ObjectStore, StoreError, StoreUnavailable
from sidelight_collector.storage.segments import event_day, write_hashed_segment
from sidelight_model.errors import Reason, SidelightError

WRITERS: Final = 4

Outcome = SidelightError | None
_Done = asyncio.Future[Outcome]
_log = structlog.get_logger()


class ShuttingDown(SidelightError):
    """The collector is about to end and takes nothing new."""

    reason = Reason.SHUTTING_DOWN

    def __init__(self) -> None:
        super().__init__("the collector is shutting down", hint="Send again after Retry-After.")


@dataclass(frozen=True, slots=True)
class Receipt:
    """Ids of windows that are durable: new ones, and ones that were stored or on their way before."""

    accepted: list[str]
    duplicates: list[str]


class Flusher:
    """Gathers windows into batches, one for each day of the event, and stores each as a segment.

    `submit` returns when its windows are durable, or raises. Whoever waits may be cancelled: the windows stay
    in their batch. `run` is a root task, and ends once `close` was called and everything is stored.
    """

    def __init__(
        self,
        store: ObjectStore,
        rule: FlushRule,
        metrics: Metrics,
        activity: Activity,
        recent: RecentIds,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store = store
        self._rule = rule
        self._metrics = metrics
        self._activity = activity
        self._recent = recent
        self._clock = clock
        self._wall_ns = wall_ns
        self._open: dict[date, Batch[_Done]] = {}
        self._coming: dict[str, tuple[int, _Done]] = {}
        self._changed = asyncio.Event()
        self._closing = False
        self._places = asyncio.Semaphore(WRITERS)

    async def submit(self, windows: Sequence[HashedWindow], text_bytes: int) -> Receipt:
        """Make windows durable; `text_bytes` is what they took together.

        Raises DuplicateId (nothing was taken then), StoreUnavailable (some may be durable all the same: send
        again), ShuttingDown.
        """
        if self._closing:
            raise ShuttingDown
        for row in windows:
            known = self._digest(row.window.id)
            if known is not None and known != row.digest:
                raise DuplicateId(row.window.id)
        fresh: dict[str, HashedWindow] = {}
        for row in windows:
            if (
                self._digest(row.window.id) is None
                and fresh.setdefault(row.window.id, row).digest != row.digest
            ):
                raise DuplicateId(row.window.id)
        for row in fresh.values():
            self._add(row, text_bytes // len(windows))
        duplicates = [row.window.id for row in windows if row.window.id not in fresh]
        self._metrics.windows_duplicate.inc(len(windows) - len(fresh))
        waits = [self._coming[row.window.id][1] for row in windows if row.window.id in self._coming]
        for done in dict.fromkeys(waits):
            if failure := await asyncio.shield(done):
                raise _again(failure)
        return Receipt(list(fresh), list(dict.fromkeys(duplicates)))

    async def run(self) -> None:
        """Store batches as they come due, until closed."""
        with ThreadPoolExecutor(WRITERS, thread_name_prefix="store-write") as threads:
            async with asyncio.TaskGroup() as writes:
                while not (self._closing and not self._open):
                    for batch in self._due():
                        await self._places.acquire()
                        del self._open[batch.day]
                        writes.create_task(self._write(batch, threads), name=f"store windows of {batch.day}")
                    await self._wait()

    def close(self) -> None:
        """Take nothing more, and let `run` store what is here and end."""
        self._closing = True
        self._changed.set()

    def _digest(self, window_id: str) -> int | None:
        coming = self._coming.get(window_id)
        return coming[0] if coming else self._recent.digest(window_id)

    def _add(self, row: HashedWindow, text_bytes: int) -> None:
        day = event_day(row.window.start_ns)
        batch = self._open.get(day)
        if batch is None:
            batch = self._open[day] = Batch(day, self._clock(), asyncio.get_running_loop().create_future())
            self._changed.set()
        batch.windows.append(row)
        batch.text_bytes += text_bytes
        self._coming[row.window.id] = (row.digest, batch.done)
        if batch.text_bytes >= self._rule.bytes:
            self._changed.set()

    def _due(self) -> list[Batch[_Done]]:
        now = self._clock()
        return [batch for batch in self._open.values() if self._closing or not self._left(batch, now)]

    def _left(self, batch: Batch[_Done], now: float) -> float:
        return seconds_until_due(now, batch.opened, batch.text_bytes, self._rule)

    async def _wait(self) -> None:
        now = self._clock()
        left = min((self._left(batch, now) for batch in self._open.values()), default=None)
        try:
            async with asyncio.timeout(left):
                if not self._closing:
                    await self._changed.wait()
        except TimeoutError:
            pass
        self._changed.clear()

    async def _write(self, batch: Batch[_Done], threads: ThreadPoolExecutor) -> None:
        outcome: Outcome = ShuttingDown()
        start = time.perf_counter()
        try:
            loop = asyncio.get_running_loop()
            ref = await loop.run_in_executor(threads, write_hashed_segment, self._store, batch.windows)
            outcome = None
        except StoreError as error:
            outcome = error
            _log.warning(
                "segment not stored", windows=len(batch.windows), error=error.message, hint=error.hint
            )
        else:
            self._stored(batch, time.perf_counter() - start)
            _log.debug("segment stored", key=ref.key_prefix, windows=len(batch.windows))
        finally:
            self._places.release()
            for row in batch.windows:
                del self._coming[row.window.id]
            batch.done.set_result(outcome)

    def _stored(self, batch: Batch[_Done], seconds: float) -> None:
        now_ns = self._wall_ns()
        self._metrics.segments_written.inc()
        self._metrics.segment_write_seconds.observe(seconds)
        self._metrics.windows_accepted.inc(len(batch.windows))
        self._metrics.last_ingest.set(now_ns / 1e9)
        for row in batch.windows:
            self._recent.remember(row.window.id, row.digest)
        labels = [row.window.labels for row in batch.windows]
        senders = [(one.get("pod", ""), one["service"], one.get("namespace", "")) for one in labels]
        self._activity.acknowledged(senders, now_ns)


def _again(failure: SidelightError) -> SidelightError:
    """The failure of a batch, told to one of those who waited for it."""
    if isinstance(failure, ShuttingDown):
        return ShuttingDown()
    return StoreUnavailable(failure.message, reason=Reason.STORE_UNAVAILABLE, hint=failure.hint)
