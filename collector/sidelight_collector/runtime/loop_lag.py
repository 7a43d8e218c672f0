"""How late the event loop is: whatever holds it up holds up every client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

PULSE_SECONDS: Final = 0.5


async def pulse(stop: asyncio.Event, late: Callable[[float], None]) -> None:
    """Tell every half second by how many seconds the loop was late, until `stop` is set."""
    clock = asyncio.get_running_loop().time
    while not stop.is_set():
        due = clock() + PULSE_SECONDS
        try:
            async with asyncio.timeout_at(due):
                await stop.wait()
        except TimeoutError:
            late(max(0.0, clock() - due))
