"""The streamable HTTP transport for a host that is no ASGI server.

The transport is stateless: each request stands for itself and gets one JSON response, so any worker process
of a collector may answer it. Specification: modelcontextprotocol.io, "Streamable HTTP".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from sidelight_mcp.api import ApiClient
from sidelight_mcp.tool_context import API_KEY
from sidelight_mcp.tool_server import build_server


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A response: status, headers and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpTransport:
    """Answers MCP requests that a host has received, checked and limited."""

    def __init__(self, manager: StreamableHTTPSessionManager) -> None:
        self._manager = manager

    async def answer(
        self, method: str, headers: Iterable[tuple[str, str]], body: bytes, client: ApiClient
    ) -> HttpAnswer:
        """Answer a request; its tools use `client`."""
        scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": "/mcp",
            "raw_path": b"/mcp",
            "query_string": b"",
            "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in headers],
            API_KEY: client,
        }
        received = [{"type": "http.request", "body": body, "more_body": False}]
        status, answer_headers, parts = 500, dict[str, str](), list[bytes]()

        async def receive() -> dict[str, Any]:
            if received:
                return received.pop()
            # The host cancels the task of a client that has gone.
            await asyncio.get_running_loop().create_future()
            raise AssertionError("nothing completes this future")

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                answer_headers.update((name.decode(), value.decode()) for name, value in message["headers"])
            elif message["type"] == "http.response.body":
                parts.append(message.get("body", b""))

        await self._manager.asgi_app(scope, receive, send)
        return HttpAnswer(status, answer_headers, b"".join(parts))


@asynccontextmanager
async def run_transport(version: str) -> AsyncIterator[HttpTransport]:
    """Run the server with all tools; the block must begin and end in one task."""
    server = build_server(None, version)
    # The host has checked Host and Origin.
    server.streamable_http_app(
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    async with server.session_manager.run():
        yield HttpTransport(server.session_manager)
