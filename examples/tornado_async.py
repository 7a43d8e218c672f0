"""A small service on Tornado, its handlers written with async and await."""

import asyncio
from datetime import timedelta

from listening import listening_socket
from tornado import gen, util, web
from tornado.httpserver import HTTPServer


async def call_backend(milliseconds: int) -> int:
    """Stand for a call to another service that answers after that time."""
    await gen.sleep(milliseconds / 1000)
    return milliseconds


class Handle50(web.RequestHandler):
    """Wait for one backend."""

    async def get(self) -> None:
        waited = await call_backend(50)
        self.write({"waited_ms": waited})


class Handle125(web.RequestHandler):
    """Wait for one backend, then for two at once, then for one that is slower than we are ready to wait."""

    async def get(self) -> None:
        first = await call_backend(50)
        both = await gen.multi([call_backend(50), call_backend(50)])
        try:
            await gen.with_timeout(timedelta(milliseconds=25), call_backend(50))
            gave_up = False
        except util.TimeoutError:
            gave_up = True
        self.write({"waited_ms": [first, *both], "gave_up": gave_up})


class HandleHealth(web.RequestHandler):
    """Say that the service is up."""

    def get(self) -> None:
        self.write("ok\n")


def application() -> web.Application:
    """Build the application with its three routes."""
    return web.Application([("/50", Handle50), ("/125", Handle125), ("/healthz", HandleHealth)])


async def serve() -> None:
    """Serve until the process is ended."""
    HTTPServer(application()).add_socket(listening_socket())
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve())
