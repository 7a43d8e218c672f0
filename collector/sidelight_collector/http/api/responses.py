"""Encoding of responses: JSON, gzip and ETag.

Slow functions of this module run in the query's thread, not in the event loop.
"""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import orjson
from aiohttp import web

COMPRESS_FROM_BYTES: Final = 1024
GZIP_LEVEL: Final = 4
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class EncodedResponse:
    """An encoded body with its headers; `etag`, if set, identifies these exact bytes."""

    body: bytes
    content_type: str
    is_gzipped: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    etag: str | None = None

    def to_response(self, request: web.Request) -> web.Response:
        """Build the response to a request.

        Clients may cache it privately, and must revalidate it before each use. A client that already has
        these bytes gets status 304 without a body (RFC 9110, 13.1.2).
        """
        headers = {"Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}
        if self.etag is not None:
            headers["ETag"] = f'"{self.etag}"'
            if any(tag.value in ("*", self.etag) for tag in request.if_none_match or ()):
                return web.Response(status=304, headers=headers)
        headers.update(self.headers)
        headers["Content-Type"] = self.content_type
        if self.is_gzipped:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=self.body, headers=headers)


def encode_response(
    body: bytes, content_type: str, *, gzip: bool, headers: Mapping[str, str] | None = None
) -> EncodedResponse:
    """Encode a body; compressed if `gzip` is true and it is long enough to benefit."""
    if not gzip or len(body) < COMPRESS_FROM_BYTES:
        return EncodedResponse(body, content_type, headers=headers or {})
    compressor = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_FORMAT)
    return EncodedResponse(compressor.compress(body) + compressor.flush(), content_type, True, headers or {})


def encode_json_response(
    answer: Mapping[str, object] | Sequence[object], *, gzip: bool, headers: Mapping[str, str] | None = None
) -> EncodedResponse:
    """Encode an answer as JSON, compressed as `encode_response` does."""
    return encode_response(encode_json(answer), "application/json; charset=utf-8", gzip=gzip, headers=headers)


def encode_json(answer: Mapping[str, object] | Sequence[object]) -> bytes:
    """Encode an answer as JSON text."""
    try:
        return orjson.dumps(answer)
    except orjson.JSONEncodeError:
        # orjson refuses integers beyond 64 bits.
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def accepts_gzip(request: web.Request) -> bool:
    """Return whether the client accepts gzip (RFC 9110, 12.5.3); `gzip;q=0` does not."""
    for part in request.headers.get("Accept-Encoding", "").lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
