"""Sanic, with processes of its own."""

import asyncio

from sanic import Request, Sanic
from sanic.response import HTTPResponse, text
from work import WAIT_SECONDS, burn

app = Sanic("services")


@app.get("/")
async def handle(request: Request) -> HTTPResponse:
    await asyncio.sleep(WAIT_SECONDS)
    burn()
    return text("ok\n")
