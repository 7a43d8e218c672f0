"""aiohttp, on asyncio's loop or on uvloop: `aiohttp_app.py PORT [uvloop]`."""

import asyncio
import sys

from aiohttp import web
from work import WAIT_SECONDS, burn


async def handle(request: web.Request) -> web.Response:
    await asyncio.sleep(WAIT_SECONDS)
    burn()
    return web.Response(text="ok\n")


def new_loop() -> asyncio.AbstractEventLoop:
    if "uvloop" in sys.argv[2:]:
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


if __name__ == "__main__":
    app = web.Application()
    app.router.add_get("/", handle)
    loop = new_loop()
    asyncio.set_event_loop(loop)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None, loop=loop)
