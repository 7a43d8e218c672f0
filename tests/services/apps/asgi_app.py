"""ASGI without a framework."""

import asyncio

from work import WAIT_SECONDS, burn


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    await asyncio.sleep(WAIT_SECONDS)
    burn()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok\n"})
