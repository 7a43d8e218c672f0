"""The paths of captures: people start, watch and end them; sidecars ask for them and bring recordings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import orjson
from aiohttp import web

from sidelight_collector.auth.authorizer import reader_of, writer_of
from sidelight_collector.auth.read_rules import Reader
from sidelight_collector.auth.write_identity import AttachedWriter, Writer
from sidelight_collector.captures.agents import of_services
from sidelight_collector.captures.agents import told as agent_told
from sidelight_collector.captures.attacher import Attacher, AttachRules
from sidelight_collector.captures.capture import Capture, Parts, Rules, Seen, Wish
from sidelight_collector.captures.capture_events import Events
from sidelight_collector.captures.capture_repository import NoCapture, Shelf
from sidelight_collector.captures.capture_requests import (
    NAME,
    POLL_BYTES,
    WISH_BYTES,
    BadBody,
    read_id,
    read_json,
    read_poll,
    read_wish,
)
from sidelight_collector.captures.coordinator import Desk
from sidelight_collector.captures.recordings import recording_files
from sidelight_collector.captures.recordings.recording_routes import Picking
from sidelight_collector.captures.visibility import sees, within
from sidelight_collector.decompress import too_large, unpack
from sidelight_collector.http.api.parameters import count, once
from sidelight_collector.http.api.responses import Reply, json_reply, reply, takes_gzip
from sidelight_collector.kubernetes_discovery.shared_state import Sight
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.objects import ObjectExists
from sidelight_collector.times import rfc3339
from sidelight_model.errors import LimitExceeded, Reason, SidelightError

PREFIX: Final = "/api/v1"
DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 500
AGENTS_SECONDS: Final = 3.0
"""What other processes know of sidecars is read at most so often."""
_SIDES_SECONDS: Final = 60
"""Windows of a capture began no longer before and after it, whatever the clocks of pods are."""
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Forbidden(SidelightError):
    """A page of another site asks, or nobody may."""

    reason = Reason.FORBIDDEN


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bounds of bodies and answers: a recording compressed and as text, frames drawn of one, and seconds."""

    recording_bytes: int
    recording_text_bytes: int
    speedscope_frames: int
    receive_seconds: float


