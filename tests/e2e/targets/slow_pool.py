"""A service whose requests wait for a pool of two connections, and its clients.

`slow_pool.py serve FRAMEWORK` says "ready PORT"; `slow_pool.py load PORT` sends it twenty requests at a time.
"""

from __future__ import annotations

import asyncio
import socket
import sys

import anyio
import tornado.httpserver
import tornado.web
import uvicorn
import uvloop
from aiohttp import ClientSession, web
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

CLIENTS, CONNECTIONS, QUERY_SECONDS = 20, 2, 0.05


class Pool:
    """Connections in a queue: asyncio's, or a stream of anyio."""

    def __init__(self, is_anyio: bool = False) -> None:
        free: asyncio.Queue[int] = asyncio.Queue()
        self._get, self.release = free.get, free.put_nowait
        if is_anyio:
            give, take = anyio.create_memory_object_stream[int](CONNECTIONS)
            self._get, self.release = take.receive, give.send_nowait
        for connection in range(CONNECTIONS):
            self.release(connection)

    async def acquire(self) -> int:
        return await self._get()


async def handle(pool: Pool) -> str:
    connection = await pool.acquire()
    try:
        await asyncio.sleep(QUERY_SECONDS)
    finally:
        pool.release(connection)
    return "done"


async def serve_aiohttp(listener: socket.socket) -> None:
    pool = Pool()

    async def answer(_: web.Request) -> web.Response:
        return web.Response(text=await handle(pool))

    app = web.Application()
    app.router.add_get("/", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.SockSite(runner, listener).start()
    await asyncio.Event().wait()


async def serve_starlette(listener: socket.socket) -> None:
    pool = Pool(is_anyio=True)

    async def answer(_: Request) -> PlainTextResponse:
        return PlainTextResponse(await handle(pool))

    config = uvicorn.Config(Starlette(routes=[Route("/", answer)]), log_level="warning")
    await uvicorn.Server(config).serve(sockets=[listener])


async def serve_tornado(listener: socket.socket) -> None:
    pool = Pool()

    class Answer(tornado.web.RequestHandler):
        async def get(self) -> None:
            self.write(await handle(pool))

    listener.setblocking(False)
    tornado.httpserver.HTTPServer(tornado.web.Application([("/", Answer)])).add_socket(listener)
    await asyncio.Event().wait()


async def load(port: str) -> None:
    async with ClientSession() as session:

        async def repeat() -> None:
            while True:
                async with session.get(f"http://127.0.0.1:{port}/") as response:
                    await response.read()

        await asyncio.gather(*(repeat() for _ in range(CLIENTS)))


SERVICES = {
    "aiohttp": (asyncio.run, serve_aiohttp),
    "aiohttp on uvloop": (uvloop.run, serve_aiohttp),
    "Starlette on anyio": (asyncio.run, serve_starlette),
    "Tornado": (asyncio.run, serve_tornado),
}

if sys.argv[1] == "load":
    asyncio.run(load(sys.argv[2]))
else:
    run, serve = SERVICES[sys.argv[2]]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print("ready", listener.getsockname()[1], flush=True)
        run(serve(listener))
