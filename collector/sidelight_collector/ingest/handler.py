"""Handle `POST /api/v1/windows`: receive, parse, store, respond."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from aiohttp import web

from sidelight.connection_guard import BodyTimeout
from sidelight_collector.auth.authorizer import get_writer
from sidelight_collector.auth.write_identity import WriterIdentity
from sidelight_collector.decompress import build_too_large_error, read_decompressed_size
from sidelight_collector.ingest.memory_budget import MemoryBudget, Reservation
from sidelight_collector.ingest.segment_writer import Receipt, SegmentWriter
from sidelight_collector.ingest.validation import (
    BadUploadParameter,
    IngestLimits,
    ParsedRequest,
    ReceivedRequest,
    parse_request,
)
from sidelight_collector.metrics import Metrics
from sidelight_collector.stack_hashing import HashedWindow
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.labels import Labels

PATH: Final = "/api/v1/windows"
FORWARDED_HEADER: Final = "Sidelight-Forwarded"
"""Marks requests of a collector that forwards; their windows are not forwarded again."""
ParseRequest = Callable[[ReceivedRequest, IngestLimits], ParsedRequest]
ReceiveBody = Callable[[Reservation], Awaitable[bytes]]

_BLOCK_BYTES: Final = 1 << 18
"""A body is received in blocks of this size, which a thread joins.

