"""Spreads attaches over time, so that forty new workers are not attached at once.

Attaching means finding the interpreter in the target's memory. It takes some 10 ms of CPU, and seconds for
a process with thousands of mappings. Two limits follow. Few processes are attached at the same time, so
that a slow attach delays neither the others nor the threads that take windows. And a cooldown in proportion
to its duration follows each attach, so that all attaches together stay below a share of one core: they
compete with the very workers that have just started.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

_MAX_CONCURRENT = 4
_MAX_CPU_SHARE = 0.25
_MAX_COOLDOWN_SECONDS = 1.0


class AttachLimiter:
    """Limits concurrent attaches and their CPU time.

    `clock` returns monotonic seconds, `rng` a number from 0 to below 1.
    """

    def __init__(self, clock: Callable[[], float], rng: Callable[[], float]) -> None:
        self._clock = clock
        self._rng = rng
        self._slots = asyncio.Semaphore(_MAX_CONCURRENT)

    @asynccontextmanager
    async def acquire(self) -> AsyncIterator[None]:
        """Wait for a slot and hold it.

        The slot becomes free after a cooldown, for which the next attach waits.
        """
        await self._slots.acquire()
        started_at = self._clock()
        try:
            yield
        finally:
            cooldown = compute_cooldown(self._clock() - started_at, self._rng())
            asyncio.get_running_loop().call_later(cooldown, self._slots.release)


def compute_cooldown(attach_seconds: float, jitter: float) -> float:
    """Return the seconds for which a slot stays occupied after an attach.

    `jitter` (0 to below 1) varies it by half, so that attaches do not stay in step.
    """
    return min(
        _MAX_COOLDOWN_SECONDS, attach_seconds * (_MAX_CONCURRENT / _MAX_CPU_SHARE - 1) * (0.5 + jitter)
    )
