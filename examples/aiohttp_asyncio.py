"""A small service on aiohttp and the event loop of the standard library."""

import asyncio
from asyncio import AbstractEventLoop

from aiohttp import web
from listening import listening_socket


async def call_backend(milliseconds: int) -> int:
    """Stand for a call to another service that answers after that time."""
    await asyncio.sleep(milliseconds / 1000)
    return milliseconds


async def handle_50(request: web.Request) -> web.Response:
    """Wait for one backend."""
    waited = await call_backend(50)
    return web.json_response({"waited_ms": waited})


async def handle_125(request: web.Request) -> web.Response:
    """Wait for one backend, then for two at once, then for one that is slower than we are ready to wait."""
    first = await call_backend(50)
    both = await asyncio.gather(call_backend(50), call_backend(50))
    try:
        async with asyncio.timeout(0.025):
            await call_backend(50)
        gave_up = False
    except TimeoutError:
        gave_up = True
    return web.json_response({"waited_ms": [first, *both], "gave_up": gave_up})


async def handle_health(request: web.Request) -> web.Response:
    """Say that the service is up."""
    return web.Response(text="ok\n")


def application() -> web.Application:
    """Build the application with its three routes."""
    app = web.Application()
    app.router.add_get("/50", handle_50)
    app.router.add_get("/125", handle_125)
    app.router.add_get("/healthz", handle_health)
    return app


def serve(loop: AbstractEventLoop | None = None) -> None:
    """Serve until SIGINT or SIGTERM, on the given event loop or on a new one of the standard library."""
    web.run_app(application(), sock=listening_socket(), access_log=None, print=None, loop=loop)


if __name__ == "__main__":
    serve()
