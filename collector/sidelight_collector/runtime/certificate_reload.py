"""The collector's TLS certificate, loaded again when its files change."""

from __future__ import annotations

from datetime import UTC, datetime
from ssl import SSLContext

from sidelight.server_tls import CertificateFiles, TlsContext
from sidelight_collector.metrics import Metrics
from sidelight_collector.runtime.file_reload import FileReloader


def get_time() -> datetime:
    """Return the present time."""
    return datetime.now(UTC)


class CertificateReloader(FileReloader[tuple[str, str]]):
    """Loads a certificate from files.

    The constructor raises BadCertificate if it cannot be served. A later certificate that cannot be served is
    logged and counted, and the previous one stays in use.
    """

    def __init__(self, files: CertificateFiles, metrics: Metrics) -> None:
        self._tls = TlsContext(lambda expires_at: metrics.certificate_expiration.set(expires_at.timestamp()))
        self._tls.set_certificate(*files.read(get_time()))
        super().__init__(
            "certificate",
            lambda: files.read(get_time()),
            lambda pair: self._tls.set_certificate(*pair),
            lambda outcome: metrics.certificate_reloads.labels(outcome).inc(),
        )

    @property
    def context(self) -> SSLContext:
        """The TLS context of the listening sockets."""
        return self._tls.context
