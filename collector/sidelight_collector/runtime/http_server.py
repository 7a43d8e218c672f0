"""Listening sockets of the HTTP server, its log, and the announced address."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Iterable, Sequence
from ssl import SSLContext

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from sidelight.connection_guard import ConnectionGuard
from sidelight.connection_listener import BACKLOG, accept_connections
from sidelight.file_output import replace_file
from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.collector import Settings
from sidelight_model.errors import Reason, SidelightError

_log = structlog.get_logger()


class PortInUse(SidelightError):
    """Another process already listens on the address."""

    reason = Reason.PORT_IN_USE


class ServerLog(logging.Handler):
    """A logging handler that turns log records of the HTTP server into events.

    The server answers a malformed request in plain text before any middleware sees it, so the handler
    counts it. Anyone can send such requests, so they are logged at debug level only.
    """

    def __init__(self, metrics: Metrics) -> None:
        super().__init__(logging.WARNING)
        self._metrics = metrics

    def emit(self, record: logging.LogRecord) -> None:
        cause = record.exc_info[1] if record.exc_info else None
        if isinstance(cause, HttpProcessingError):
            self._metrics.refusals.labels(Reason.BAD_REQUEST).inc()
            _log.debug("request not read", cause=str(cause)[:200])
        else:
            _log.error("server trouble", message=record.getMessage(), exc_info=cause)


def server_logger(metrics: Metrics) -> logging.Logger:
    """Create a logger for one HTTP server, not shared with the rest of the process."""
    logger = logging.Logger("sidelight.http")
    logger.addHandler(ServerLog(metrics))
    return logger


Sockets = Sequence[socket.socket]


def bind_sockets(address: tuple[str, int], copies: int = 1) -> Sequence[Sockets]:
    """Bind listening sockets for `copies` servers that share connections.

    `address` is a host and a port. If the host name has several addresses, the sockets listen on all of
    them, with the same port. Raises PortInUse, and SidelightError if listening fails otherwise.
    """
    host, port = address
    try:
        if copies > 1 and port:
            # A shared port never fails as already in use, so a socket that does not share it checks first.
            close_sockets(_open_sockets(_resolve(host, port), port, shared=False))
        copies_of_sockets = [_open_sockets(_resolve(host, port), port, shared=copies > 1)]
        for _ in range(copies - 1):
            copies_of_sockets.append(
                _open_sockets(_resolve(host, port), port_of(copies_of_sockets[0]), shared=True)
            )
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(
                f"{host}:{port} is in use", hint="Stop what serves there, or choose another --listen."
            ) from error
        raise SidelightError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            reason=Reason.BAD_SETTING,
            hint="--listen is an address of this machine and a port above 1023.",
        ) from error
    return copies_of_sockets


def port_of(sockets: Sockets) -> int:
    """Return the port that all these sockets listen on; 0 if there are none."""
    return int(sockets[0].getsockname()[1]) if sockets else 0


async def listen(
    server: web.AppRunner, sockets: Sockets, guard: ConnectionGuard, tls: SSLContext | None = None
) -> None:
    """Begin to accept connections, with TLS if there is a context."""
    await accept_connections(guard, server, sockets, tls)


def _resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    results = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(sockaddr[0])) for family, _, _, _, sockaddr in results))


def _open_sockets(
    addresses: Iterable[tuple[socket.AddressFamily, str]], port: int, *, shared: bool
) -> Sockets:
    listeners: list[socket.socket] = []
    try:
        for family, host in addresses:
            listener = socket.socket(family, socket.SOCK_STREAM)
            listeners.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind((host, port))
            listener.listen(BACKLOG)
            port = port or port_of(listeners)
    except BaseException:
        close_sockets(listeners)
        raise
    return listeners


def close_sockets(sockets: Sockets) -> None:
    """Close the sockets in this process; other processes keep theirs."""
    for listener in sockets:
        listener.close()


def announce_address(settings: Settings, port: int) -> None:
    """Log the URL of the collector, and write its port to --port-file."""
    host, scheme = settings.address[0], "https" if settings.certificate_files else "http"
    place = f"[{host}]" if ":" in host else host
    _log.info("listening", url=f"{scheme}://{place}:{port}{settings.path_prefix}/")
    if settings.port_file is not None:
        replace_file(settings.port_file, f"{port}\n".encode())
