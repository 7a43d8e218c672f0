"""A bound on the memory that all running requests may use."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from sidelight_model.errors import Reason, SidelightError

MIN_REQUEST_BYTES: Final = 16 << 10
"""The memory that a request counts as at least."""
MIN_RETRY_SECONDS: Final = 2
MAX_RETRY_SECONDS: Final = 60
PACE_SECONDS: Final = 5.0
WAITING_DIVISOR: Final = 4
"""Requests that wait for memory may hold this fraction of the budget in addition."""


class Overloaded(SidelightError):
    """Clients send more than the collector can store at the moment."""

    reason = Reason.OVERLOADED

    def __init__(self, message: str, *, hint: str, retry_after_seconds: int) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds


class RetryPacer:
    """Chooses how long clients that are refused should wait.

    A refusal costs nearly as much as a request, so many refusals keep a collector overloaded. If more
    requests are refused than finished, the time grows in proportion, up to `MAX_RETRY_SECONDS`; otherwise it
    shrinks. It at most doubles or halves every `PACE_SECONDS`.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._changed_at = clock()
        self._finished = self._refused = 0
        self._seconds = float(MIN_RETRY_SECONDS)

    def finish(self) -> None:
        """Count a request that was not refused."""
        self._finished += 1

    def refuse(self) -> int:
        """Count a refusal, and return the seconds to wait."""
        self._refused += 1
        now = self._clock()
        if now - self._changed_at >= PACE_SECONDS:
            factor = self._refused / max(1, self._finished)
            seconds = self._seconds * min(max(factor, 0.5), 2.0)
            self._seconds = min(max(seconds, MIN_RETRY_SECONDS), MAX_RETRY_SECONDS)
            self._changed_at, self._finished, self._refused = now, 0, 0
        return round(self._seconds)


class MemoryBudget:
    """A budget of bytes for one event loop.

    `on_change` is called with the number of used bytes whenever it changes. Requests wait up to
    `max_wait_seconds` for each other, in order of arrival; with 0 they are refused at once.
    """

    def __init__(
        self,
        max_bytes: int,
        on_change: Callable[[int], None],
        max_wait_seconds: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_bytes = max_bytes
        self._on_change = on_change
        self._max_wait_seconds = max_wait_seconds
        self._max_waiting_bytes = max_bytes // WAITING_DIVISOR if max_wait_seconds else 0
        self._active_bytes = 0
        self._waiting_bytes = 0
        self._pacer = RetryPacer(clock)
        self._queue: OrderedDict[asyncio.Future[None], int] = OrderedDict()

    @property
    def used_bytes(self) -> int:
        return self._active_bytes + self._waiting_bytes

    @contextmanager
    def reserve(self) -> Iterator[Reservation]:
        """Reserve memory for one request, and release it at the end. Raises Overloaded."""
        reservation = Reservation(self)
        try:
            reservation.resize(0)
            yield reservation
            self._pacer.finish()
        finally:
            self._adjust(-reservation.size_bytes)

    def _adjust(self, delta: int, *, is_admitted: bool = True) -> None:
        """Change the bytes of one request.

        Until it is admitted, it may also use those of the requests that wait.
        """
        used, limit = self._active_bytes, self._max_bytes
        if not is_admitted:
            used, limit = self.used_bytes, limit + self._max_waiting_bytes
        if delta > 0 and used + delta > limit:
            raise self._build_error()
        self._active_bytes += delta
        self._admit()

    async def _grow(self, held_bytes: int, size_bytes: int) -> None:
        """Reserve `size_bytes` instead of `held_bytes`, in order of arrival.

        If it fails, nothing is reserved.
        """
        turn = asyncio.get_running_loop().create_future()
        self._active_bytes -= held_bytes
        self._waiting_bytes += held_bytes
        self._queue[turn] = size_bytes
        is_admitted = False
        try:
            self._admit()
            if not turn.done() and self._waiting_bytes > self._max_waiting_bytes:
                raise self._build_error()
            async with asyncio.timeout(self._max_wait_seconds):
                await turn
            is_admitted = True
        except TimeoutError:
            raise self._build_error() from None
        finally:
            self._waiting_bytes -= held_bytes
            was_queued = self._queue.pop(turn, None) is not None
            came_too_late = not (was_queued or is_admitted or turn.cancelled())
            if came_too_late:
                self._active_bytes -= size_bytes
            self._admit()

    def _admit(self) -> None:
        """Give memory to the requests that wait longest."""
        while self._queue:
            turn, size_bytes = next(iter(self._queue.items()))
            if self._active_bytes + size_bytes > self._max_bytes:
                break
            del self._queue[turn]
            if not turn.done():
                self._active_bytes += size_bytes
                turn.set_result(None)
        self._on_change(self.used_bytes)

    def _build_error(self) -> Overloaded:
        return Overloaded(
            f"{self.used_bytes} bytes of requests are in progress or wait, of at most "
            f"{self._max_bytes + self._max_waiting_bytes}",
            hint="Send again after Retry-After; if this lasts, the store is slow or the load is too high "
            "for one collector.",
            retry_after_seconds=self._pacer.refuse(),
        )


class Reservation:
    """The memory of one request."""

    def __init__(self, budget: MemoryBudget) -> None:
        self._budget = budget
        self._is_admitted = False
        self.size_bytes = 0

    def resize(self, size_bytes: int) -> None:
        """Change the reservation to `size_bytes`, or MIN_REQUEST_BYTES if that is more.

        Raises Overloaded, and then changes nothing.
        """
        size_bytes = max(size_bytes, MIN_REQUEST_BYTES)
        self._budget._adjust(size_bytes - self.size_bytes, is_admitted=self._is_admitted)
        self.size_bytes = size_bytes

    async def grow(self, size_bytes: int) -> None:
        """Change the reservation as `resize` does, but wait for memory.

        Raises Overloaded, and then holds nothing.
        """
        size_bytes = max(size_bytes, MIN_REQUEST_BYTES)
        held_bytes, self.size_bytes = self.size_bytes, 0
        await self._budget._grow(held_bytes, size_bytes)
        self._is_admitted = True
        self.size_bytes = size_bytes
