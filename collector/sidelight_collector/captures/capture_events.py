"""GET /api/v1/captures/{id}/events: a capture's progress as server-sent events, until it has ended.

Each event is the capture as GET of its own path has it (https://html.spec.whatwg.org/#server-sent-events).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from aiohttp import web

from sidelight_collector.http.api.responses import encode_json
from sidelight_model.errors import Reason, SidelightError

POLL_SECONDS: Final = 1.0
KEEPALIVE_SECONDS: Final = 15.0
"""A line that says nothing is sent so often, so that no proxy takes the silence for an end."""
MAX_FOLLOWERS: Final = 500
FINAL_STATES: Final = ("ready", "failed", "stopped")
CaptureLoader = Callable[[str], Awaitable[Mapping[str, Any]]]


class CaptureEventStream:
    """Follows captures; `told` tells one as JSON, `closing` whether the collector is about to end."""

    def __init__(self, load_capture: CaptureLoader, is_closing: Callable[[], bool]) -> None:
        self._load_capture = load_capture
        self._is_closing = is_closing
        self._followers = 0

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """The events of one capture. Raises NoCapture before the first, and SidelightError for too many."""
        if self._followers >= MAX_FOLLOWERS:
            raise SidelightError(
                f"{self._followers} follow captures here already",
                reason=Reason.OVERLOADED,
                hint="Ask for the capture itself now and then.",
            )
        capture_id = request.match_info["id"]
        document = await self._load_capture(capture_id)
        headers = {
            "Content-Type": "text/event-stream",
            "Cache-Control": "no-store",
            "X-Accel-Buffering": "no",
        }
        response = web.StreamResponse(headers=headers)
        self._followers += 1
        try:
            await response.prepare(request)
            await self._send_event(response, document)
            idle_seconds = 0.0
            while document["state"] not in FINAL_STATES and not self._is_closing():
                await asyncio.sleep(POLL_SECONDS)
                previous, document = document, await self._load_capture(capture_id)
                idle_seconds = 0.0 if document != previous else idle_seconds + POLL_SECONDS
                if document != previous:
                    await self._send_event(response, document)
                elif idle_seconds >= KEEPALIVE_SECONDS:
                    await response.write(b":\n\n")
                    idle_seconds = 0.0
            await response.write_eof()
        except (ConnectionError, SidelightError):
            # Whoever follows is gone, or the capture or its store: a browser asks again by itself.
            return response
        finally:
            self._followers -= 1
        return response

    async def _send_event(self, response: web.StreamResponse, document: Mapping[str, Any]) -> None:
        await response.write(b"event: capture\ndata: " + encode_json(document) + b"\n\n")
