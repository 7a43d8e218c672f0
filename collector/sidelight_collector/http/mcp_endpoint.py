"""`POST /mcp`: tools for coding agents over the Model Context Protocol.

The tools send requests to this collector's own API, inside the process and with the headers of the agent's
request. An agent therefore has the permissions of its token or its proxy user, and no others.
The package of the tools is imported at the first request: it takes 55 MB.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import orjson
from aiohttp import web
from aiohttp.streams import StreamReader
from multidict import CIMultiDict
from yarl import URL

from sidelight import __version__
from sidelight_collector.auth.authorizer import get_principal
from sidelight_collector.decompress import build_too_large_error
from sidelight_collector.http.request_body import BodyReader
from sidelight_collector.json_body import JsonLimits, check_json
from sidelight_model.errors import Reason, SidelightError

if TYPE_CHECKING:
    from sidelight_mcp.http_transport import HttpTransport

PATH: Final = "/mcp"
LIMITS: Final = JsonLimits(64 << 10, 4 << 20, max_depth=16, hint="A call of a tool needs a few kilobytes.")
MAX_LOOP_BYTES: Final = 64 << 10
"""A response of the API above this size is parsed in a thread."""
_OWN_HEADERS: Final = frozenset(
    (
        "accept",
        "accept-encoding",
        "content-encoding",
        "content-length",
        "content-type",
        "if-none-match",
        "transfer-encoding",
    )
)
"""Headers that describe the agent's request itself; the others say who asks."""


class McpDisabled(SidelightError):
    """This collector has no tools for agents."""

    reason = Reason.FORBIDDEN


class McpEndpoint:
    """Answers the requests of agents.

    `public_url` is the address of the UI; without one, links use the address that the agent used.
    """

    def __init__(
        self, body_reader: BodyReader, *, path_prefix: str, public_url: str, is_enabled: bool
    ) -> None:
        self._body_reader = body_reader
        self._path_prefix = path_prefix
        self._public_url = public_url.rstrip("/")
        self._is_enabled = is_enabled
        self._transport: asyncio.Future[HttpTransport] | None = None
        self._running: asyncio.Task[None] | None = None

    def routes(self) -> list[web.RouteDef]:
        return [web.post(PATH, self.answer)]

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one request of the protocol."""
        get_principal(request)  # The tools' own requests are limited to what the user may read.
        if not self._is_enabled:
            raise McpDisabled("this collector serves no tools for agents", hint="Start it without --no-mcp.")
        with self._body_reader.reserve() as reservation:
            body = await self._body_reader.receive(
                request, reservation, LIMITS.max_bytes, build_too_large_error(LIMITS.max_bytes, LIMITS.hint)
            )
            check_json(body, LIMITS)
            transport = await self._start()
            url = self._public_url or f"{request.url.origin()}{self._path_prefix}"
            client = OwnApi(request, self._path_prefix, url)
            answer = await transport.answer(request.method, request.headers.items(), body, client)
        headers = {name: value for name, value in answer.headers.items() if name.lower() != "content-length"}
        return web.Response(status=answer.status, headers=headers, body=answer.body)

    async def close(self, _: web.Application) -> None:
        """End the server of the tools; for the application's `on_cleanup`."""
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError):
                await self._running

    async def _start(self) -> HttpTransport:
        if self._transport is None:
            if find_spec("sidelight_mcp") is None:
                raise McpDisabled(
                    "the tools for agents are not installed",
                    hint="Install them: pip install 'sidelight-collector[mcp]'.",
                )
            self._transport = asyncio.get_running_loop().create_future()
            self._running = asyncio.create_task(self._run(self._transport), name="serve tools for agents")
        return await asyncio.shield(self._transport)

    async def _run(self, started: asyncio.Future[HttpTransport]) -> None:
        try:
            run_transport = await asyncio.to_thread(_import_transport)
            async with run_transport(__version__) as transport:
                started.set_result(transport)
                await asyncio.get_running_loop().create_future()
        except Exception as error:
            if started.done():
                raise
            self._transport = None
            started.set_exception(error)


class OwnApi:
    """Sends requests to this collector's API, with the headers of an agent's request."""

    def __init__(self, request: web.Request, path_prefix: str, url: str) -> None:
        self._request = request
        self._path_prefix = path_prefix
        self.url = url

    async def get(self, path: str, parameters: Mapping[str, str]) -> Any:
        return await self._send("GET", path, parameters, b"")

    async def post(self, path: str, body: Mapping[str, object]) -> Any:
        return await self._send("POST", path, {}, json.dumps(body).encode())

    async def _send(self, method: str, path: str, parameters: Mapping[str, str], body: bytes) -> Any:
        """Send a request through routing and all middlewares, as one from outside.

        Raises SidelightError with the reason of the response.
        """
        headers = CIMultiDict(
            (name, value) for name, value in self._request.headers.items() if name.lower() not in _OWN_HEADERS
        )
        if body:
            headers["Content-Type"] = "application/json"
        headers["Content-Length"] = str(len(body))
        target = URL.build(path=f"{self._path_prefix}/api/v1/{path}", query=parameters)
        request = self._request.clone(method=method, rel_url=target, headers=headers)
        # aiohttp has no public way to hand an application a request with a body of its own.
        payload = StreamReader(request.protocol, limit=1 << 16, loop=asyncio.get_running_loop())
        payload.feed_data(body)
        payload.feed_eof()
        request._payload = payload
        response = await self._request.app._handle(request)
        if not isinstance(response, web.Response) or not isinstance(response.body, bytes):
            raise SidelightError("the collector's response cannot be read here", hint="This is a defect.")
        content = response.body
        parsed = (
            await asyncio.to_thread(orjson.loads, content)
            if len(content) > MAX_LOOP_BYTES
            else orjson.loads(content)
        )
        if response.status >= 400:
            raise SidelightError(
                parsed["message"], reason=Reason(parsed["error"]), hint=parsed.get("hint", "")
            )
        return parsed


def _import_transport() -> Any:
    from sidelight_mcp.http_transport import run_transport

    return run_transport
