"""Handle the requests of Pyroscope's clients."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from sidelight_collector.auth.authorizer import PUSH_PATH, PYROSCOPE_PATHS
from sidelight_collector.ingest.handler import IngestHandler, UnsupportedType
from sidelight_collector.ingest.pyroscope.profile_types import NotStored
from sidelight_collector.ingest.pyroscope.push_parsing import parse_push
from sidelight_collector.ingest.pyroscope.series_labels import (
    OTHER_LABELS,
    PER_REQUEST_LABELS,
    PyroscopeClient,
)
from sidelight_collector.ingest.pyroscope.upload_parsing import parse_upload
from sidelight_collector.ingest.validation import ParsedRequest
from sidelight_collector.metrics import Metrics

TENANT_HEADER: Final = "X-Scope-OrgID"
NOT_STORED_HEADER: Final = "Sidelight-Not-Stored"
_PUSH_TYPES: Final = {"application/proto": False, "application/json": True}


@dataclass(frozen=True, slots=True)
class PyroscopeHandler:
    """Receives profiles with the limits, the threads and the durability of windows.

    `tenant_label` is the label for the tenant of a request, if it is not empty.
    """

    ingest: IngestHandler
    metrics: Metrics
    tenant_label: str = ""

    def __post_init__(self) -> None:
        for name in (*PER_REQUEST_LABELS, OTHER_LABELS):
            self.metrics.labels_dropped.labels(name)
        for kind in NotStored:
            self.metrics.profiles_not_stored.labels(kind)

    def routes(self) -> list[web.RouteDef]:
        return [web.post(path, self.push if path == PUSH_PATH else self.upload) for path in PYROSCOPE_PATHS]

    async def push(self, request: web.Request) -> web.Response:
        """Respond with an empty message once every profile is durable."""
        content_type = request.content_type.lower()
        if content_type not in _PUSH_TYPES:
            raise UnsupportedType(
                f"the Content-Type {content_type[:80]!r} is no unary request of Connect",
                hint="Send application/proto or application/json.",
            )
        is_json = _PUSH_TYPES[content_type]
        parse = partial(parse_push, client=self._describe_client(request), is_json=is_json)
        parsed, _ = await self.ingest.store(request, parse)
        response = web.Response(body=b"{}" if is_json else b"", content_type=content_type)
        return self._report(parsed, response)

    async def upload(self, request: web.Request) -> web.Response:
        """Respond 200 with an empty body once the profile is durable, or refuse it."""
        parse = partial(
            parse_upload,
            client=self._describe_client(request),
            content_type=request.headers.get("Content-Type", ""),
        )
        parsed, _ = await self.ingest.store(request, parse)
        return self._report(parsed, web.Response())

    def _describe_client(self, request: web.Request) -> PyroscopeClient:
        tenant = request.headers.get(TENANT_HEADER, "") if self.tenant_label else ""
        return PyroscopeClient(
            request.headers.get("User-Agent", "").partition(" ")[0],
            ((self.tenant_label, tenant),) if tenant else (),
            request.remote or "",
        )

    def _report(self, parsed: ParsedRequest, response: web.Response) -> web.Response:
        """Count the data that was not stored, and name it in the response."""
        for name, profiles in parsed.dropped_labels.items():
            self.metrics.labels_dropped.labels(name).inc(profiles)
        for kind, profiles in parsed.not_stored.items():
            self.metrics.profiles_not_stored.labels(kind).inc(profiles)
        if parsed.not_stored:
            response.headers[NOT_STORED_HEADER] = ", ".join(sorted(parsed.not_stored))
        return response
