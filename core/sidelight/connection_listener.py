"""Accepts the connections of a guarded server, in place of aiohttp's sites."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import structlog
from aiohttp import web

from sidelight.connection_guard import ConnectionGuard, GuardedConnection
from sidelight.connection_phases import CloseReason

BACKLOG: Final = 1024
"""Connections that may wait to be accepted; net.core.somaxconn may lower it.

Thousands of sidecars may connect while the event loop is busy. If the backlog is full, the client's kernel
retries after one second, then after two more, then after four more.
"""
_ACCEPTS_PER_TURN: Final = 8
"""Connections accepted before the event loop turns to the requests of others."""
_TLS_SHUTDOWN_SECONDS: Final = 3.0
"""How long a closed connection waits for the end of TLS from its client."""
_RETRY_SECONDS: Final = 0.05
_ERROR_RETRY_SECONDS: Final = 1.0
_LOG_SECONDS: Final = 60.0
_NO_FILES: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight.connections")


async def accept_connections(
    guard: ConnectionGuard,
    runner: web.BaseRunner,
    sockets: Iterable[socket.socket],
    ssl_context: ssl.SSLContext | None = None,
) -> None:
    """Accept connections on bound sockets until `runner` is cleaned up."""
    for listener in sockets:
        await GuardedSite(guard, runner, listener, ssl_context).start()


class ConnectionListener(asyncio.AbstractServer):
    """Accepts connections on one socket while the table has room."""

    def __init__(
        self,
        guard: ConnectionGuard,
        server: web.Server,
        listener: socket.socket,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        self._guard = guard
        self._server = server
        self._listener = listener
        self._ssl_context = ssl_context
        self._starting: set[asyncio.Task[None]] = set()
        self._retry: asyncio.TimerHandle | None = None
        self._next_log = 0.0
        self._is_paused = True
        self._closed = asyncio.Event()

    @property
    def sockets(self) -> tuple[socket.socket, ...]:
        """The listening socket, as of `asyncio.Server`."""
        return () if self._closed.is_set() else (self._listener,)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._guard.loop

    def is_serving(self) -> bool:
        return not self._closed.is_set()

    async def serve_forever(self) -> None:
        await self.start_serving()
        await self.wait_closed()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    async def start_serving(self) -> None:
        """Begin to accept connections."""
        self._listener.setblocking(False)
        self._listener.listen(BACKLOG)
        self.resume()

    def resume(self) -> None:
        """Accept connections again."""
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._is_paused and not self._closed.is_set():
            self._is_paused = False
            self._guard.loop.add_reader(self._listener, self._accept)

    def close(self) -> None:
        """Accept no further connections, and give up TLS handshakes."""
        if self._closed.is_set():
            return
        self._pause(None)
        self._closed.set()
        self._listener.close()
        for task in self._starting if self._ssl_context else ():
            task.cancel()

    def _pause(self, seconds: float | None) -> None:
        """Leave new clients in the kernel's queue.

        Without `seconds`, nothing but `resume` ends the pause.
        """
        if not self._is_paused:
            self._is_paused = True
            self._guard.loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        self._retry = None if seconds is None else self._guard.loop.call_later(seconds, self.resume)

    def _accept(self) -> None:
        table, now = self._guard.table, self._guard.loop.time()
        for _ in range(_ACCEPTS_PER_TURN):
            if not table.has_room:
                if not table.is_closing and (oldest := table.find_longest_waiting(now)) is not None:
                    oldest.close(CloseReason.LIMIT)
                self._pause(_RETRY_SECONDS)
                return
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                # Something else may have taken the descriptors: one of these connections gives its own back.
                if now >= self._next_log:
                    _log.error("no connection can be accepted", error=error.strerror)
                    self._next_log = now + _LOG_SECONDS
                if error.errno in _NO_FILES and (oldest := table.find_longest_waiting(now)) is not None:
                    oldest.close(CloseReason.LIMIT)
                self._pause(_ERROR_RETRY_SECONDS)
                return
            if table.is_full and (oldest := table.find_longest_waiting(now)) is not None:
                oldest.close(CloseReason.LIMIT)
            connection = GuardedConnection(self._guard, self._server())
            table.add(connection, now)
            connection.starting = asyncio.ensure_future(self._start(connection, client))
            self._starting.add(connection.starting)
            connection.starting.add_done_callback(partial(self._finish_start, connection, client))

    async def _start(self, connection: GuardedConnection, client: socket.socket) -> None:
        client.setblocking(False)
        # The connection's own timer ends a handshake first.
        handshake_seconds = 2 * self._guard.limits.timeouts.header_seconds if self._ssl_context else None
        shutdown_seconds = _TLS_SHUTDOWN_SECONDS if self._ssl_context else None
        try:
            await self._guard.loop.connect_accepted_socket(
                lambda: connection,
                client,
                ssl=self._ssl_context,
                ssl_handshake_timeout=handshake_seconds,
                ssl_shutdown_timeout=shutdown_seconds,
            )
        except OSError as error:  # TLS errors are OSErrors.
            _log.debug("a connection did not start", error=str(error))

    def _finish_start(
        self, connection: GuardedConnection, client: socket.socket, task: asyncio.Task[None]
    ) -> None:
        self._starting.discard(task)
        if not connection.has_started:
            client.close()
            connection.forget()


class GuardedSite(web.BaseSite):
    """A site of aiohttp's runner whose connections a guard accepts."""

    __slots__ = ("_guard", "_listener")

    def __init__(
        self,
        guard: ConnectionGuard,
        runner: web.BaseRunner,
        listener: socket.socket,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        super().__init__(runner, ssl_context=ssl_context)
        self._guard = guard
        self._listener = listener

    @property
    def name(self) -> str:
        host, port = self._listener.getsockname()[:2]
        return f"{'https' if self._ssl_context else 'http'}://{host}:{port}"

    async def start(self) -> None:
        await super().start()
        server = self._runner.server
        if server is None:
            raise RuntimeError("the runner is not set up")
        self._server = ConnectionListener(self._guard, server, self._listener, self._ssl_context)
        self._guard.on_room.append(self._server.resume)
        await self._server.start_serving()


def open_listeners(host: str, port: int) -> Sequence[socket.socket]:
    """Open sockets that listen on every address of `host`.

    If port 0 lets the system choose, all of them have the same port. Raises OSError.
    """
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    addresses = dict.fromkeys((family, str(address[0])) for family, _, _, _, address in results)
    listeners: list[socket.socket] = []
    failure: OSError | None = None
    for family, address in addresses:
        try:
            listeners.append(socket.create_server((address, port), family=family, backlog=BACKLOG))
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                for listener in listeners:
                    listener.close()
                raise
            failure = error  # This machine may have no IPv6.
            continue
        port = port or int(listeners[0].getsockname()[1])
    if not listeners:
        raise failure or OSError(errno.EADDRNOTAVAIL, f"{host} has no address")
    return listeners
