"""HTTP handlers of recordings.

They upload and list recordings, and answer speedscope, heatmaps, flame graphs of a span and event loops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
from aiohttp import web

from sidelight_collector.auth.authorizer import get_writer
from sidelight_collector.auth.write_identity import LabelMismatch, WriterIdentity
from sidelight_collector.captures.capture import Claim
from sidelight_collector.captures.capture_repository import CaptureRepository
from sidelight_collector.captures.capture_requests import NAME_PATTERN, BadBody
from sidelight_collector.captures.recordings import recording_files
from sidelight_collector.captures.recordings.loop_blocking import DEFAULT_MAX_SPANS, measure_loop_blocking
from sidelight_collector.captures.recordings.subsecond_heatmap import (
    MAX_US,
    CaptureRecordings,
    RecordingFlameOptions,
    StoredRecording,
    build_recording_flame,
    build_subsecond_heatmap,
    parse_offset_us,
    parse_step,
)
from sidelight_collector.decompress import decompress_body
from sidelight_collector.http.api.parameters import QueryParameters, read_single_values
from sidelight_collector.http.api.responses import (
    EncodedResponse,
    accepts_gzip,
    encode_json_response,
    encode_response,
)
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_model.errors import LimitExceeded, Reason

HEATMAP_PARAMETERS: Final = ("type", "step_ms", "recording")
LOOP_PARAMETERS: Final = ("recording", "limit")
FLAMEGRAPH_PARAMETERS: Final = (
    "type",
    "from_us",
    "until_us",
    "exclude_span",
    "recording",
    "nodes",
    "lines",
    "states",
)


@dataclass(frozen=True, slots=True)
class CaptureSizeLimits:
    """Limits of recordings and of polls.

    Those of recordings are of compressed bytes, text, values in memory, drawn frames, and their number for
    each sidecar of a capture.
    """

    max_recording_bytes: int
    max_recording_text_bytes: int
    max_recording_memory_bytes: int
    max_poll_bytes: int
    max_speedscope_frames: int
    max_recordings_per_sidecar: int


class RecordingRoutes:
    """The handlers of recordings.

    One request at a time decodes recordings, so that their memory does not add up.
    """

    def __init__(
        self,
        repository: CaptureRepository,
        size_limits: CaptureSizeLimits,
        limits: QueryLimits,
        body_reader: BodyReader,
        metrics: Metrics,
        path_prefix: str = "",
    ) -> None:
        self._repository = repository
        self._size_limits = size_limits
        self._limits = limits
        self._body_reader = body_reader
        self._metrics = metrics
        self._path_prefix = path_prefix
        self._recording_lock = asyncio.Semaphore(1)

    def build_routes(self, capture_path: str) -> list[web.RouteDef]:
        """Return the routes below the path of a capture."""
        return [
            web.get(f"{capture_path}/recordings", self.list_recordings),
            web.get(f"{capture_path}/{{name}}.speedscope.json", self.get_speedscope),
            web.get(f"{capture_path}/subsecond-heatmap", self.get_subsecond_heatmap),
            web.get(f"{capture_path}/flamegraph", self.get_flamegraph),
            web.get(f"{capture_path}/loops", self.get_loop_blocking),
        ]

    async def get_subsecond_heatmap(self, request: web.Request) -> web.Response:
        parameters = self._parse_parameters(request, HEATMAP_PARAMETERS)
        kind, step = parameters.parse_profile_type(), parse_step(request.query.get("step_ms", ""))
        return await self._respond(
            request, lambda recordings: build_subsecond_heatmap(recordings, kind, step)
        )

    async def get_loop_blocking(self, request: web.Request) -> web.Response:
        limit = self._parse_parameters(request, LOOP_PARAMETERS).parse_limit(DEFAULT_MAX_SPANS)
        return await self._respond(request, lambda recordings: measure_loop_blocking(recordings, limit))

    async def get_flamegraph(self, request: web.Request) -> web.Response:
        parameters = self._parse_parameters(request, FLAMEGRAPH_PARAMETERS)
        begin = parse_offset_us("from_us", request.query.get("from_us", ""), 0)
        end = parse_offset_us("until_us", request.query.get("until_us", ""), MAX_US)
        if begin >= end:
            raise BadParameter(
                "from_us is not before until_us: the span is empty", hint="A span is from_us <= t < until_us."
            )
        drawing = RecordingFlameOptions(
            self._limits.max_nodes,
            parameters.parse_max_nodes(),
            by_line=parameters.parse_switch("lines", default=False),
            by_state=parameters.parse_switch("states", default=False),
            includes_outside=parameters.parse_switch("exclude_span", default=False),
        )
        build = partial(
            build_recording_flame,
            kind=parameters.parse_profile_type(),
            from_us=begin,
            until_us=end,
            drawing=drawing,
        )
        return await self._respond(request, build)

    async def list_recordings(self, request: web.Request) -> web.Response:
        read_single_values(request.query, ())
        capture = await asyncio.to_thread(self._repository.get, request.match_info["id"])
        recordings = await asyncio.to_thread(self._repository.list_recordings, capture.id)
        items = []
        for name, content in recordings:
            path = f"{self._path_prefix}/api/v1/captures/{capture.id}/{name}.speedscope.json"
            items.append({**orjson.loads(content), "links": {"speedscope": path}})
        return encode_json_response({"recordings": items}, gzip=accepts_gzip(request)).to_response(request)

    async def put_recording(self, request: web.Request) -> web.Response:
        capture_id, name = request.match_info["id"], request.match_info["name"]
        agent, dash, pid = name.rpartition("-")
        if not (
            dash and pid.isascii() and pid.isdigit() and len(pid) <= 10 and NAME_PATTERN.fullmatch(agent)
        ):
            raise BadBody(
                f"{name[:80]!r} is not AGENT-PID", hint="docs/formats.md says how a recording is named."
            )
        writer = get_writer(request)
        qualified = agent if writer is None else writer.qualify_agent_name(agent)
        await asyncio.to_thread(self._check_upload, capture_id, qualified, pid)
        too_large = self._make_too_large_error(Reason.TOO_LARGE)
        with self._body_reader.reserve() as reservation:
            body = await self._body_reader.receive(
                request, reservation, self._size_limits.max_recording_bytes, too_large
            )
            encoding = request.headers.get("Content-Encoding", "")
            async with self._recording_lock:
                name, stored_bytes = await asyncio.to_thread(
                    self._store_recording, capture_id, name, qualified, body, encoding, writer
                )
        self._metrics.timeline_recording_bytes.inc(stored_bytes)
        return web.json_response({"name": name, "bytes": stored_bytes}, status=201)

    async def get_speedscope(self, request: web.Request) -> web.Response:
        read_single_values(request.query, ())
        render = partial(
            self._render_speedscope,
            request.match_info["id"],
            request.match_info["name"],
            gzip=accepts_gzip(request),
        )
        async with self._recording_lock:
            response: Callable[[web.Request], web.Response] = (await asyncio.to_thread(render)).to_response
        return response(request)

    def _parse_parameters(self, request: web.Request, allowed: tuple[str, ...]) -> QueryParameters:
        return QueryParameters(request.query, allowed, self._limits, 0)

    async def _respond(
        self, request: web.Request, build_answer: Callable[[CaptureRecordings], Mapping[str, object]]
    ) -> web.Response:
        capture_id, name = request.match_info["id"], request.query.get("recording", "")
        gzip = accepts_gzip(request)

        def work() -> EncodedResponse:
            capture = self._repository.get(capture_id)
            stored = [
                StoredRecording(
                    stored_name, orjson.loads(summary), partial(self._load_recording, capture.id, stored_name)
                )
                for stored_name, summary in self._repository.list_recordings(capture.id)
            ]
            return encode_json_response(
                build_answer(CaptureRecordings.select(capture.id, stored, name)), gzip=gzip
            )

        async with self._recording_lock:
            answer = await asyncio.to_thread(work)
        return answer.to_response(request)

    def _load_recording(self, capture_id: str, name: str) -> recording_files.CaptureRecording:
        return self._decompress_recording(self._repository.get_recording(capture_id, name))

    def _check_upload(self, capture_id: str, agent: str, pid: str) -> Claim:
        """Check that a sidecar may add or replace a recording; return its part.

        Raises CaptureNotFound, BadBody if it has no part in the capture, and LimitExceeded if it has sent
        too many.
        """
        claims = self._repository.get(capture_id).claims
        claim = next((claim for claim in claims if claim.agent == agent), None)
        if claim is None:
            raise BadBody(
                f"{agent} has no part in {capture_id}", hint="Only a sidecar that took it may add to it."
            )
        stored = self._repository.list_recording_names(capture_id, agent)
        limit = self._size_limits.max_recordings_per_sidecar
        if len(stored) >= limit and f"{agent}-{pid}" not in stored:
            raise LimitExceeded(
                f"{agent} has sent {len(stored)} recordings of this capture, and may send {limit}",
                reason=Reason.TOO_MANY_RECORDINGS,
                hint="Capture for less long, or raise the collector's --timeline-recording-max-per-sidecar.",
            )
        return claim

    def _store_recording(
        self,
        capture_id: str,
        name: str,
        agent: str,
        body: bytes,
        encoding: str,
        writer: WriterIdentity | None,
    ) -> tuple[str, int]:
        """Store a recording; return its name and its size in bytes."""
        # The capture may have been deleted while the body arrived, and other recordings stored.
        claim = self._check_upload(capture_id, agent, name.rpartition("-")[2])
        try:
            text = decompress_body(body, encoding, self._size_limits.max_recording_text_bytes)
        except LimitExceeded as error:
            raise self._make_too_large_error(error.reason) from None
        recording = recording_files.parse_recording(text, self._size_limits.max_recording_memory_bytes)
        if recording.capture_id != capture_id or f"{recording.agent}-{recording.pid}" != name:
            raise BadBody(
                "the recording is of another capture or process than its path says",
                hint="docs/formats.md says how a recording is named.",
            )
        labels = recording.labels if writer is None else writer.bind_labels(recording.labels)
        if not claim.is_of_pod(labels):
            raise LabelMismatch(
                f"the recording is of pod {labels.get('pod', '')[:80]!r}, for which {agent} has no part in "
                f"{capture_id}",
                reason=Reason.WRONG_POD,
                hint="A node agent has a part of its own for each pod: record under that part's name.",
            )
        stored_name = f"{agent}-{recording.pid}"
        content = recording_files.compress_recording(body, encoding, text)
        summary = recording_files.encode_summary(recording, stored_name, len(content), labels)
        self._repository.put_recording(capture_id, stored_name, content, summary)
        return stored_name, len(content)

    def _render_speedscope(self, capture_id: str, name: str, *, gzip: bool) -> Any:
        content = self._repository.get_recording(self._repository.get(capture_id).id, name)
        recording = self._decompress_recording(content)
        title = f"{recording.labels.get('pod') or recording.labels['service']} · process {recording.pid}"
        rendered = recording_files.render_speedscope(
            recording, title, self._size_limits.max_speedscope_frames
        )
        return encode_response(rendered, "application/json; charset=utf-8", gzip=gzip)

    def _decompress_recording(self, content: bytes) -> recording_files.CaptureRecording:
        limits = self._size_limits
        return recording_files.decompress_recording(
            content, limits.max_recording_text_bytes, limits.max_recording_memory_bytes
        )

    def _make_too_large_error(self, reason: Reason) -> LimitExceeded:
        return LimitExceeded(
            "the recording is larger than it may be",
            reason=reason,
            hint="Capture for less long or at a lower rate, or raise the collector's "
            "--timeline-recording-max-bytes and --timeline-recording-max-decompressed-bytes.",
        )
