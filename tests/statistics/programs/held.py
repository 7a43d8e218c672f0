"""One event loop, named by the argument: `request` computes, `blocked` sleeps and lets nobody else."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable

SPIN_SECONDS = 0.01
ROUNDS = 60


def spin() -> None:
    end = time.perf_counter() + SPIN_SECONDS
    while time.perf_counter() < end:
        sum(range(200))


async def request() -> None:
    for _ in range(ROUNDS):
        spin()
        await asyncio.sleep(0.001)


async def blocked() -> None:
    for _ in range(ROUNDS):
        time.sleep(SPIN_SECONDS)
        await asyncio.sleep(0.001)


async def waiting() -> None:
    await asyncio.gather(request(), blocked())
    await asyncio.sleep(1)


def on_asyncio() -> None:
    asyncio.run(waiting())


def on_uvloop() -> None:
    import uvloop

    uvloop.run(waiting())


def on_tornado() -> None:
    from tornado.ioloop import IOLoop

    IOLoop.current().run_sync(waiting)


def on_gevent() -> None:
    import gevent

    gevent.joinall([gevent.spawn(green_request), gevent.spawn(green_blocked)])
    gevent.sleep(1)


def green_request() -> None:
    import gevent

    for _ in range(ROUNDS):
        spin()
        gevent.sleep(0.001)


def green_blocked() -> None:
    import gevent

    for _ in range(ROUNDS):
        time.sleep(SPIN_SECONDS)
        gevent.sleep(0.001)


RUN: dict[str, Callable[[], None]] = {
    "asyncio": on_asyncio,
    "uvloop": on_uvloop,
    "tornado": on_tornado,
    "gevent": on_gevent,
}

if __name__ == "__main__":
    RUN[sys.argv[1]]()
