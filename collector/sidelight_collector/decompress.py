"""Decode the Content-Encoding of a request, within a memory limit.

Decompression runs in steps of bounded output and stops at the limit, unless the body declares a size within
it. A decompression bomb therefore needs no more memory than any other body.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Final

import zstandard

from sidelight_model.errors import LimitExceeded, Reason, SidelightError

ENCODINGS: Final = ("zstd", "gzip", "identity")
_GZIP_FORMAT: Final = 16 + zlib.MAX_WBITS
_GZIP_INPUT_BYTES: Final = 1 << 14
_GZIP_STEP_BYTES: Final = 1 << 16
_ZSTD_STEP_BYTES: Final = 128
# A frame may request a window of any size; RFC 8878 recommends that decoders support 8 MB.
_ZSTD_WINDOW_BYTES: Final = 8 << 20


class BadEncoding(SidelightError):
    """The Content-Encoding of the body is unknown, or the body does not match it."""

    reason = Reason.BAD_ENCODING


def decompress_body(body: bytes, encoding: str, max_bytes: int) -> bytes:
    """Decode a body.

    Raises LimitExceeded as soon as the output exceeds `max_bytes`, and BadEncoding.
    """
    name = encoding.strip().lower() or "identity"
    if name == "identity":
        steps: Iterator[bytes] = iter((body,))
    elif name == "gzip":
        steps = _iter_gzip(body)
    elif name == "zstd":
        if (content := _decompress_frame(body, max_bytes)) is not None:
            return content
        steps = _iter_zstd(body)
    else:
        raise BadEncoding(
            f"the Content-Encoding {encoding[:40]!r} is not known here",
            hint=f"Use one of {', '.join(ENCODINGS)}, and only one.",
        )
    return _join_bounded(steps, max_bytes)


def read_decompressed_size(body: bytes, encoding: str, max_bytes: int) -> int:
    """Read the declared decoded size of a body, at most `max_bytes`.

    Returns the length of the body if that is larger or if no size is declared. The declaration may be
    false, and covers only one frame or member of several: `decompress_body` enforces the limit.
    """
    name = encoding.strip().lower()
    declared = -1
    if name == "zstd":
        try:
            declared = zstandard.frame_content_size(body)
        except zstandard.ZstdError:
            declared = -1  # `decompress_body` raises the error
    elif name == "gzip" and body.startswith(b"\x1f\x8b"):
        # The last four bytes of a member are its decoded length (RFC 1952, 2.3.1).
        declared = int.from_bytes(body[-4:], "little")
    return min(max(declared, len(body)), max_bytes)


_WINDOWS_HINT: Final = "Send fewer or shorter windows at once, or raise the collector's --max-body-bytes."


def build_too_large_error(max_bytes: int, hint: str = _WINDOWS_HINT) -> LimitExceeded:
    """Build the error for a body that exceeds the limit."""
    return LimitExceeded(f"the body is larger than {max_bytes} bytes", hint=hint)


def _join_bounded(steps: Iterator[bytes], max_bytes: int) -> bytes:
    parts: list[bytes] = []
    total = 0
    for part in filter(None, steps):
        total += len(part)
        if total > max_bytes:
            raise build_too_large_error(max_bytes)
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _iter_gzip(body: bytes) -> Iterator[bytes]:
    # zlib copies its unconsumed input after each step and at the end of each member. Small input pieces avoid
    # that a body of many members is copied once for each member.
    member = zlib.decompressobj(wbits=_GZIP_FORMAT)
    try:
        for start in range(0, len(body), _GZIP_INPUT_BYTES):
            rest = body[start : start + _GZIP_INPUT_BYTES]
            while rest:
                if member.eof:
                    member = zlib.decompressobj(wbits=_GZIP_FORMAT)
                yield member.decompress(rest, _GZIP_STEP_BYTES)
                rest = member.unused_data if member.eof else member.unconsumed_tail
    except zlib.error as error:
        raise _build_corrupt_error("gzip", str(error)) from error
    if not member.eof:
        raise _build_corrupt_error("gzip", "it ends too early")


def _decompress_frame(body: bytes, max_bytes: int) -> bytes | None:
    """Decompress one zstd frame with its size, in half the time of steps."""
    try:
        if not 0 < zstandard.frame_content_size(body) <= max_bytes:
            return None
        return zstandard.ZstdDecompressor().decompress(body, allow_extra_data=False)
    except zstandard.ZstdError:
        return None


def _iter_zstd(body: bytes) -> Iterator[bytes]:
    # The output of a call is not bounded, so the input is: a block has at least 3 bytes and decodes to at
    # most 128 KB (RFC 8878, 3.1.1.2), so one step decodes to at most 5.5 MB.
    decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_BYTES)
    frame = decompressor.decompressobj()
    try:
        for start in range(0, len(body), _ZSTD_STEP_BYTES):
            rest = body[start : start + _ZSTD_STEP_BYTES]
            while rest:
                if frame.eof:
                    frame = decompressor.decompressobj()
                yield frame.decompress(rest)
                rest = frame.unused_data
    except zstandard.ZstdError as error:
        raise _build_corrupt_error("zstd", str(error)) from error
    if not frame.eof:
        raise _build_corrupt_error("zstd", "it ends too early")


def _build_corrupt_error(encoding: str, problem: str) -> BadEncoding:
    return BadEncoding(f"the body is not {encoding}: {problem}", hint="Send it whole, and only encoded once.")
