"""aiohttp: a function, a method, a View, behind a middleware."""

import asyncio
import sys

from aiohttp import web
from work import WAIT_SECONDS, burn


@web.middleware
async def audit_middleware(request, handler):
    burn()
    return await handler(request)


async def show_home(request):
    await asyncio.sleep(WAIT_SECONDS)
    burn()
    return web.Response(text="ok\n")


class Carts:
    async def show_cart(self, request):
        await reserve_stock()
        return web.Response(text="ok\n")


async def reserve_stock():
    await asyncio.sleep(WAIT_SECONDS)
    burn()


class Orders(web.View):
    async def get(self):
        burn()
        return web.Response(text="ok\n")


if __name__ == "__main__":
    app = web.Application(middlewares=[audit_middleware])
    app.router.add_get("/", show_home)
    app.router.add_get("/cart", Carts().show_cart)
    app.router.add_view("/orders", Orders)
    web.run_app(app, host="127.0.0.1", port=int(sys.argv[1]), access_log=None, print=None)
