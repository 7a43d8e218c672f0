"""The queue of windows that are sent on, and its task."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

import structlog

from sidelight_collector.forwarding.forward_client import ForwardFailed
from sidelight_collector.metrics import Metrics
from sidelight_collector.stack_hashing import HashedWindow

MAX_BATCH: Final = 100
"""Windows of one request."""
ATTEMPTS: Final = 4
WINDOW_BYTES: Final = 4096
"""Memory that a window counts as, besides its stacks."""
OUTCOMES: Final = ("sent", "failed", "dropped")

_log = structlog.get_logger()


class Forwarder:
    """Sends stored windows on, and never makes ingest wait.

    `offer` drops windows while those in the queue have more than `max_bytes`. A batch that fails
    temporarily is repeated up to ATTEMPTS times, with `first_pause_seconds` and twice that between.
    `send` blocks, and runs in a thread.
    """

    def __init__(
        self,
        send: Callable[[Sequence[HashedWindow]], None],
        metrics: Metrics,
        max_bytes: int,
        *,
        first_pause_seconds: float = 1.0,
    ) -> None:
        self._send = send
        self._count = metrics.forwarded_windows
        for outcome in OUTCOMES:
            self._count.labels(outcome)
        self._max_bytes = max_bytes
        self._first_pause_seconds = first_pause_seconds
        self._queue: deque[tuple[HashedWindow, int]] = deque()
        self._queued_bytes = 0
        self._wake = asyncio.Event()

    def offer(self, windows: Sequence[HashedWindow]) -> None:
        """Add windows to the queue; those that have no space are dropped and counted."""
        for window in windows:
            size = WINDOW_BYTES + window.memory_bytes
            if self._queued_bytes + size > self._max_bytes:
                self._count.labels("dropped").inc()
                continue
            self._queue.append((window, size))
            self._queued_bytes += size
        self._wake.set()

    async def run(self, stop: asyncio.Event) -> None:
        """Send windows until `stop` is set; then once more, without repeating."""
        while not stop.is_set():
            if self._queue:
                await self._send_batch(stop)
                continue
            self._wake.clear()
            waits = [asyncio.ensure_future(event.wait()) for event in (self._wake, stop)]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()
        if self._queue:
            await self._send_batch(stop)
        if self._queue:
            self._count.labels("dropped").inc(len(self._queue))
            _log.warning("windows were not forwarded before the end", windows=len(self._queue))

    async def _send_batch(self, stop: asyncio.Event) -> None:
        entries = [self._queue.popleft() for _ in range(min(MAX_BATCH, len(self._queue)))]
        batch = [window for window, _ in entries]
        outcome = "sent" if await self._send_repeatedly(batch, stop) else "failed"
        self._count.labels(outcome).inc(len(batch))
        self._queued_bytes -= sum(size for _, size in entries)

    async def _send_repeatedly(self, batch: Sequence[HashedWindow], stop: asyncio.Event) -> bool:
        pause = self._first_pause_seconds
        for attempt in range(1, ATTEMPTS + 1):
            try:
                await asyncio.to_thread(self._send, batch)
            except ForwardFailed as error:
                if attempt == ATTEMPTS or not error.is_temporary or stop.is_set():
                    _log.warning("windows were not forwarded", windows=len(batch), problem=str(error))
                    return False
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), pause)
                pause *= 2
            except Exception:  # noqa: BLE001 - a defect in one batch must not end the collector
                _log.exception("windows were not forwarded", windows=len(batch))
                return False
            else:
                return True
        return False
