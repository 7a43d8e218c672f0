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

_AT_ONCE = 4
_SHARE_OF_ONE_CORE = 0.25
_LONGEST_REST = 1.0


class Turns:
    """Gives turns; `clock` is monotonic seconds, `luck` a number from 0 to below 1."""

    def __init__(self, clock: Callable[[], float], luck: Callable[[], float]) -> None:
        self._clock = clock
        self._luck = luck
        self._free = asyncio.Semaphore(_AT_ONCE)

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for a turn and have it; the rest after it is the next one's to wait for."""
        await self._free.acquire()
        began = self._clock()
        try:
            yield
        finally:
            rest = rest_after(self._clock() - began, self._luck())
            asyncio.get_running_loop().call_later(rest, self._free.release)


def rest_after(took: float, luck: float) -> float:
    """How long a turn stays taken after it; luck moves it by half, so that nothing stays in step."""
    return min(_LONGEST_REST, took * (_AT_ONCE / _SHARE_OF_ONE_CORE - 1) * (0.5 + luck))
