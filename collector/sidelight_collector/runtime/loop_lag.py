"""Measures the lag of the event loop, which delays every client."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

INTERVAL_SECONDS: Final = 0.5


async def measure_loop_lag(stop: asyncio.Event, on_lag: Callable[[float], None]) -> None:
    """Call `on_lag` every half second with the lag of the loop in seconds.

    Returns once `stop` is set.
    """
    clock = asyncio.get_running_loop().time
    while not stop.is_set():
        due = clock() + INTERVAL_SECONDS
        try:
            async with asyncio.timeout_at(due):
                await stop.wait()
        except TimeoutError:
            on_lag(max(0.0, clock() - due))