A single growing buffer would copy megabytes, which blocks the event loop for milliseconds.
"""

# Types that are certainly not folded text. `curl --data-binary` sends text as a form, which is accepted.
_REJECTED_TYPES: Final = ("application/json", "multipart/", "image/", "application/x-protobuf", "text/html")


class UnsupportedType(SidelightError):
    """The type of the body cannot be windows or folded text."""

    reason = Reason.UNSUPPORTED_TYPE


class ReceiveTimeout(SidelightError):
    """A client took too long to send its body."""

    reason = Reason.REQUEST_TIMEOUT


@dataclass(frozen=True, slots=True)
class IngestHooks:
    """What else happens to windows.

    `check_captures` raises SidelightError if a writer may not send windows with these labels, of captures.
    `on_stored` gets the windows that are new, once they are durable.
    """

    check_captures: Callable[[WriterIdentity, Iterable[Labels]], None] = lambda *_: None
    on_stored: Callable[[Sequence[HashedWindow]], None] | None = None


_NO_HOOKS: Final = IngestHooks()


@dataclass(frozen=True, slots=True)
class Upload:
    """What a request says beside its body.

    `client` identifies the connection. `is_forwarded` marks windows that another collector forwards.
    `is_connected` returns whether the client still waits.
    """

    client: int
    writer: WriterIdentity | None
    encoding: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    is_forwarded: bool = False
    is_connected: Callable[[], bool] = lambda: True


class IngestHandler:
    """Receives windows within a memory budget; `close` ends its threads."""

    def __init__(
        self,
        segment_writer: SegmentWriter,
        limits: IngestLimits,
        budget: MemoryBudget,
        metrics: Metrics,
        *,
        decode_threads: int,
        max_receive_seconds: float,
        clock_ns: Callable[[], int] = time.time_ns,
        hooks: IngestHooks = _NO_HOOKS,
    ) -> None:
        self._segment_writer = segment_writer
        self._limits = limits
        self._budget = budget
        self._metrics = metrics
        self._decode_executor = ThreadPoolExecutor(decode_threads, thread_name_prefix="decode")
        # Twice the number of threads, so that no thread waits for the event loop to submit the next body.
        self._decode_slots = asyncio.Semaphore(2 * decode_threads)
        self._max_receive_seconds = max_receive_seconds
        self._clock_ns = clock_ns
        self._hooks = hooks

    def routes(self) -> list[web.RouteDef]:
        return [web.post(PATH, self.post)]

    async def post(self, request: web.Request) -> web.Response:
        """Respond 200 with the ids once every window is durable, or refuse them all."""
        check_content_type(request.headers.get("Content-Type", ""))
        parsed, receipt = await self.store(request, parse_request)
        answer: dict[str, object] = {"accepted": receipt.accepted, "duplicates": receipt.duplicates}
        if (unreadable := parsed.unreadable_lines).count:
            self._metrics.unreadable_lines.inc(unreadable.count)
            lines = [error.message for error in unreadable.errors]
            answer["unreadable_lines"] = {"count": unreadable.count, "first": lines}
        return web.json_response(answer)

    async def store(self, request: web.Request, parse: ParseRequest) -> tuple[ParsedRequest, Receipt]:
        """Receive a request, parse it in a thread, and make its windows durable."""
        upload = Upload(
            id(request.protocol),
            get_writer(request),
            request.headers.get("Content-Encoding", ""),
            _parse_query(request),
            FORWARDED_HEADER in request.headers,
            lambda: request.transport is not None and not request.transport.is_closing(),
        )
        return await self.store_upload(upload, partial(self._receive, request), parse)

    async def store_upload(
        self, upload: Upload, receive: ReceiveBody, parse: ParseRequest
    ) -> tuple[ParsedRequest, Receipt]:
        """Receive a body, parse it in a thread, and make its windows durable."""
        with self._budget.reserve() as reservation:
            body = await receive(reservation)
            self._metrics.received_bytes.inc(len(body))
            # Reserve memory for the text before decompression.
            await reservation.grow(read_decompressed_size(body, upload.encoding, self._limits.max_body_bytes))
            received = ReceivedRequest(body, upload.encoding, upload.query, self._clock_ns(), upload.writer)
            parsed = await self._parse(upload, received, parse)
            if received.writer and (labels := _find_captures(parsed)):
                await asyncio.to_thread(self._hooks.check_captures, received.writer, labels)
            del received
            del body
            reservation.resize(parsed.memory_bytes)
            self._metrics.decompressed_bytes.inc(parsed.text_bytes)
            self._metrics.samples_truncated.inc(parsed.truncated_samples)
            if not parsed.windows:
                return parsed, Receipt([], [])
            receipt = await self._segment_writer.submit(parsed.windows, parsed.memory_bytes, upload.client)
            if self._hooks.on_stored is not None and not upload.is_forwarded:
                accepted = set(receipt.accepted)
                self._hooks.on_stored([row for row in parsed.windows if row.window.id in accepted])
            return parsed, receipt

    async def _parse(self, upload: Upload, received: ReceivedRequest, parse: ParseRequest) -> ParsedRequest:
        """Parse a request in a thread, unless its client has disconnected meanwhile."""
        async with self._decode_slots:
            if not upload.is_connected():
                raise asyncio.CancelledError  # aiohttp ends the request of a disconnected client the same way
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._decode_executor, parse, received, self._limits)

    def close(self) -> None:
        """End the threads that parse bodies."""
        self._decode_executor.shutdown(cancel_futures=True)

    async def _receive(self, request: web.Request, reservation: Reservation) -> bytes:
        limit = self._limits.max_body_bytes
        if (request.content_length or 0) > limit:
            raise build_too_large_error(limit)
        blocks, received = [bytearray()], 0
        try:
            async with asyncio.timeout(self._max_receive_seconds):
                async for chunk in request.content.iter_any():
                    received += len(chunk)
                    if received > limit:
                        raise build_too_large_error(limit)
                    reservation.resize(received)
                    if len(blocks[-1]) >= _BLOCK_BYTES:
                        blocks.append(bytearray())
                    blocks[-1] += chunk
        except BodyTimeout:
            raise
        except TimeoutError as error:
            raise ReceiveTimeout(
                f"the body did not arrive within {self._max_receive_seconds:g} s",
                hint="Send less at once, or raise the collector's --max-receive-seconds.",
            ) from error
        if len(blocks) == 1:
            return bytes(blocks[0])
        return await asyncio.get_running_loop().run_in_executor(None, b"".join, blocks)


def _find_captures(parsed: ParsedRequest) -> set[Labels]:
    """Return the labels of windows of captures."""
    return {row.window.labels for row in parsed.windows if "capture" in row.window.labels}


def check_content_type(content_type: str) -> None:
    """Raise UnsupportedType for a type other than text; a missing type is accepted."""
    if content_type.strip().lower().startswith(_REJECTED_TYPES):
        raise UnsupportedType(
            f"the Content-Type {content_type[:80]!r} is not windows or folded text",
            hint="Send text/plain: windows as in docs/formats.md, or folded lines with ?service=NAME.",
        )


def _parse_query(request: web.Request) -> dict[str, str]:
    query = dict(request.query)
    if len(query) < len(request.query):
        raise BadUploadParameter(
            "a query parameter is given twice", hint="Give each parameter and label once."
        )
    return query
