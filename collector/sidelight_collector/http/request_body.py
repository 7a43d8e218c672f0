"""Receives bodies of requests within limits of time, size, structure and memory."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Final, TypeVar

from aiohttp import web

from sidelight.connection_guard import BodyTimeout
from sidelight_collector.decompress import build_too_large_error, decompress_body
from sidelight_collector.ingest.memory_budget import MemoryBudget, Reservation
from sidelight_collector.json_body import JsonLimits, parse_json_object
from sidelight_model.errors import LimitExceeded, Reason, SidelightError

Parsed = TypeVar("Parsed")

MAX_LOOP_BYTES: Final = 4 << 10
"""A body above this size is parsed in a thread, so that the event loop serves other clients."""
PARSING_BODIES: Final = 2
"""Bodies that are parsed at the same time."""


class BodyReader:
    """Receives bodies within a memory budget. Belongs to one event loop."""

    def __init__(self, budget: MemoryBudget, receive_timeout_seconds: float) -> None:
        self._budget = budget
        self._receive_timeout_seconds = receive_timeout_seconds
        self._parsing = asyncio.Semaphore(PARSING_BODIES)

    def reserve(self) -> AbstractContextManager[Reservation]:
        """Reserve memory for one body. Raises Overloaded."""
        return self._budget.reserve()

    async def read_json_object(self, request: web.Request, limits: JsonLimits) -> Mapping[str, Any]:
        """Receive, decompress and parse a JSON object.

        Raises SidelightError (`bad_json`), and what `read` raises.
        """
        return await self.read(request, limits, partial(parse_json_object, limits=limits))

    async def read(
        self, request: web.Request, limits: JsonLimits, parse: Callable[[bytes], Parsed]
    ) -> Parsed:
        """Receive, decompress and parse a body, a large one in a thread.

        Raises Overloaded, LimitExceeded, BadEncoding, SidelightError (`request_timeout`), and what `parse`
        raises.
        """
        with self.reserve() as reservation:
            body = await self.receive(
                request, reservation, limits.max_bytes, build_too_large_error(limits.max_bytes, limits.hint)
            )
            encoding = request.headers.get("Content-Encoding", "")
            if not encoding and len(body) <= MAX_LOOP_BYTES:
                return parse(body)
            async with self._parsing:
                return await asyncio.to_thread(_decompress_and_parse, body, encoding, limits, parse)

    async def receive(
        self, request: web.Request, reservation: Reservation, max_bytes: int, too_large: LimitExceeded
    ) -> bytes:
        """Receive a body as it was sent, and reserve its size while it arrives.

        Raises `too_large` above `max_bytes`, Overloaded, and SidelightError (`request_timeout`).
        """
        if (request.content_length or 0) > max_bytes:
            raise too_large
        body = bytearray()
        try:
            async with asyncio.timeout(self._receive_timeout_seconds):
                async for chunk in request.content.iter_any():
                    if len(body) + len(chunk) > max_bytes:
                        raise too_large
                    reservation.resize(len(body) + len(chunk))
                    body += chunk
        except BodyTimeout:
            raise
        except TimeoutError as error:
            raise SidelightError(
                f"the body did not arrive within {self._receive_timeout_seconds:g} s",
                reason=Reason.REQUEST_TIMEOUT,
                hint="Send less at once, or raise the collector's --max-receive-seconds.",
            ) from error
        return bytes(body)


def _decompress_and_parse(
    body: bytes, encoding: str, limits: JsonLimits, parse: Callable[[bytes], Parsed]
) -> Parsed:
    try:
        content = decompress_body(body, encoding, limits.max_bytes)
    except LimitExceeded:
        raise build_too_large_error(limits.max_bytes, limits.hint) from None
    return parse(content)
