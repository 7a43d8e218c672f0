"""Two event loops: one with argv[1] waiting tasks, and one that is blocked while its other task is ready.

Says "ready", writes the monotonic time before the second blocks to argv[2], and ends with standard input.
"""

import asyncio
import sys
import threading
import time
from pathlib import Path


async def wait():
    waiting = [asyncio.create_task(asyncio.sleep(600)) for _ in range(int(sys.argv[1]))]
    await asyncio.gather(*waiting)


async def soon():
    pass


async def block():
    task = asyncio.create_task(soon())
    Path(sys.argv[2]).write_text(str(time.monotonic_ns()))
    print("ready", flush=True)
    sys.stdin.read()
    await task


threading.Thread(target=asyncio.run, args=(wait(),), daemon=True).start()
asyncio.run(block())
