"""Unary requests and responses of the Connect protocol.

It is described in https://connectrpc.com/docs/protocol.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from sidelight_collector.http.api.responses import EncodedResponse, accepts_gzip, encode_json, encode_response
from sidelight_collector.http.pyroscope.message_codec import (
    Message,
    Schema,
    decode_message,
    encode,
    parse_json_message,
    to_json,
)
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.json_body import JsonLimits, parse_json_object
from sidelight_collector.query.query_errors import BadParameter
from sidelight_model.errors import Reason, SidelightError

PROTO: Final = "application/proto"
JSON: Final = "application/json"
LIMITS: Final = JsonLimits(1 << 20, 16 << 20, max_depth=16, hint="Select a shorter call site.")
_MAX_TIMEOUT_DIGITS: Final = 10


class UnsupportedContent(SidelightError):
    """The body is neither Protocol Buffers nor JSON."""

    reason = Reason.UNSUPPORTED_TYPE


class ClientTimeout(SidelightError):
    """The client's own time limit is over."""

    reason = Reason.REQUEST_TIMEOUT


@dataclass(frozen=True, slots=True)
class Call:
    """A request: its message, and the form of the response that the client wants."""

    message: Mapping[str, Any]
    content_type: str
    gzip: bool

    def encode(self, schema: Schema, message: Message | bytes, headers: Mapping[str, str]) -> EncodedResponse:
        """Encode a response in the form of the request. Runs in the query's thread."""
        is_json = self.content_type == JSON
        body = encode_json(to_json(schema, message)) if is_json else encode(schema, message)
        return encode_response(body, self.content_type, gzip=self.gzip, headers=headers)


async def read_call(request: web.Request, schema: Schema, body_reader: BodyReader) -> Call:
    """Receive a request, decompress and decode it.

    Raises UnsupportedContent, UndecodableMessage, BadParameter, and what `BodyReader.read` raises.
    """
    content_type = request.content_type.lower()
    if content_type not in (PROTO, JSON):
        raise UnsupportedContent(
            f"the Content-Type {content_type[:80]!r} is no unary request of Connect",
            hint=f"Send {PROTO} or {JSON}.",
        )
    version = request.headers.get("Connect-Protocol-Version", "1")
    if version != "1":
        raise BadParameter.invalid_value("Connect-Protocol-Version", version, "1")

    def parse(content: bytes) -> Mapping[str, Any]:
        if content_type == PROTO:
            return decode_message(schema, memoryview(content))
        return parse_json_message(schema, parse_json_object(content or b"{}", LIMITS))

    message = await body_reader.read(request, LIMITS, parse)
    return Call(message, content_type, accepts_gzip(request))


@asynccontextmanager
async def limit_time(request: web.Request) -> AsyncIterator[None]:
    """End what runs inside after the time that the client waits.

    Raises ClientTimeout and BadParameter.
    """
    text = request.headers.get("Connect-Timeout-Ms", "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= _MAX_TIMEOUT_DIGITS):
        raise BadParameter.invalid_value("Connect-Timeout-Ms", text, "a number of milliseconds")
    try:
        async with asyncio.timeout(int(text) / 1000 if text else None) as timeout:
            yield
    except TimeoutError:
        if not timeout.expired():
            raise
        raise ClientTimeout(
            f"the client waits {text} ms, and the answer takes longer",
            hint="Ask for a shorter range, or give the client more time.",
        ) from None


def build_response(encoded: EncodedResponse) -> web.Response:
    """Build the response to a POST, which no client caches."""
    headers = {**encoded.headers, "Content-Type": encoded.content_type, "Cache-Control": "no-store"}
    if encoded.is_gzipped:
        headers["Content-Encoding"] = "gzip"
    return web.Response(body=encoded.body, headers=headers)
