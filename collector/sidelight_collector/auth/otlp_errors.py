"""Errors as clients of OTLP read them, in Protocol Buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sidelight_model.export_formats.protobuf_writer import encode_message, encode_number

OTLP_PATH: Final = "/v1development/profiles"
"""The path of OpenTelemetry profiles."""
PROTOBUF_TYPE: Final = "application/x-protobuf"
_INVALID_ARGUMENT: Final = 3
_STATUS_CODES: Final[Mapping[int, int]] = {401: 16, 403: 7, 404: 5, 408: 4, 429: 8, 500: 13, 503: 14}


def encode_status(http_status: int, message: str) -> bytes:
    """Encode `google.rpc.Status {int32 code = 1; string message = 2}`."""
    code = _STATUS_CODES.get(http_status, _INVALID_ARGUMENT)
    return encode_number(1, code) + encode_message(2, message.encode(errors="replace"))
