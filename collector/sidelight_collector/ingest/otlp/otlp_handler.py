"""Handle OpenTelemetry profiles: OTLP over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from sidelight_collector.auth.otlp_errors import OTLP_PATH, PROTOBUF_TYPE
from sidelight_collector.ingest.handler import IngestHandler, ReceiveBody, UnsupportedType, Upload
from sidelight_collector.ingest.otlp.otlp_dictionary import OtherLayout
from sidelight_collector.ingest.otlp.otlp_parsing import parse_otlp
from sidelight_collector.ingest.pyroscope.profile_types import NotStored
from sidelight_collector.ingest.pyroscope.series_labels import OTHER_LABELS, PER_REQUEST_LABELS
from sidelight_collector.ingest.validation import ParsedRequest
from sidelight_collector.metrics import Metrics
from sidelight_model.export_formats.protobuf_writer import encode_message, encode_number

VERSION_HEADER: Final = "OTLP-Profiles-Development-Version"
VERSION: Final = "1"
"""The version that a request without the header has (opentelemetry-proto, pull request 857)."""
_JSON_TYPE: Final = "application/json"


@dataclass(frozen=True, slots=True)
class OtlpHandler:
    """Receives OpenTelemetry profiles, with the limits and the durability of windows."""

    ingest: IngestHandler
    metrics: Metrics

    def __post_init__(self) -> None:
        for name in (*PER_REQUEST_LABELS, OTHER_LABELS):
            self.metrics.otlp_labels_dropped.labels(name)
        for kind in NotStored:
            self.metrics.otlp_profiles_not_stored.labels(kind)

    def routes(self) -> list[web.RouteDef]:
        return [web.post(OTLP_PATH, self.export)]

    async def export(self, request: web.Request) -> web.Response:
        """Respond with an ExportProfilesServiceResponse once every profile is durable."""
        check_version(request.headers.getall(VERSION_HEADER, []))
        content_type = request.content_type.lower()
        if content_type not in (PROTOBUF_TYPE, _JSON_TYPE):
            raise UnsupportedType(
                f"the Content-Type {content_type[:80]!r} is not one of OTLP",
                hint="Send application/x-protobuf or application/json.",
            )
        is_json = content_type == _JSON_TYPE
        parsed, _ = await self.ingest.store(request, partial(parse_otlp, is_json=is_json))
        self._count(parsed)
        if is_json:
            rejected, message = _describe_rejected(parsed)
            partial_success = {"rejectedProfiles": str(rejected), "errorMessage": message}
            return web.json_response({"partialSuccess": partial_success} if rejected else {})
        return web.Response(body=_encode_response(parsed), content_type=PROTOBUF_TYPE)

    async def export_message(self, upload: Upload, receive: ReceiveBody) -> bytes:
        """Return an encoded ExportProfilesServiceResponse once every profile is durable."""
        parsed, _ = await self.ingest.store_upload(upload, receive, partial(parse_otlp, is_json=False))
        self._count(parsed)
        return _encode_response(parsed)

    def _count(self, parsed: ParsedRequest) -> None:
        """Count the data that was not stored."""
        self.metrics.otlp_timestamps_ignored.inc(parsed.ignored_timestamps)
        for name, profiles in parsed.dropped_labels.items():
            self.metrics.otlp_labels_dropped.labels(name).inc(profiles)
        for kind, profiles in parsed.not_stored.items():
            self.metrics.otlp_profiles_not_stored.labels(kind).inc(profiles)


def _describe_rejected(parsed: ParsedRequest) -> tuple[int, str]:
    message = f"profiles without time are not stored: {', '.join(sorted(parsed.not_stored))}"
    return sum(parsed.not_stored.values()), message


def _encode_response(parsed: ParsedRequest) -> bytes:
    rejected, message = _describe_rejected(parsed)
    success = encode_number(1, rejected) + encode_message(2, message.encode())
    return encode_message(1, success) if rejected else b""


def check_version(headers: Sequence[str]) -> None:
    """Raise OtherLayout unless the header is absent or names VERSION."""
    if headers and list(headers) != [VERSION]:
        sent = ", ".join(headers)[:80]
        raise OtherLayout(f"{VERSION_HEADER} is {sent!r}, and only version {VERSION} is read here")
