"""Spreads attaches, so that forty new workers are not forty attaches at once.

To attach is to find the interpreter in the target's memory: some 10 ms of CPU, and seconds for a
process with thousands of mappings. Two bounds follow. Few attach at the same time, so that one that
takes long keeps neither the others nor the threads that take windows waiting. And each turn is
followed by a rest in proportion, so that all attaches together stay below a share of one core:
they compete with the very workers that have just been started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_MAX_CONCURRENT = 4
_MAX_CPU_SHARE = 0.25
_MAX_COOLDOWN_SECONDS = 1.0


class AttachLimiter:
    """Gives turns; `clock` is monotonic seconds, `luck` a number from 0 to below 1."""

    def __init__(self, clock: Callable[[], float], rng: Callable[[], float]) -> None:
        self._clock = clock
        self._rng = rng
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Wait for a turn and have it; the rest after it is the next one's to wait for."""
        await self._slots.acquire()
        began = self._clock()
        try:
            yield
        finally:
            cooldown = compute_cooldown(self._clock() - began, self._rng())
            asyncio.get_running_loop().call_later(cooldown, self._slots.release)


def compute_cooldown(attach_seconds: float, jitter: float) -> float:
    """How long a turn stays taken after it; luck moves it by half, so that nothing stays in step."""
    return min(
        _MAX_COOLDOWN_SECONDS, attach_seconds * (_MAX_CONCURRENT / _MAX_CPU_SHARE - 1) * (0.5 + jitter)
    )
