"""HTTP handlers of recordings: heat map, flame graph of a span, event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import orjson
from aiohttp import web

from sidelight_collector.captures.capture_repository import CaptureRepository
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
from sidelight_collector.http.api.parameters import QueryParameters
from sidelight_collector.http.api.responses import EncodedResponse, accepts_gzip, encode_json_response
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.query_limits import QueryLimits

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


class RecordingRoutes:
    """The handlers of recordings.

    `read_lock` limits how many requests read recordings at a time. The text of a recording has at most
    `max_text_bytes`.
    """

    def __init__(
        self,
        repository: CaptureRepository,
        max_text_bytes: int,
        limits: QueryLimits,
        read_lock: asyncio.Semaphore,
    ) -> None:
        self._repository = repository
        self._max_text_bytes = max_text_bytes
        self._limits = limits
        self._read_lock = read_lock

    def build_routes(self, capture_path: str) -> list[web.RouteDef]:
        """Return the routes below the path of a capture."""
        return [
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

        async with self._read_lock:
            answer = await asyncio.to_thread(work)
        return answer.to_response(request)

    def _load_recording(self, capture_id: str, name: str) -> recording_files.CaptureRecording:
        return recording_files.decompress_recording(
            self._repository.get_recording(capture_id, name), self._max_text_bytes
        )
