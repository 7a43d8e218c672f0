"""The paths of what recordings of a capture tell: the heat map of offsets, spans of it, event loops."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

import orjson
from aiohttp import web

from sidelight_collector.captures.capture_repository import Shelf
from sidelight_collector.captures.recordings import recording_files
from sidelight_collector.captures.recordings.loop_blocking import STRETCHES, holds
from sidelight_collector.captures.recordings.subsecond_heatmap import (
    LATEST_US,
    Drawing,
    Kept,
    Recordings,
    offsets,
    picked,
    read_moment,
    read_step,
)
from sidelight_collector.http.api.parameters import Parameters
from sidelight_collector.http.api.responses import Reply, json_reply, takes_gzip
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.query_limits import QueryLimits

OFFSETS: Final = ("type", "step_ms", "recording")
LOOPS: Final = ("recording", "limit")
FLAMEGRAPH: Final = ("type", "from_us", "until_us", "exclude_span", "recording", "nodes", "lines", "states")


class Picking:
    """The handlers; `one` lets one recording be read at a time, whose text has at most `text_bytes`."""

    def __init__(self, shelf: Shelf, text_bytes: int, limits: QueryLimits, one: asyncio.Semaphore) -> None:
        self._shelf = shelf
        self._text_bytes = text_bytes
        self._limits = limits
        self._one = one

    def routes(self, capture: str) -> list[web.RouteDef]:
        """Below the path of a capture."""
        return [
            web.get(f"{capture}/subsecond-heatmap", self.offsets),
            web.get(f"{capture}/flamegraph", self.flamegraph),
            web.get(f"{capture}/loops", self.loops),
        ]

    async def offsets(self, request: web.Request) -> web.Response:
        given = self._given(request, OFFSETS)
        kind, step = given.kind(), read_step(request.query.get("step_ms", ""))
        return await self._answer(request, lambda found: offsets(found, kind, step))

    async def loops(self, request: web.Request) -> web.Response:
        limit = self._given(request, LOOPS).limit(STRETCHES)
        return await self._answer(request, lambda found: holds(found, limit))

    async def flamegraph(self, request: web.Request) -> web.Response:
        given = self._given(request, FLAMEGRAPH)
        begin = read_moment("from_us", request.query.get("from_us", ""), 0)
        end = read_moment("until_us", request.query.get("until_us", ""), LATEST_US)
        if begin >= end:
            raise BadParameter(
                "from_us is not before until_us: the span is empty", hint="A span is from_us <= t < until_us."
            )
        drawing = Drawing(
            self._limits.max_nodes,
            given.nodes(),
            lines=given.switch("lines", default=False),
            states=given.switch("states", default=False),
            rest=given.switch("exclude_span", default=False),
        )
        drawn = partial(picked, kind=given.kind(), from_us=begin, until_us=end, drawing=drawing)
        return await self._answer(request, drawn)

    def _given(self, request: web.Request, known: tuple[str, ...]) -> Parameters:
        return Parameters(request.query, known, self._limits, 0)

    async def _answer(
        self, request: web.Request, answered: Callable[[Recordings], Mapping[str, object]]
    ) -> web.Response:
        capture_id, name = request.match_info["id"], request.query.get("recording", "")
        gzip = takes_gzip(request)

        def work() -> Reply:
            capture = self._shelf.capture(capture_id)
            kept = [
                Kept(one, orjson.loads(short), partial(self._read, capture.id, one))
                for one, short in self._shelf.recordings(capture.id)
            ]
            return json_reply(answered(Recordings.of(capture.id, kept, name)), gzip=gzip)

        async with self._one:
            found = await asyncio.to_thread(work)
        return found.response(request)

    def _read(self, capture_id: str, name: str) -> recording_files.Recording:
        return recording_files.unpacked(self._shelf.recording(capture_id, name), self._text_bytes)
