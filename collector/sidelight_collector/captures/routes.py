"""HTTP handlers of captures, for users and for sidecars."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, Final

from aiohttp import web

from sidelight_collector.auth.authorizer import get_principal, get_writer
from sidelight_collector.auth.node_identity import NodeWriterIdentity
from sidelight_collector.auth.read_rules import Principal
from sidelight_collector.auth.write_identity import OneShotWriterIdentity, WriterIdentity
from sidelight_collector.captures.agents import agent_to_json, summarize_services
from sidelight_collector.captures.attach.attacher import Attacher, AttachPolicy
from sidelight_collector.captures.capture import (
    Capture,
    CapturePolicy,
    CaptureProgress,
    CaptureRequest,
    PartsByAgent,
)
from sidelight_collector.captures.capture_events import CaptureEventStream
from sidelight_collector.captures.capture_repository import CaptureNotFound, CaptureRepository
from sidelight_collector.captures.capture_requests import (
    MAX_CAPTURE_REQUEST_BYTES,
    MEMORY_PER_BYTE,
    parse_capture_id,
    parse_capture_request,
    parse_poll,
)
from sidelight_collector.captures.coordinator import CaptureCoordinator
from sidelight_collector.captures.recordings.recording_routes import CaptureSizeLimits, RecordingRoutes
from sidelight_collector.captures.visibility import can_read_capture, restrict_request
from sidelight_collector.http.api.parameters import parse_count, read_single_values
from sidelight_collector.http.api.responses import (
    EncodedResponse,
    accepts_gzip,
    encode_json_response,
)
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.json_body import JsonLimits
from sidelight_collector.kubernetes_discovery.shared_state import ClusterSnapshot
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.objects import ObjectExists
from sidelight_collector.times import format_rfc3339
from sidelight_model.capture_protocol import AgentPoll
from sidelight_model.errors import Reason, SidelightError

API_PREFIX: Final = "/api/v1"
DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
AGENTS_REFRESH_SECONDS: Final = 3.0
"""Minimum time between two reads of the sidecars of other processes."""
_CLOCK_MARGIN_SECONDS: Final = 60
"""Margin around the time range of a capture, for pods whose clocks differ."""
_CAPTURE_REQUEST_LIMITS: Final = JsonLimits(
    MAX_CAPTURE_REQUEST_BYTES,
    MEMORY_PER_BYTE * MAX_CAPTURE_REQUEST_BYTES,
    hint="Name fewer pods, or select them by labels.",
)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class CaptureRoutes:
    """The handlers of captures."""

    def __init__(
        self,
        coordinator: CaptureCoordinator,
        repository: CaptureRepository,
        policy: CapturePolicy,
        size_limits: CaptureSizeLimits,
        body_reader: BodyReader,
        metrics: Metrics,
        path_prefix: str = "",
        limits: QueryLimits | None = None,
    ) -> None:
        self.coordinator = coordinator
        disabled = AttachPolicy("", (), "", 0.0)
        self.attacher = Attacher(None, coordinator, lambda: ClusterSnapshot("off", 0.0), disabled, metrics)
        self._repository = repository
        self._policy = policy
        self._body_reader = body_reader
        self._poll_limits = JsonLimits(
            size_limits.max_poll_bytes,
            MEMORY_PER_BYTE * size_limits.max_poll_bytes,
            hint="Raise the collector's --capture-max-poll-bytes.",
        )
        self._metrics = metrics
        self._path_prefix = path_prefix
        self._recording_routes = RecordingRoutes(
            repository, size_limits, limits or QueryLimits(), body_reader, metrics, path_prefix
        )
        self._agents_refreshed_at = 0.0
        self._events = CaptureEventStream(self._load_as_json, lambda: coordinator.is_closed)

    def build_routes(self) -> list[web.RouteDef]:
        capture_path = f"{API_PREFIX}/captures/{{id}}"
        return [
            web.post(f"{API_PREFIX}/agents/poll", self.handle_poll),
            web.get(f"{API_PREFIX}/agents", self.list_agents),
            web.post(f"{API_PREFIX}/captures", self.start_capture),
            web.get(f"{API_PREFIX}/captures", self.list_captures),
            web.put(f"{capture_path}/recordings/{{name}}", self._recording_routes.put_recording),
            *map(
                self._restrict_to_reader,
                [
                    web.get(capture_path, self.get_capture),
                    web.delete(capture_path, self.delete_capture),
                    web.post(f"{capture_path}/stop", self.stop_capture),
                    web.get(f"{capture_path}/events", self._events.stream),
                    *self._recording_routes.build_routes(capture_path),
                ],
            ),
        ]

    def _restrict_to_reader(self, route: web.RouteDef) -> web.RouteDef:
        """Answer 404 for a capture that the reader may not see."""

        async def check_visibility(request: web.Request) -> web.StreamResponse:
            reader, name = get_principal(request), request.match_info["id"]
            if reader.namespaces is not None:
                capture = await asyncio.to_thread(self._repository.get, name)
                if not can_read_capture(reader, capture):
                    raise CaptureNotFound(name)
            return await handler(request)

        handler: Handler = route.handler
        return web.RouteDef(route.method, route.path, check_visibility, route.kwargs)

    async def handle_poll(self, request: web.Request) -> web.Response:
        writer, transport = get_writer(request), request.transport
        dedicated = writer.capture if isinstance(writer, OneShotWriterIdentity) else ""
        # No local variable has the body or the poll: it may wait for long, and both can be large.
        response = await self.coordinator.handle_poll(
            await self._receive_poll(request, writer),
            lambda: transport is None or transport.is_closing(),
            dedicated,
        )
        if writer is not None and not isinstance(writer, NodeWriterIdentity) and writer.node:
            agent = await asyncio.to_thread(self.attacher.find_node_agent, writer.node)
            response = replace(response, node_agent=agent)
        return web.json_response(response.to_json())

    async def _receive_poll(self, request: web.Request, writer: WriterIdentity | None) -> AgentPoll:
        body = await self._body_reader.read_json_object(request, self._poll_limits)
        if isinstance(writer, NodeWriterIdentity):
            # Its labels may take a request to the API server, which blocks.
            return await asyncio.to_thread(parse_poll, body, writer)
        return parse_poll(body, writer)

    async def list_agents(self, request: web.Request) -> web.Response:
        parameters = read_single_values(request.query, ("service", "limit"))
        service = parameters.get("service", "")
        limit = min(parse_count("limit", parameters.get("limit", ""), DEFAULT_LIMIT), MAX_LIMIT)
        await self._refresh_agents()
        reader, gzip = get_principal(request), accepts_gzip(request)
        visible = [agent for agent in self.coordinator.list_agents() if reader.can_read(agent.status.labels)]

        def build_response() -> EncodedResponse:
            selected = [agent for agent in visible if service in ("", agent.status.labels["service"])]
            agents = [
                {**agent_to_json(agent), "last_seen": _format_time(agent.last_seen)}
                for agent in selected[:limit]
            ]
            document = {"agents": agents, "total": len(selected), "services": summarize_services(visible)}
            return encode_json_response(document, gzip=gzip)

        return (await asyncio.to_thread(build_response)).to_response(request)

    async def start_capture(self, request: web.Request) -> web.Response:
        if request.content_type != "application/json":
            raise SidelightError(
                "a capture request is JSON",
                reason=Reason.UNSUPPORTED_TYPE,
                hint="Send `Content-Type: application/json`; `curl --json` does.",
            )
        reader = get_principal(request)
        raw = await self._body_reader.read_json_object(request, _CAPTURE_REQUEST_LIMITS)
        capture_request = restrict_request(
            reader, await asyncio.to_thread(parse_capture_request, raw, self._policy)
        )
        capture, status = await self._start_or_get_existing(capture_request, reader, parse_capture_id(raw))
        document = self.to_json(capture, self.coordinator.explain_progress(capture, {}), {})
        response = encode_json_response(document, gzip=False).to_response(request)
        response.set_status(status)
        response.headers["Location"] = f"{self._path_prefix}{API_PREFIX}/captures/{capture.id}"
        return response

    async def _start_or_get_existing(
        self, capture_request: CaptureRequest, reader: Principal, capture_id: str
    ) -> tuple[Capture, int]:
        """Return a new capture, or the earlier one with this id, and the status."""
        if capture_id and (existing := await self._find_existing(capture_request, reader, capture_id)):
            return existing, 200
        targets = await self.attacher.select_targets(capture_request)
        try:
            capture = await self.coordinator.start(
                capture_request, reader.name, capture_id, {target.namespace for target in targets}
            )
        except ObjectExists:  # the same request came twice in one moment
            if existing := await self._find_existing(capture_request, reader, capture_id):
                return existing, 200
            raise
        return await self.attacher.start_attaching(capture, targets), 201

    async def _find_existing(
        self, capture_request: CaptureRequest, reader: Principal, capture_id: str
    ) -> Capture | None:
        try:
            existing = await asyncio.to_thread(self._repository.get, capture_id)
        except CaptureNotFound:
            return None
        if existing.request != capture_request or not can_read_capture(reader, existing):
            raise SidelightError(
                f"there is another capture with the id {capture_id}",
                reason=Reason.DUPLICATE_ID,
                hint="An id is for one request, sent again: leave it out, or make a new ULID.",
            )
        return existing

    async def list_captures(self, request: web.Request) -> web.Response:
        parameters = read_single_values(request.query, ("service", "limit"))
        service = parameters.get("service", "")
        limit = min(parse_count("limit", parameters.get("limit", ""), DEFAULT_LIMIT), MAX_LIMIT)
        reader = get_principal(request)

        def is_wanted(capture: Capture) -> bool:
            return can_read_capture(reader, capture) and (not service or capture.request.service == service)

        captures = await asyncio.to_thread(self._repository.list_newest, limit, is_wanted)
        documents = []
        for capture in captures:
            # A capture that has ended holds its own summary; others need the reports of their sidecars.
            parts: PartsByAgent = {}
            if capture.outcome is None:
                try:
                    capture, _, parts = await self.coordinator.get_progress(capture.id)
                    if not can_read_capture(reader, capture):
                        continue
                except SidelightError as error:
                    if error.reason is Reason.NOT_FOUND:
                        continue
                    raise
            document = self.to_json(capture, self.coordinator.explain_progress(capture, parts), parts)
            documents.append({name: value for name, value in document.items() if name != "parts"})
        return encode_json_response({"captures": documents}, gzip=accepts_gzip(request)).to_response(request)

    async def get_capture(self, request: web.Request) -> web.Response:
        read_single_values(request.query, ())
        if not await self._is_claimed_or_ended(request):
            await self._refresh_agents()
        return await self._respond_with_capture(request, request.match_info["id"])

    async def stop_capture(self, request: web.Request) -> web.Response:
        await self.coordinator.stop(request.match_info["id"])
        return await self._respond_with_capture(request, request.match_info["id"])

    async def delete_capture(self, request: web.Request) -> web.Response:
        await self.coordinator.delete(request.match_info["id"])
        return web.Response(status=204)

    def to_json(self, capture: Capture, progress: CaptureProgress, parts: PartsByAgent) -> dict[str, Any]:
        """Encode a capture as JSON."""
        capture_request, path = capture.request, f"{self._path_prefix}{API_PREFIX}/captures/{capture.id}"
        reports = [part.report for part in parts.values()]
        end = capture.outcome.at if capture.outcome else max(time.time(), capture.created_at)
        return {
            "id": capture.id,
            "service": capture_request.service,
            "query": capture_request.query,
            "pods_requested": list(capture_request.pods)
            if isinstance(capture_request.pods, tuple)
            else capture_request.pods,
            "seconds": capture_request.seconds,
            "rate": capture_request.rate,
            "mode": capture_request.mode,
            "timeline": capture_request.timeline,
            "attach": capture_request.attach,
            "requested_by": capture.requested_by,
            "created": _format_time(capture.created_at),
            "waits_until": _format_time(capture.created_at + self._policy.claim_timeout_seconds),
            "expires": _format_time(capture.created_at + self._policy.retention_days * 86_400),
            "ended": _format_time(capture.outcome.at) if capture.outcome else None,
            "state": progress.state,
            "stopping": capture.stop_at is not None and not progress.is_final,
            "problem": progress.problem,
            "hint": progress.hint,
            "pods": len(capture.claims),
            "elapsed_seconds": capture.outcome.elapsed_seconds
            if capture.outcome
            else max((report.elapsed_seconds for report in reports), default=0.0),
            "samples": capture.outcome.samples if capture.outcome else sum(part.samples for part in reports),
            "from": int(capture.created_at) - _CLOCK_MARGIN_SECONDS,
            "until": int(end) + _CLOCK_MARGIN_SECONDS,
            "parts": _parts_to_json(capture, progress, parts),
            "links": {
                "self": path,
                "page": f"{self._path_prefix}/captures/{capture.id}",
                "stop": f"{path}/stop",
                "events": f"{path}/events",
                "recordings": f"{path}/recordings",
            },
        }

    async def _respond_with_capture(self, request: web.Request, capture_id: str) -> web.Response:
        document = await self._load_as_json(capture_id)
        return encode_json_response(document, gzip=accepts_gzip(request)).to_response(request)

    async def _load_as_json(self, capture_id: str) -> dict[str, Any]:
        return self.to_json(*await self.coordinator.get_progress(capture_id))

    async def _is_claimed_or_ended(self, request: web.Request) -> bool:
        capture = await asyncio.to_thread(self._repository.get, request.match_info["id"])
        return bool(capture.claims or capture.outcome)

    async def _refresh_agents(self) -> None:
        now = time.monotonic()
        if now >= self._agents_refreshed_at + AGENTS_REFRESH_SECONDS:
            self._agents_refreshed_at = now
            await self.coordinator.load_remote_agents()


def build_disabled_routes() -> list[web.RouteDef]:
    """Return the same routes, for a collector with captures switched off."""

    async def refuse(_: web.Request) -> web.Response:
        raise SidelightError(
            "captures are switched off here",
            reason=Reason.NOT_FOUND,
            hint="Start the collector without --no-captures.",
        )

    paths = (
        f"{API_PREFIX}/captures",
        f"{API_PREFIX}/captures/{{rest:.*}}",
        f"{API_PREFIX}/agents",
        f"{API_PREFIX}/agents/poll",
    )
    return [web.route("*", path, refuse) for path in paths]


def _parts_to_json(capture: Capture, progress: CaptureProgress, parts: PartsByAgent) -> list[dict[str, Any]]:
    """Encode the part of each sidecar; reports of an old capture may be missing."""
    documents = []
    for claim, state in zip(capture.claims, progress.part_outcomes, strict=True):
        document: dict[str, Any] = {
            "agent": claim.agent,
            "labels": dict(claim.labels),
            "state": state.state,
            "problem": state.problem,
            "hint": state.hint,
            "ephemeral_container": claim.ephemeral_sidecar.container if claim.ephemeral_sidecar else "",
        }
        if part := parts.get(claim.agent):
            report = part.report
            document |= {
                "last_seen": _format_time(part.last_seen),
                "elapsed_seconds": report.elapsed_seconds,
                "seconds": report.seconds,
                "samples": report.samples,
                "windows": report.windows,
                "recordings": report.recordings,
                "errors": dict(report.errors),
                "processes": [process.to_json() for process in report.processes],
                "top_functions": [function.to_json() for function in report.top_functions],
            }
        documents.append(document)
    return documents


def _format_time(unix: float) -> str:
    return format_rfc3339(round(unix * 1000) * 1_000_000)
