"""The handlers of profile files that a reader sends. Nothing is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from aiohttp import web

from sidelight_collector.auth.authorizer import get_principal
from sidelight_collector.decompress import BadEncoding, decompress_body
from sidelight_collector.http.api.api_handler import ApiContext, ApiHandler
from sidelight_collector.http.api.parameters import QueryParameters
from sidelight_collector.http.api.responses import EncodedResponse, accepts_gzip, encode_response
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.ingest.pyroscope.multipart_form import parse_form
from sidelight_collector.ingest.pyroscope.profile_sums import BadProfile
from sidelight_collector.profile_files.reader_process import ReaderLimits, read_in_process
from sidelight_collector.profile_files.sent_file import ProfileFile
from sidelight_collector.query.query_context import QueryContext
from sidelight_model.counts import ProfileType
from sidelight_model.errors import LimitExceeded, Reason, SidelightError
from sidelight_model.import_formats.folded_input import decode_byte_order_mark

FORM_BYTES: Final = 8 << 10
"""Memory for the heads of a form's parts."""
_FIELDS: Final = {"/files/flamegraph": ("file",), "/files/compare": ("baseline", "comparison")}
_MAX_NAME: Final = 200
_GZIP: Final = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class FileLimits:
    """The largest file, and the memory of the process that reads files."""

    max_bytes: int = 24 << 20
    memory_bytes: int = 1 << 30


class FileApi(ApiHandler):
    """Handlers of files. Only one request is read at a time."""

    def __init__(self, context: ApiContext, body_reader: BodyReader, limits: FileLimits) -> None:
        super().__init__(context)
        self._body_reader = body_reader
        self._file_limits = limits
        self._reading = asyncio.Semaphore(1)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/api/v1/files/flamegraph", self.flamegraph),
            web.post("/api/v1/files/compare", self.compare),
        ]

    async def flamegraph(self, request: web.Request) -> web.Response:
        return await self._respond(request, "/files/flamegraph")

    async def compare(self, request: web.Request) -> web.Response:
        return await self._respond(request, "/files/compare")

    async def _respond(self, request: web.Request, path: str) -> web.Response:
        parameters, fields, limits = self.read_parameters(request, path), _FIELDS[path], self._file_limits
        # Any reader may ask: the answer has nothing of any namespace.
        get_principal(request)
        kind = parameters.parse_profile_type() if parameters.has("type") else None
        lines = path == "/files/flamegraph" and parameters.parse_switch("lines", default=False)
        max_nodes = min(parameters.parse_max_nodes() or self._limits.max_nodes, self._limits.max_nodes)
        with self._body_reader.reserve() as reservation:
            body = await self._body_reader.receive(
                request, reservation, len(fields) * limits.max_bytes + FORM_BYTES, self._too_large("a file")
            )
            async with self._reading:
                query = partial(
                    self._answer,
                    read_files=partial(self._read_files, parameters, fields, body, request),
                    kind=kind,
                    lines=lines,
                    max_nodes=max_nodes,
                    gzip=accepts_gzip(request),
                )
                answer = await self._context.engine.run(query)
        return answer.to_response(request)

    def _answer(
        self,
        context: QueryContext,
        *,
        read_files: Callable[[], Sequence[ProfileFile]],
        kind: ProfileType | None,
        lines: bool,
        max_nodes: int,
        gzip: bool,
    ) -> EncodedResponse:
        files = read_files()
        limits = ReaderLimits(self._file_limits.memory_bytes, max_nodes, context.deadline.remaining())
        body = read_in_process(files, kind, limits, lines=lines)
        return encode_response(body, "application/json; charset=utf-8", gzip=gzip)

    def _read_files(
        self, parameters: QueryParameters, fields: Sequence[str], body: bytes, request: web.Request
    ) -> list[ProfileFile]:
        """Return the files of a form. Raises SidelightError."""
        try:
            form = parse_form(body, request.headers.get("Content-Type", ""))
        except BadProfile as error:
            raise SidelightError(
                f"the request is not a form with files: {error.message}",
                reason=Reason.BAD_REQUEST,
                hint=f"Send multipart/form-data: curl {' '.join(f'-F {name}=@FILE' for name in fields)}.",
            ) from error
        if missing := [name for name in fields if name not in form]:
            raise SidelightError(
                f"the form has no field {missing[0]}",
                reason=Reason.BAD_REQUEST,
                hint=f"Its fields are: {', '.join(fields)}.",
            )
        names = [parameters.get_text(f"{name}_name")[:_MAX_NAME] or name for name in fields]
        return [self._unpack(name, form[field]) for name, field in zip(names, fields, strict=True)]

    def _unpack(self, name: str, content: bytes) -> ProfileFile:
        max_bytes = self._file_limits.max_bytes
        try:
            unpacked = decompress_body(content, "gzip" if content.startswith(_GZIP) else "", max_bytes)
        except LimitExceeded:
            raise self._too_large(name) from None
        except BadEncoding as error:
            raise SidelightError(
                f"{name} cannot be unpacked: {error.message}",
                reason=Reason.BAD_FOLDED,
                hint="Was it written to its end?",
            ) from error
        return ProfileFile(name, decode_byte_order_mark(unpacked))

    def _too_large(self, name: str) -> LimitExceeded:
        return LimitExceeded(
            f"{name} is larger than {self._file_limits.max_bytes} bytes, unpacked",
            hint="Record less at once, use sidelight compare on your machine, or raise the collector's "
            "--max-file-bytes.",
        )
