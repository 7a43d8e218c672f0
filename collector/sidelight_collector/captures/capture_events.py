"""GET /api/v1/captures/{id}/events: a capture's progress as server-sent events, until it has ended.

Each event is the capture as GET of its own path has it (https://html.spec.whatwg.org/#server-sent-events).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from sidelight_collector.http.api.responses import encoded
from sidelight_model.errors import Reason, SidelightError

LOOK_SECONDS: Final = 1.0
ALIVE_SECONDS: Final = 15.0
"""A line that says nothing is sent so often, so that no proxy takes the silence for an end."""
MOST_FOLLOWERS: Final = 500
FINAL: Final = ("ready", "failed", "stopped")
Told = Callable[[str], Awaitable[Mapping[str, Any]]]


class Events:
    """Follows captures; `told` tells one as JSON, `closing` whether the collector is about to end."""

    def __init__(self, told: Told, closing: Callable[[], bool]) -> None:
        self._told = told
        self._closing = closing
        self._followers = 0

    async def follow(self, request: web.Request) -> web.StreamResponse:
        """The events of one capture. Raises NoCapture before the first, and SidelightError for too many."""
        if self._followers >= MOST_FOLLOWERS:
            raise SidelightError(
                f"{self._followers} follow captures here already",
                reason=Reason.OVERLOADED,
                hint="Ask for the capture itself now and then.",
            )
        capture_id = request.match_info["id"]
        told = await self._told(capture_id)
        headers = {
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
        response = web.StreamResponse(headers=headers)
        self._followers += 1
        try:
            await response.prepare(request)
            await self._send(response, told)
            quiet = 0.0
            while told["state"] not in FINAL and not self._closing():
                await asyncio.sleep(LOOK_SECONDS)
                before, told = told, await self._told(capture_id)
                quiet = 0.0 if told != before else quiet + LOOK_SECONDS
                if told != before:
                    await self._send(response, told)
                elif quiet >= ALIVE_SECONDS:
                    await response.write(b":\n\n")
                    quiet = 0.0
            await response.write_eof()
        except (ConnectionError, SidelightError):
            # Whoever follows is gone, or the capture or its store: a browser asks again by itself.
            return response
        finally:
            self._followers -= 1
        return response

    async def _send(self, response: web.StreamResponse, told: Mapping[str, Any]) -> None:
        await response.write(b"event: capture\ndata: " + encoded(told) + b"\n\n")