class Captures:
    """The handlers of captures."""

    def __init__(
        self,
        desk: Desk,
        shelf: Shelf,
        rules: Rules,
        sizes: Sizes,
        metrics: Metrics,
        prefix: str = "",
        limits: QueryLimits | None = None,
    ) -> None:
        self.desk = desk
        off = AttachRules("", (), "", 0.0)
        self.attacher = Attacher(None, desk, lambda: Sight("off", 0.0), off, metrics)
        self._shelf = shelf
        self._rules = rules
        self._sizes = sizes
        self._metrics = metrics
        self._prefix = prefix
        self._one_recording = asyncio.Semaphore(1)
        self._picking = Picking(
            shelf, sizes.recording_text_bytes, limits or QueryLimits(), self._one_recording
        )
        self._learnt = 0.0
        self._events = Events(self._whole, lambda: desk.closed)

    def routes(self) -> list[web.RouteDef]:
        """All paths."""
        one = f"{PREFIX}/captures/{{id}}"
        return [
            web.post(f"{PREFIX}/agents/poll", self.poll),
            web.get(f"{PREFIX}/agents", self.agents),
            web.post(f"{PREFIX}/captures", self.start),
            web.get(f"{PREFIX}/captures", self.list),
            web.put(f"{one}/recordings/{{name}}", self.put_recording),
            *map(
                self._for_reader,
                [
                    web.get(one, self.get),
                    web.delete(one, self.delete),
                    web.post(f"{one}/stop", self.stop),
                    web.get(f"{one}/events", self._events.follow),
                    web.get(f"{one}/recordings", self.recordings),
                    web.get(f"{one}/{{name}}.speedscope.json", self.speedscope),
                    *self._picking.routes(one),
                ],
            ),
        ]

    def _for_reader(self, route: web.RouteDef) -> web.RouteDef:
        """A path of one capture, which to others than its readers is not there."""

        async def seen_only(request: web.Request) -> web.StreamResponse:
            reader, name = reader_of(request), request.match_info["id"]
            if reader.namespaces is not None:
                capture = await asyncio.to_thread(self._shelf.capture, name)
                if not sees(reader, capture):
                    raise NoCapture(name)
            return await handler(request)

        handler: Handler = route.handler
        return web.RouteDef(route.method, route.path, seen_only, route.kwargs)

    async def poll(self, request: web.Request) -> web.Response:
        body = await self._received(request, POLL_BYTES)
        writer, transport = writer_of(request), request.transport
        poll = read_poll(read_json(body), writer)
        dedicated = writer.capture if isinstance(writer, AttachedWriter) else ""
        response = await self.desk.poll(poll, lambda: transport is None or transport.is_closing(), dedicated)
        return web.json_response(response.to_json())

    async def agents(self, request: web.Request) -> web.Response:
        given = once(request.query, ("service", "limit"))
        service = given.get("service", "")
        limit = min(count("limit", given.get("limit", ""), DEFAULT_LIMIT), MAX_LIMIT)
        await self._learn()
        reader, gzip = reader_of(request), takes_gzip(request)
        known = [one for one in self.desk.all_agents() if reader.sees(one.status.labels)]

        def answer() -> Reply:
            wanted = [one for one in known if not service or one.status.labels["service"] == service]
            agents = [{**agent_told(one), "last_seen": _time(one.last_seen)} for one in wanted[:limit]]
            told = {"agents": agents, "total": len(wanted), "services": of_services(known)}
            return json_reply(told, gzip=gzip)

        return (await asyncio.to_thread(answer)).response(request)

    async def start(self, request: web.Request) -> web.Response:
        _from_here(request)
        if request.content_type != "application/json":
            raise SidelightError(
                "a capture is asked for in JSON",
                reason=Reason.UNSUPPORTED_TYPE,
                hint="Send `Content-Type: application/json`; `curl --json` does.",
            )
        body = await self._received(request, WISH_BYTES)
        reader = reader_of(request)
        raw = read_json(body)
        wish = within(reader, await asyncio.to_thread(read_wish, raw, self._rules))
        capture, status = await self._begun(wish, reader, read_id(raw))
        told = self.told(capture, self.desk.judged(capture, {}), {})
        response = json_reply(told, gzip=False).response(request)
        response.set_status(status)
        response.headers["Location"] = f"{self._prefix}{PREFIX}/captures/{capture.id}"
        return response

    async def _begun(self, wish: Wish, reader: Reader, given: str) -> tuple[Capture, int]:
        """A new capture, or the one with this id that was asked for before, and the status of the answer."""
        if given and (known := await self._asked_before(wish, reader, given)):
            return known, 200
        places = await self.attacher.plan(wish)
        try:
            capture = await self.desk.begin(wish, reader.name, given)
        except ObjectExists:  # the same request came twice in one moment
            if known := await self._asked_before(wish, reader, given):
                return known, 200
            raise
        return await self.attacher.begin(capture, places), 201

    async def _asked_before(self, wish: Wish, reader: Reader, given: str) -> Capture | None:
        try:
            known = await asyncio.to_thread(self._shelf.capture, given)
        except NoCapture:
            return None
        if known.wish != wish or not sees(reader, known):
            raise SidelightError(
                f"there is another capture with the id {given}",
                reason=Reason.DUPLICATE_ID,
                hint="An id is for one request, sent again: leave it out, or make a new ULID.",
            )
        return known

    async def list(self, request: web.Request) -> web.Response:
        given = once(request.query, ("service", "limit"))
        service = given.get("service", "")
        limit = min(count("limit", given.get("limit", ""), DEFAULT_LIMIT), MAX_LIMIT)
        reader = reader_of(request)

        def wanted(one: Capture) -> bool:
            return sees(reader, one) and (not service or one.wish.service == service)

        found = await asyncio.to_thread(self._shelf.newest, limit, wanted)
        told = []
        for capture in found:
            # What ended needs no more than it says itself; of others the sidecars' reports are read.
            parts: Parts = {}
            if capture.ended is None:
                try:
                    capture, _, parts = await self.desk.look_up(capture.id)
                    if not sees(reader, capture):
                        continue
                except SidelightError as error:
                    if error.reason is Reason.NOT_FOUND:
                        continue
                    raise
            whole = self.told(capture, self.desk.judged(capture, parts), parts)
            told.append({name: value for name, value in whole.items() if name != "parts"})
        return json_reply({"captures": told}, gzip=takes_gzip(request)).response(request)

    async def get(self, request: web.Request) -> web.Response:
        once(request.query, ())
        if not await self._known(request):
            await self._learn()
        return await self._one(request, request.match_info["id"])

    async def stop(self, request: web.Request) -> web.Response:
        _from_here(request)
        await self.desk.stop(request.match_info["id"])
        return await self._one(request, request.match_info["id"])

    async def delete(self, request: web.Request) -> web.Response:
        _from_here(request)
        await self.desk.delete(request.match_info["id"])
        return web.Response(status=204)

    async def recordings(self, request: web.Request) -> web.Response:
        once(request.query, ())
        capture = await asyncio.to_thread(self._shelf.capture, request.match_info["id"])
        found = await asyncio.to_thread(self._shelf.recordings, capture.id)
        told = []
        for name, content in found:
            path = f"{self._prefix}{PREFIX}/captures/{capture.id}/{name}.speedscope.json"
            told.append({**orjson.loads(content), "links": {"speedscope": path}})
        return json_reply({"recordings": told}, gzip=takes_gzip(request)).response(request)

    async def put_recording(self, request: web.Request) -> web.Response:
        capture_id, name = request.match_info["id"], request.match_info["name"]
        agent, dash, pid = name.rpartition("-")
        if not (dash and pid.isascii() and pid.isdigit() and len(pid) <= 10 and NAME.fullmatch(agent)):
            raise BadBody(
                f"{name[:80]!r} is not AGENT-PID", hint="docs/api.md says how a recording is named."
            )
        body = await self._received(request, self._sizes.recording_bytes, unpacked=False)
        encoding = request.headers.get("Content-Encoding", "")
        async with self._one_recording:
            writer = writer_of(request)
            name, kept = await asyncio.to_thread(self._keep, capture_id, name, body, encoding, writer)
        self._metrics.timeline_recording_bytes.inc(kept)
        return web.json_response({"name": name, "bytes": kept}, status=201)

    async def speedscope(self, request: web.Request) -> web.Response:
        once(request.query, ())
        drawn = partial(
            self._drawn, request.match_info["id"], request.match_info["name"], gzip=takes_gzip(request)
        )
        async with self._one_recording:
            response: Callable[[web.Request], web.Response] = (await asyncio.to_thread(drawn)).response
        return response(request)

    def told(self, capture: Capture, seen: Seen, parts: Parts) -> dict[str, Any]:
        """A capture as JSON."""
        wish, path = capture.wish, f"{self._prefix}{PREFIX}/captures/{capture.id}"
        reports = [part.report for part in parts.values()]
        end = capture.ended.at if capture.ended else max(time.time(), capture.created)
        return {
            "id": capture.id,
            "service": wish.service,
            "query": wish.query,
            "pods_requested": list(wish.pods) if isinstance(wish.pods, tuple) else wish.pods,
            "seconds": wish.seconds,
            "rate": wish.rate,
            "mode": wish.mode,
            "timeline": wish.timeline,
            "attach": wish.attach,
            "requested_by": capture.by,
            "created": _time(capture.created),
            "expires": _time(capture.created + self._rules.retention_days * 86_400),
            "ended": _time(capture.ended.at) if capture.ended else None,
            "state": seen.state,
            "stopping": capture.stop_at is not None and not seen.final,
            "problem": seen.problem,
            "hint": seen.hint,
            "pods": len(capture.claims),
            "elapsed_seconds": capture.ended.elapsed_seconds
            if capture.ended
            else max((one.elapsed_seconds for one in reports), default=0.0),
            "samples": capture.ended.samples if capture.ended else sum(one.samples for one in reports),
            "from": int(capture.created) - _SIDES_SECONDS,
            "until": int(end) + _SIDES_SECONDS,
            "parts": _parts(capture, seen, parts),
            "links": {
                "self": path,
                "page": f"{self._prefix}/captures/{capture.id}",
                "stop": f"{path}/stop",
                "events": f"{path}/events",
                "recordings": f"{path}/recordings",
            },
        }

    async def _one(self, request: web.Request, capture_id: str) -> web.Response:
        told = await self._whole(capture_id)
        return json_reply(told, gzip=takes_gzip(request)).response(request)

    async def _whole(self, capture_id: str) -> dict[str, Any]:
        return self.told(*await self.desk.look_up(capture_id))

    async def _known(self, request: web.Request) -> bool:
        capture = await asyncio.to_thread(self._shelf.capture, request.match_info["id"])
        return bool(capture.claims or capture.ended)

    async def _learn(self) -> None:
        now = time.monotonic()
        if now >= self._learnt + AGENTS_SECONDS:
            self._learnt = now
            await self.desk.learn_agents()

    def _keep(
        self, capture_id: str, name: str, body: bytes, encoding: str, writer: Writer | None
    ) -> tuple[str, int]:
        """Keep a recording; under which name, and how many bytes it takes."""
        capture, (said, _, pid) = self._shelf.capture(capture_id), name.rpartition("-")
        agent = said if writer is None else writer.agent(said)
        if not any(claim.agent == agent for claim in capture.claims):
            raise BadBody(
                f"{agent} has no part in {capture_id}", hint="Only a sidecar that took it may add to it."
            )
        try:
            text = unpack(body, encoding, self._sizes.recording_text_bytes)
        except LimitExceeded as error:
            raise self._too_large(error.reason) from None
        recording = recording_files.read_recording(text)
        if recording.capture != capture_id or f"{recording.agent}-{recording.pid}" != name:
            raise BadBody(
                "the recording is of another capture or process than its path says",
                hint="docs/api.md says how a recording is named.",
            )
        labels = recording.labels if writer is None else writer.bound(recording.labels)
        content, kept_as = recording_files.packed(body, encoding, text), f"{agent}-{pid}"
        short = recording_files.in_short(recording, kept_as, len(content), labels)
        self._shelf.put_recording(capture_id, kept_as, content, short)
        return kept_as, len(content)

    def _drawn(self, capture_id: str, name: str, *, gzip: bool) -> Any:
        content = self._shelf.recording(self._shelf.capture(capture_id).id, name)
        recording = recording_files.unpacked(content, self._sizes.recording_text_bytes)
        title = f"{recording.labels.get('pod') or recording.labels['service']} · process {recording.pid}"
        drawn = recording_files.speedscope(recording, title, self._sizes.speedscope_frames)
        return reply(drawn, "application/json; charset=utf-8", gzip=gzip)

    def _too_large(self, reason: Reason) -> LimitExceeded:
        return LimitExceeded(
            "the recording is larger than it may be",
            reason=reason,
            hint="Capture for less long or at a lower rate, or raise the collector's "
            "--timeline-recording-max-bytes and --timeline-recording-max-decompressed-bytes.",
        )

    async def _received(self, request: web.Request, most: int, *, unpacked: bool = True) -> bytes:
        """A body of at most so many bytes, undone of its encoding unless told otherwise."""
        body = bytearray()
        if (request.content_length or 0) > most:
            raise self._too_large(Reason.TOO_LARGE) if not unpacked else too_large(most)
        try:
            async with asyncio.timeout(self._sizes.receive_seconds):
                async for chunk in request.content.iter_any():
                    if len(body) + len(chunk) > most:
                        raise self._too_large(Reason.TOO_LARGE) if not unpacked else too_large(most)
                    body += chunk
        except TimeoutError as error:
            raise SidelightError(
                f"the body did not arrive within {self._sizes.receive_seconds:g} s",
                reason=Reason.REQUEST_TIMEOUT,
                hint="Send less at once, or raise the collector's --max-receive-seconds.",
            ) from error
        encoding = request.headers.get("Content-Encoding", "")
        return unpack(bytes(body), encoding, most) if unpacked else bytes(body)


