"""Beginning to listen, and saying where."""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path
from typing import Final

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from sidelight.collector.metrics import Metrics
from sidelight.collector.settings import Settings
from sidelight.stacks.errors import Reason, SidelightError

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


async def listen(server: web.AppRunner, address: tuple[str, int]) -> int:
    """Begin to accept connections; returns the port. Raises PortInUse."""
    host, port = address
    try:
        await web.TCPSite(server, host, port, backlog=BACKLOG).start()
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
    return int(server.addresses[0][1])


def announce(settings: Settings, port: int) -> None:
    """Say where the collector is to be found, also in --port-file."""
    host = settings.address[0]
    _log.info("listening", url=f"http://{f'[{host}]' if ':' in host else host}:{port}{settings.path_prefix}/")
    if settings.port_file is not None:
        write_whole(settings.port_file, f"{port}\n")


def write_whole(path: Path, text: str) -> None:
    """Write a file that nobody ever sees half of."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text)
    beside.rename(path)
