"""An aiohttp service whose requests wait for a pool of two connections, and its clients.

`slow_pool.py` serves and says "ready PORT"; `slow_pool.py PORT` sends it requests, twenty at a time.
"""

from __future__ import annotations

import asyncio
import sys

from aiohttp import ClientSession, web

CLIENTS, CONNECTIONS, QUERY_SECONDS = 20, 2, 0.05


class Pool:
    def __init__(self) -> None:
        self._free: asyncio.Queue[int] = asyncio.Queue()
        for connection in range(CONNECTIONS):
            self._free.put_nowait(connection)

    async def acquire(self) -> int:
        return await self._free.get()

    def release(self, connection: int) -> None:
        self._free.put_nowait(connection)


async def query(pool: Pool) -> None:
    connection = await pool.acquire()
    try:
        await asyncio.sleep(QUERY_SECONDS)
    finally:
        pool.release(connection)


async def serve() -> None:
    pool = Pool()

    async def handle(_: web.Request) -> web.Response:
        await query(pool)
        return web.Response(text="done")

    app = web.Application()
    app.router.add_get("/", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print("ready", runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


async def send(port: str) -> None:
    async with ClientSession() as session:

        async def repeat() -> None:
            while True:
                async with session.get(f"http://127.0.0.1:{port}/") as response:
                    await response.read()

        await asyncio.gather(*(repeat() for _ in range(CLIENTS)))


asyncio.run(send(sys.argv[1]) if len(sys.argv) > 1 else serve())
