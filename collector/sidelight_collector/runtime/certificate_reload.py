"""The collector's TLS certificate, loaded again when its files change."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime
from ssl import SSLContext

import structlog

from sidelight.server_tls import BadCertificate, CertificateFiles, TlsContext
from sidelight.waiting import wait_for_event
from sidelight_collector.metrics import Metrics

_log = structlog.get_logger()


def get_time() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


class CertificateReloader:
    """Loads a certificate from files.

    The constructor raises BadCertificate if it cannot be served. A later certificate that cannot be served is
    logged and counted, and the previous one stays in use.
    """

    def __init__(
        self, files: CertificateFiles, metrics: Metrics, clock: Callable[[], datetime] = get_time
    ) -> None:
        self._files = files
        self._metrics = metrics
        self._clock = clock
        self._tls = TlsContext(lambda expires_at: metrics.certificate_expiration.set(expires_at.timestamp()))
        self._problem = ""
        self._tls.set_certificate(*files.read(clock()))

    @property
    def context(self) -> SSLContext:
        """The TLS context of the listening sockets."""
        return self._tls.context

    def describe_problems(self) -> list[str]:
        """Describe why the files cannot be used now, if they cannot."""
        return [self._problem] if self._problem else []

    async def check(self) -> None:
        """Load the files if they have changed."""
        try:
            pair = await asyncio.to_thread(self._files.read, self._clock())
            if self._tls.set_certificate(*pair):
                self._metrics.certificate_reloads.labels("loaded").inc()
                _log.info("certificate loaded", file=str(self._files.certificate))
            self._problem = ""
        except BadCertificate as error:
            self._metrics.certificate_reloads.labels("failed").inc()
            if self._problem != error.message:
                _log.error("certificate not loaded", error=error.message, hint=error.hint)
            self._problem = error.message

    async def run(self, stop: asyncio.Event, interval_seconds: float) -> None:
        """Check the files at each interval until `stop` is set. A root task."""
        while not await wait_for_event(stop, interval_seconds):
            await self.check()
