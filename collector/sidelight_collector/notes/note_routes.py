"""HTTP handlers of notes: list, create, change and delete."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from aiohttp import web

from sidelight_collector.auth.authorizer import get_principal
from sidelight_collector.auth.read_rules import NO_NAMESPACE, Principal
from sidelight_collector.http.api.parameters import read_single_values
from sidelight_collector.http.api.responses import accepts_gzip, encode_json_response
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.json_body import JsonLimits
from sidelight_collector.notes.note import BadNote, Note, parse_note_request, parse_note_text
from sidelight_collector.notes.note_repository import NoteRepository
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.times import SECOND_NS, format_rfc3339, parse_time
from sidelight_model.errors import Reason, SidelightError

PATH: Final = "/api/v1/notes"
PARAMETERS: Final = ("service", "namespace", "from", "until")
_MAX_BODY_BYTES: Final = 64 << 10
_BODY_LIMITS: Final = JsonLimits(
    _MAX_BODY_BYTES, 8 * _MAX_BODY_BYTES, max_depth=2, hint="A note has a text of 1,000 characters."
)


class NoteRoutes:
    """The handlers of notes.

    They raise BadNote, BadParameter, BadTime, NoteNotFound, TooManyNotes and StoreError.
    """

    def __init__(
        self, repository: NoteRepository, body_reader: BodyReader, clock: Callable[[], float] = time.time
    ) -> None:
        self._repository = repository
        self._body_reader = body_reader
        self._clock = clock

    def build_routes(self) -> list[web.RouteDef]:
        """Return all routes."""
        note_path = f"{PATH}/{{id}}"
        return [
            web.get(PATH, self.list_notes),
            web.post(PATH, self.create_note),
            web.patch(note_path, self.change_note),
            web.delete(note_path, self.delete_note),
        ]

    async def list_notes(self, request: web.Request) -> web.Response:
        reader, parameters = get_principal(request), read_single_values(request.query, PARAMETERS)
        now = self._now()
        start, until = (
            parse_time(parameters[name], parameter=name, now_ns=round(now * SECOND_NS)) / SECOND_NS
            if name in parameters
            else default
            for name, default in (("from", 0.0), ("until", float("inf")))
        )
        if not parameters.get("service"):
            raise BadParameter("the request names no service", hint="Add service=shop.")
        if start > until:
            raise BadParameter("from is after until: the range is empty", hint="from <= time <= until.")
        namespace = parameters.get("namespace")

        def is_wanted(note: Note) -> bool:
            in_namespace = namespace is None or note.namespace == namespace
            return in_namespace and reader.can_read(note.labels) and note.overlaps(start, until)

        notes = await asyncio.to_thread(self._repository.list_notes, parameters["service"], is_wanted, now)
        answer = {"notes": [note_to_json(note) for note in notes]}
        return encode_json_response(answer, gzip=accepts_gzip(request)).to_response(request)

    async def create_note(self, request: web.Request) -> web.Response:
        reader = get_principal(request)
        read_single_values(request.query, ())
        now = self._now()
        wish = parse_note_request(await self._receive(request), now)
        namespace = choose_namespace(reader, wish.namespace)
        note = await asyncio.to_thread(self._repository.create, wish, namespace, reader.name, now)
        return _respond(request, note, 201)

    async def change_note(self, request: web.Request) -> web.Response:
        reader = get_principal(request)
        read_single_values(request.query, ())
        text = parse_note_text(await self._receive(request))
        note = await asyncio.to_thread(
            self._repository.change,
            request.match_info["id"],
            lambda note: reader.can_read(note.labels),
            text,
            reader.name,
            self._now(),
        )
        return _respond(request, note, 200)

    async def delete_note(self, request: web.Request) -> web.Response:
        reader = get_principal(request)
        read_single_values(request.query, ())
        await asyncio.to_thread(
            self._repository.delete,
            request.match_info["id"],
            lambda note: reader.can_read(note.labels),
            self._now(),
        )
        return web.Response(status=204)

    def _now(self) -> float:
        return round(self._clock(), 3)

    async def _receive(self, request: web.Request) -> Mapping[str, Any]:
        """Receive a body.

        It must be JSON, because a form of another site cannot send that without a CORS preflight.
        """
        if request.content_type != "application/json":
            raise SidelightError(
                "a request for a note is JSON",
                reason=Reason.UNSUPPORTED_TYPE,
                hint="Send `Content-Type: application/json`; `curl --json` does.",
            )
        return await self._body_reader.read_json_object(request, _BODY_LIMITS)


def choose_namespace(reader: Principal, namespace: str | None) -> str:
    """Return the namespace of a new note.

    Without one in the request, it is the only one that the reader may see, or none. Raises SidelightError if
    the reader may not see it, and BadNote if there are several.
    """
    patterns = reader.namespaces
    if namespace is None and patterns is not None and len(patterns) == 1 and "*" not in patterns[0]:
        return "" if patterns[0] == NO_NAMESPACE else patterns[0]
    if reader.can_read({"namespace": namespace or ""}):
        return namespace or ""
    if namespace is None:
        raise BadNote("the request names no namespace", hint='Add "namespace", one that you may read.')
    raise SidelightError(
        f"you may not read the namespace {namespace[:80]!r}",
        reason=Reason.FORBIDDEN,
        hint="Name one that you may read: GET /api/v1/labels/namespace/values lists them.",
    )


def note_to_json(note: Note) -> dict[str, Any]:
    """Encode a note as JSON."""
    return {
        "id": note.id,
        "service": note.service,
        "namespace": note.namespace,
        "text": note.text,
        "from": _format_time(note.start),
        "until": _format_time(note.until),
        "function": note.function,
        "author": note.author,
        "created": _format_time(note.created_at),
        "changed_by": note.changed_by,
        "changed": _format_time(note.changed_at),
    }


def _respond(request: web.Request, note: Note, status: int) -> web.Response:
    response = encode_json_response(note_to_json(note), gzip=False).to_response(request)
    response.set_status(status)
    response.headers["Cache-Control"] = "no-store"
    return response


def _format_time(unix: float | None) -> str | None:
    return None if unix is None else format_rfc3339(round(unix * 1000) * 1_000_000)
