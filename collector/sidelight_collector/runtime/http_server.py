"""Beginning to listen, and saying where."""

from __future__ import annotations

import errno
import logging
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.collector import Settings
from sidelight_model.errors import Reason, SidelightError

BACKLOG: Final = 1024
"""Connections that may wait to be accepted; the kernel allows fewer if net.core.somaxconn says so.

Thousands of sidecars come when they come, also while the loop is busy. A connection that finds no place is
tried again by its client's kernel a second later, then after two more, then four.
"""

_log = structlog.get_logger()


class PortInUse(SidelightError):
    """Another process serves on the address already."""

    reason = Reason.PORT_IN_USE


class ServerLog(logging.Handler):
    """What the HTTP server says of itself, as events.

    A request that it could not read never comes to the door: it is counted here, and answered by the server
    in plain text. Anybody can send such, so one is worth a line for those who look, and no more.
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
    """A logger of its own for one HTTP server, which no other part of the process shares."""
    logger = logging.Logger("sidelight.http")
    logger.addHandler(ServerLog(metrics))
    return logger


Sockets = Sequence[socket.socket]


def bind_sockets(address: tuple[str, int], copies: int = 1) -> Sequence[Sockets]:
    """Listening sockets for a server, or for each of several that connections are shared out to.

    A name may stand for several addresses; all are listened on, with the same port. Raises PortInUse.
    """
    host, port = address
    try:
        if copies > 1 and port:
            # Those who share a port are never told that others have it already.
            close_sockets(_open_sockets(_resolve(host, port), port, shared=False))
        made = [_open_sockets(_resolve(host, port), port, shared=copies > 1)]
        for _ in range(copies - 1):
            made.append(_open_sockets(_resolve(host, port), port_of(made[0]), shared=True))
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
    return made


def port_of(sockets: Sockets) -> int:
    """The port that they all listen on; 0 if there is none."""
    return int(sockets[0].getsockname()[1]) if sockets else 0


async def listen(server: web.AppRunner, sockets: Sockets) -> None:
    """Begin to accept connections."""
    for one in sockets:
        await web.SockSite(server, one).start()


def _resolve(host: str, port: int) -> list[tuple[socket.AddressFamily, str]]:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return list(dict.fromkeys((family, str(where[0])) for family, _, _, _, where in found))


def _open_sockets(
    addresses: Iterable[tuple[socket.AddressFamily, str]], port: int, *, shared: bool
) -> Sockets:
    made: list[socket.socket] = []
    try:
        for family, host in addresses:
            one = socket.socket(family, socket.SOCK_STREAM)
            made.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if shared:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind((host, port))
            one.listen(BACKLOG)
            port = port or port_of(made)
    except BaseException:
        close_sockets(made)
        raise
    return made


def close_sockets(sockets: Sockets) -> None:
    """Stop listening here; processes that were given the same go on."""
    for one in sockets:
        one.close()


def announce_address(settings: Settings, port: int) -> None:
    """Say where the collector is to be found, also in --port-file."""
    host = settings.address[0]
    _log.info("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}{settings.path_prefix}/")
    if settings.port_file is not None:
        write_atomically(settings.port_file, f"{port}\n")


def write_atomically(path: Path, text: str) -> None:
    """Write a file that nobody ever sees half of."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.rename(path)
