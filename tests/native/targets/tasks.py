"""asyncio: a chain of coroutines that waits more than it works, however long it has to queue for a CPU.

Ends after argv[1] seconds.
"""

import asyncio
import sys
import time


def compute() -> None:
    until = time.thread_time() + 0.005
    while time.thread_time() < until:
        pass


async def fetch() -> None:
    began = time.monotonic()
    compute()
    await asyncio.sleep(0.01 + 3 * (time.monotonic() - began))


async def handle() -> None:
    await fetch()


async def serve(end: float) -> None:
    while time.monotonic() < end:
        await handle()


async def main() -> None:
    end = time.monotonic() + float(sys.argv[1])
    print("ready", flush=True)
    await asyncio.gather(serve(end), serve(end))


asyncio.run(main())
