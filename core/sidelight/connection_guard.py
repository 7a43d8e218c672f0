"""Limits the number and the waiting times of a server's connections, for aiohttp.

A `GuardedConnection` is between each transport and aiohttp's protocol. A middleware tells it when a request
begins and ends. The module needs aiohttp, which every distribution with a server has.

At its limit, a server closes the connection that has waited longest for a request, for each new one. If all
have requests in progress, a small reserve still answers probes, and other requests get 503. If the reserve is
full too, new clients wait in the kernel's queue. The process thus keeps clear of its limit of open files.

Under TLS, asyncio takes a response of one piece at once, whatever the client reads. For that response, the
idle timeout takes the place of the response timeout.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, cast

import structlog
from aiohttp import StreamReader, web

from sidelight.connection_phases import (
    CloseReason,
    ConnectionTable,
    ConnectionTimeouts,
    ConnectionTimer,
    Phase,
)
from sidelight.connection_settings import ConnectionSettings
from sidelight.open_files import limit_connections, raise_open_file_limit
from sidelight_model.errors import Reason, SidelightError

PROBE_PATHS: Final = ("/livez", "/readyz", "/metrics")
PROBE_RESERVE: Final = 16
MAX_HEAD_BYTES: Final = 32 << 20
"""Memory of incomplete heads of a server: each of them may have more than a megabyte of headers."""
_HEAD_CHECK_SECONDS: Final = 0.05
_RETRY_AFTER_SECONDS: Final = 2
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight.connections")
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BodyTimeout(SidelightError, TimeoutError):
    """A client that did not go on sending a request's body."""

    reason = Reason.REQUEST_TIMEOUT


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The most connections of one server, its timeouts, and the paths of its probes."""

    max_connections: int
    timeouts: ConnectionTimeouts
    probe_paths: frozenset[str] = frozenset(PROBE_PATHS)
    max_head_bytes: int = MAX_HEAD_BYTES


class GuardedConnection(asyncio.Protocol):
    """One connection, which is closed if its client is too slow.

    It passes everything to aiohttp's protocol.
    """

    __slots__ = (
        "_body",
        "_guard",
        "_handler",
        "_phase",
        "_timer",
        "_timer_handle",
        "_transport",
        "starting",
    )

    def __init__(self, guard: ConnectionGuard, handler: asyncio.Protocol) -> None:
        self._guard = guard
        self._handler = handler
        self._timer = ConnectionTimer(guard.limits.timeouts, guard.loop.time())
        self._phase = self._timer.phase
        self._timer_handle: asyncio.TimerHandle | None = None
        self._body: StreamReader | None = None
        self._transport: asyncio.Transport | None = None
        self.starting: asyncio.Task[None] | None = None
        self._arm_timer()

    @property
    def has_started(self) -> bool:
        """Whether there was a transport: after the TLS handshake, if there is TLS."""
        return self._transport is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._timer.start(self._guard.loop.time())
        self._arm_timer()
        self._handler.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._timer.receive(self._guard.loop.time())
        self._follow()
        if self._timer.phase is Phase.HEAD:
            self._guard.add_head_bytes(self, len(data))
        self._handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self._handler.eof_received()

    def pause_writing(self) -> None:
        self._timer.pause_writing(self._guard.loop.time(), self._count_unsent())
        self._follow()
        self._handler.pause_writing()

    def resume_writing(self) -> None:
        self._timer.resume_writing(self._guard.loop.time())
        self._follow()
        self._handler.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self.forget()
        self._handler.connection_lost(exc)

    def begin_request(self, body: StreamReader) -> None:
        """Note that a handler begins; `body` may not have arrived yet."""
        self._body = body
        self._timer.begin_request(self._guard.loop.time(), has_body=not body.is_eof())
        self._follow()
        if not body.is_eof():
            body.on_eof(self._end_body)

    def end_request(self) -> None:
        """Note that the handler has ended."""
        has_body = self._body is not None and not self._body.is_eof()
        self._timer.end_request(self._guard.loop.time(), has_body=has_body)
        self._follow()

    def close(self, reason: CloseReason) -> None:
        """Close the connection at once, and count why."""
        self._guard.on_close(reason)
        self._guard.table.set_closing(self)
        if self._transport is not None:
            self._transport.abort()
        elif self.starting is not None:
            self.starting.cancel()

    def forget(self) -> None:
        """Note that the connection is gone."""
        if self._timer_handle is not None:
            self._timer_handle.cancel()
        self._guard.remove(self)

    def _end_body(self) -> None:
        self._timer.end_body(self._guard.loop.time())
        self._follow()

    def _follow(self) -> None:
        """Tell the table about another phase, and set the timer."""
        if self._timer.phase is not self._phase:
            self._phase = self._timer.phase
            if self._timer.is_waiting:
                self._guard.table.set_waiting(self, self._guard.loop.time())
            else:
                self._guard.table.set_working(self)
        self._arm_timer()

    def _arm_timer(self) -> None:
        deadline, handle = self._timer.deadline, self._timer_handle
        if deadline is None or (handle is not None and handle.when() <= deadline):
            return  # A timer that fires too early is set again.
        if handle is not None:
            handle.cancel()
        self._timer_handle = self._guard.loop.call_at(deadline, self._check_deadline)

    def _check_deadline(self) -> None:
        self._timer_handle = None
        is_reading = self._transport is not None and self._transport.is_reading()
        is_body = self._timer.phase is Phase.BODY
        reason = self._timer.find_expired(
            self._guard.loop.time(), is_reading=is_reading, unsent_bytes=self._count_unsent()
        )
        if reason is None:
            self._arm_timer()
        elif is_body and self._body is not None:
            # The handler's own answer is 408, and aiohttp then closes the connection.
            self._guard.on_close(reason)
            self._body.set_exception(
                BodyTimeout(
                    "the rest of the body did not arrive in time",
                    hint="Send the body without long pauses; --body-timeout-seconds is the limit.",
                )
            )
            self._end_body()
        else:
            self.close(reason)

    def _count_unsent(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()


class ConnectionGuard:
    """The connections of one server and their limits. Belongs to one event loop.

    `on_close` is called with the reason of each connection that the guard closes or refuses. The functions
    in `on_room` are called when a connection has ended.
    """

    def __init__(self, limits: ConnectionLimits, on_close: Callable[[CloseReason], None]) -> None:
        self.limits = limits
        self.on_close = on_close
        self.loop = asyncio.get_running_loop()
        self.table: ConnectionTable[GuardedConnection] = ConnectionTable(
            limits.max_connections, PROBE_RESERVE, limits.max_head_bytes
        )
        self._head_check: asyncio.TimerHandle | None = None
        self.on_room: list[Callable[[], None]] = []

    def protect(self, app: web.Application) -> None:
        """Add the middleware that follows requests; call it before the server starts."""
        app.middlewares.insert(0, self._follow_request)

    @property
    def keepalive_seconds(self) -> float:
        """The `keepalive_timeout` of aiohttp's server, which must not be the shorter one."""
        return 2 * self.limits.timeouts.idle_seconds

    def remove(self, connection: GuardedConnection) -> None:
        """Forget a connection that is gone, and accept another in its place."""
        self.table.remove(connection)
        for notify in self.on_room:
            notify()

    def add_head_bytes(self, connection: GuardedConnection, count: int) -> None:
        """Count bytes that belong to no request yet.

        If there are too many, the largest heads are closed soon. A complete head becomes a request meanwhile,
        and no longer counts.
        """
        if self.table.add_head_bytes(connection, count) and self._head_check is None:
            self._head_check = self.loop.call_later(_HEAD_CHECK_SECONDS, self._close_largest_heads)

    def _close_largest_heads(self) -> None:
        self._head_check = None
        for connection in self.table.find_largest_heads():
            connection.close(CloseReason.LIMIT)

    @web.middleware
    async def _follow_request(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        transport = request.transport
        connection = None if transport is None else transport.get_protocol()
        if not isinstance(connection, GuardedConnection):
            return await handler(request)
        if self.table.is_busy and request.path not in self.limits.probe_paths:
            self.on_close(CloseReason.LIMIT)
            return _build_refusal()
        connection.begin_request(request.content)
        try:
            return await handler(request)
        finally:
            connection.end_request()


def build_guard(
    settings: ConnectionSettings,
    max_connections: int,
    on_close: Callable[[CloseReason], None],
    *,
    whole_body_seconds: float = 300.0,
    path_prefix: str = "",
) -> ConnectionGuard:
    """Build the guard of one server: raise the limit of open files, and stay below it."""
    open_files = raise_open_file_limit()
    allowed = limit_connections(max_connections, open_files, PROBE_RESERVE)
    if allowed < max_connections:
        _log.info("open files limit the connections", max_connections=allowed, open_files=open_files)
    timeouts = ConnectionTimeouts(
        settings.header_timeout_seconds,
        settings.body_timeout_seconds,
        whole_body_seconds,
        settings.response_timeout_seconds,
        settings.idle_timeout_seconds,
    )
    paths = frozenset(prefix + path for prefix in ("", path_prefix) for path in PROBE_PATHS)
    return ConnectionGuard(ConnectionLimits(allowed, timeouts, paths), on_close)


def _build_refusal() -> web.Response:
    body = {
        "error": Reason.OVERLOADED,
        "message": "the server has as many connections as it may have",
        "hint": "Send again after Retry-After. If this lasts, raise --max-connections.",
    }
    # Clients that were refused together must not all return in the same second.
    seconds = random.randint(_RETRY_AFTER_SECONDS, 2 * _RETRY_AFTER_SECONDS)
    response = web.json_response(body, status=503, headers={"Retry-After": str(seconds)})
    response.force_close()
    return response
