"""Server-sent events with the progress of a capture, until it has ended.

`GET /api/v1/captures/{id}/events`; each event is the capture as `GET /api/v1/captures/{id}` returns it
(https://html.spec.whatwg.org/#server-sent-events).
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
"""An empty comment is sent this often, so that no proxy closes an idle connection."""
MAX_FOLLOWERS: Final = 500
FINAL_STATES: Final = ("ready", "failed", "stopped")
CaptureLoader = Callable[[str], Awaitable[Mapping[str, Any]]]


class CaptureEventStream:
    """Streams the progress of captures to their followers.

    `load_capture` returns a capture as JSON; `is_closing` says whether the collector is shutting down.
    """

    def __init__(self, load_capture: CaptureLoader, is_closing: Callable[[], bool]) -> None:
        self._load_capture = load_capture
        self._is_closing = is_closing
        self._followers = 0

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Stream the events of one capture.

        Raises, before the first event, CaptureNotFound, and SidelightError if there are too many followers.
        """
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
            # The client, the capture or the store is gone: a browser reconnects by itself.
            return response
        finally:
            self._followers -= 1
        return response

    async def _send_event(self, response: web.StreamResponse, document: Mapping[str, Any]) -> None:
        await response.write(b"event: capture\ndata: " + encode_json(document) + b"\n\n")
