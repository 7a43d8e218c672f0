"""Starlette: a function, one in the thread pool, a class with methods, and a mount with a middleware."""

import asyncio

from starlette.applications import Starlette
from starlette.endpoints import HTTPEndpoint
from starlette.middleware import Middleware
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route
from work import WAIT_SECONDS, burn


class AuditMiddleware:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        burn()
        await self.app(scope, receive, send)


async def show_home(request):
    await asyncio.sleep(WAIT_SECONDS)
    burn()
    return PlainTextResponse("ok\n")


def show_cart(request):
    burn()
    return PlainTextResponse("ok\n")


class Orders(HTTPEndpoint):
    async def get(self, request):
        burn()
        return PlainTextResponse("ok\n")


app = Starlette(
    routes=[
        Route("/", show_home),
        Mount("/shop", middleware=[Middleware(AuditMiddleware)], routes=[
            Route("/cart", show_cart), Route("/orders", Orders), Route("/home", show_home),
        ]),
    ]
)  # fmt: skip
