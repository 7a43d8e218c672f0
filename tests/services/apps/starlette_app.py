"""Starlette, for any ASGI server."""

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from work import WAIT_SECONDS, burn


async def handle(request: Request) -> PlainTextResponse:
    await asyncio.sleep(WAIT_SECONDS)
    burn()
    return PlainTextResponse("ok\n")


app = Starlette(routes=[Route("/", handle)])
