"""Answers as bytes. Everything here that takes time runs in the query's thread, not in the event loop."""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import orjson
from aiohttp import web

COMPRESS_FROM_BYTES: Final = 1024
GZIP_LEVEL: Final = 4
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True)
class EncodedResponse:
    """A finished body and how it is sent; its etag, if it has one, is that of exactly these bytes."""

    body: bytes
    content_type: str
    is_gzipped: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    etag: str | None = None

    def to_response(self, request: web.Request) -> web.Response:
        """The response; readers may keep an answer only for themselves, and ask again before using it.

        To one who has these bytes already it is 304 and nothing else (RFC 9110, 13.1.2).
        """
        headers = {"Cache-Control": "private, no-cache", "Vary": "Accept-Encoding"}
        if self.etag is not None:
            headers["ETag"] = f'"{self.etag}"'
            if any(held.value in ("*", self.etag) for held in request.if_none_match or ()):
                return web.Response(status=304, headers=headers)
        headers.update(self.headers)
        headers["Content-Type"] = self.content_type
        if self.is_gzipped:
            headers["Content-Encoding"] = "gzip"
        return web.Response(body=self.body, headers=headers)


def encode_response(
    body: bytes, content_type: str, *, gzip: bool, headers: Mapping[str, str] | None = None
) -> EncodedResponse:
    """A body, compressed if the reader takes gzip and it is long enough to gain by it."""
    if not gzip or len(body) < COMPRESS_FROM_BYTES:
        return EncodedResponse(body, content_type, headers=headers or {})
    compressor = zlib.compressobj(GZIP_LEVEL, wbits=_GZIP_FORMAT)
    return EncodedResponse(compressor.compress(body) + compressor.flush(), content_type, True, headers or {})


def encode_json_response(
    answer: Mapping[str, object], *, gzip: bool, headers: Mapping[str, str] | None = None
) -> EncodedResponse:
    """An answer as JSON, compressed as `encode_response` does."""
    return encode_response(encode_json(answer), "application/json; charset=utf-8", gzip=gzip, headers=headers)


def encode_json(answer: Mapping[str, object]) -> bytes:
    """An answer as JSON text."""
    try:
        return orjson.dumps(answer)
    except orjson.JSONEncodeError:
        # Whole numbers beyond 64 bits, which orjson refuses.
        return json.dumps(answer, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def accepts_gzip(request: web.Request) -> bool:
    """Whether the reader accepts gzip (RFC 9110, 12.5.3; `gzip;q=0` does not)."""
    for part in request.headers.get("Accept-Encoding", "").lower().split(","):
        coding, _, weight = part.partition(";")
        if coding.strip() in ("gzip", "*"):
            return weight.replace(" ", "") not in ("q=0", "q=0.0", "q=0.00", "q=0.000")
    return False
