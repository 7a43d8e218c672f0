"""Logs the stacks of a process whose event loop stands still.

A thread of faulthandler writes them. It needs no GIL, so it works while Python or C code holds the GIL. Where
a liveness probe restarts the process, the log then shows why.
"""

from __future__ import annotations

import asyncio
import faulthandler
import time
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

import structlog

STALL_SECONDS: Final = 15.0
CHECKS_PER_STALL: Final = 3
STDERR: Final = 2

T = TypeVar("T")
_log = structlog.get_logger()


async def run_beside(background: Coroutine[Any, Any, None], main: Coroutine[Any, Any, T]) -> T:
    """Run `background` for as long as `main` runs; return the result of `main`."""
    task = asyncio.create_task(background, name="show that the event loop runs")
    try:
        return await main
    finally:
        task.cancel()


async def log_stalls(seconds: float = STALL_SECONDS) -> None:
    """Write all stacks to a descriptor when the loop stands still for so long.

    They are plain text, also in a log of JSON lines. Runs until cancelled; one at a time in a process.
    """
    try:
        while True:
            start = time.monotonic()
            faulthandler.dump_traceback_later(seconds, file=STDERR, exit=False)
            await asyncio.sleep(seconds / CHECKS_PER_STALL)
            elapsed = time.monotonic() - start
            if elapsed > seconds:
                _log.warning("the event loop stood still", seconds=round(elapsed, 1))
    finally:
        faulthandler.cancel_dump_traceback_later()
