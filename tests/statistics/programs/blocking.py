"""An asyncio loop that `report` holds for so many milliseconds at a time; it says when (Unix nanoseconds)."""

from __future__ import annotations

import asyncio
import sys
import time


def report(seconds: float) -> None:
    begun = time.time_ns()
    time.sleep(seconds)
    print("held", begun, time.time_ns(), flush=True)


async def reporting(seconds: float) -> None:
    while True:
        await asyncio.sleep(seconds)
        report(seconds)


async def ticking() -> None:
    while True:
        await asyncio.sleep(0.02)


async def main(seconds: float) -> None:
    print("ready", flush=True)
    await asyncio.gather(reporting(seconds), ticking())


asyncio.run(main(int(sys.argv[1]) / 1000))