def off() -> list[web.RouteDef]:
    """The same paths where captures are switched off."""

    async def refused(_: web.Request) -> web.Response:
        raise SidelightError(
            "captures are switched off here",
            reason=Reason.NOT_FOUND,
            hint="Start the collector without --no-captures.",
        )

    paths = (
        f"{PREFIX}/captures",
        f"{PREFIX}/captures/{{rest:.*}}",
        f"{PREFIX}/agents",
        f"{PREFIX}/agents/poll",
    )
    return [web.route("*", path, refused) for path in paths]


def _parts(capture: Capture, seen: Seen, parts: Parts) -> list[dict[str, Any]]:
    """Each sidecar's part; what ended long ago may have none that is known."""
    told = []
    for claim, state in zip(capture.claims, seen.parts, strict=True):
        one: dict[str, Any] = {
            "agent": claim.agent,
            "labels": dict(claim.labels),
            "state": state.state,
            "problem": state.problem,
            "hint": state.hint,
            "ephemeral_container": claim.attached.container if claim.attached else "",
        }
        if part := parts.get(claim.agent):
            report = part.report
            one |= {
                "last_seen": _time(part.last_seen),
                "elapsed_seconds": report.elapsed_seconds,
                "seconds": report.seconds,
                "samples": report.samples,
                "windows": report.windows,
                "recordings": report.recordings,
                "errors": dict(report.errors),
                "processes": [process.to_json() for process in report.processes],
                "top_functions": [function.to_json() for function in report.top_functions],
            }
        told.append(one)
    return told


def _time(unix: float) -> str:
    return rfc3339(round(unix * 1000) * 1_000_000)


def _from_here(request: web.Request) -> None:
    """Raises Forbidden for what a page of another site sends: a browser says so (Sec-Fetch-Site)."""
    if request.headers.get("Sec-Fetch-Site", "none") not in ("none", "same-origin"):
        raise Forbidden(
            "a page of another site may not start or end captures",
            hint="Use the collector's own pages, or curl.",
        )
