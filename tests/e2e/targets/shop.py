"""A small shop on aiohttp whose CPU time a request is known: so many turns of hashing in each function.

    python shop.py PORT_FILE SECONDS

What is planted is planted in the text (tests/e2e/planted_changes.py): a version is a copy of this file with
an edit, as versions are. It ends by itself after so many seconds.
"""

import asyncio
import ctypes
import os
import platform
import struct
import sys
from hashlib import pbkdf2_hmac
from pathlib import Path

from aiohttp import web

ITERATIONS = 40


def search() -> None:
    for _ in range(48):
        pbkdf2_hmac("sha256", b"search", b"shop", ITERATIONS)


def price() -> None:
    for _ in range(36):
        pbkdf2_hmac("sha256", b"price", b"shop", ITERATIONS)


def tax() -> None:
    for _ in range(12):
        pbkdf2_hmac("sha256", b"tax", b"shop", ITERATIONS)


def render() -> None:
    for _ in range(24):
        pbkdf2_hmac("sha256", b"render", b"shop", ITERATIONS)


def work() -> None:
    search()
    price()
    tax()
    render()


async def handle(request: web.Request) -> web.Response:
    work()
    return web.Response(text="ok\n")


def short_turns() -> None:
    """Ask the scheduler to be let on a CPU soon, in return for shorter turns there.

    What waits for a CPU counts as running, so on a crowded machine waiting is most of what would be compared.
    This takes no more of the CPU and needs no right. A kernel before Linux 6.12 pays no heed.
    """
    number = {"x86_64": 314, "aarch64": 274}.get(platform.machine())
    if number is None:
        return
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    # struct sched_attr: size, policy, flags, nice, priority, then runtime, deadline and period in nanoseconds
    attributes = struct.pack("=IIQiIQQQ", 48, os.SCHED_OTHER, 0, nice, 0, 1_200_000, 0, 0)
    ctypes.CDLL(None).syscall(number, 0, attributes, 0)


async def serve(port_file: Path, seconds: float) -> None:
    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    port_file.write_text(f"{runner.addresses[0][1]}\n")
    await asyncio.sleep(seconds)


if __name__ == "__main__":
    short_turns()
    asyncio.run(serve(Path(sys.argv[1]), float(sys.argv[2])))
