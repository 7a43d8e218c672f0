"""Errors as clients of OTLP read them, in Protocol Buffers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sidelight_model.export_formats.protobuf_writer import encode_message, encode_number, encode_text

OTLP_PATH: Final = "/v1development/profiles"
"""The path of OpenTelemetry profiles."""
PROTOBUF_TYPE: Final = "application/x-protobuf"
_INVALID_ARGUMENT: Final = 3
_STATUS_CODES: Final[Mapping[int, int]] = {401: 16, 403: 7, 404: 5, 408: 4, 429: 8, 500: 13, 503: 14}
_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"


def get_status_code(http_status: int) -> int:
    """Return the code of gRPC for a status of HTTP."""
    return _STATUS_CODES.get(http_status, _INVALID_ARGUMENT)


def encode_status(http_status: int, message: str, retry_seconds: int = 0) -> bytes:
    """Encode a `google.rpc.Status`.

    Its fields are `int32 code = 1; string message = 2; repeated Any details = 3`. With `retry_seconds`, a
    detail is `RetryInfo {Duration retry_delay = 1}`: clients of OTLP then try again.
    """
    status = encode_number(1, get_status_code(http_status)) + encode_text(2, message)
    if not retry_seconds:
        return status
    info = encode_message(1, encode_number(1, retry_seconds))
    return status + encode_message(3, encode_text(1, _RETRY_INFO) + encode_message(2, info))
