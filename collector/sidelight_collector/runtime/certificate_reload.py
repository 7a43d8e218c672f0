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
        self._pair = files.read(get_time())
        self._tls.set_certificate(*self._pair)
        super().__init__(
            "certificate",
            lambda: files.read(get_time()),
            self._use,
            lambda outcome: metrics.certificate_reloads.labels(outcome).inc(),
        )

    def _use(self, pair: tuple[str, str]) -> bool:
        has_changed = self._tls.set_certificate(*pair)
        self._pair = pair
        return has_changed

    @property
    def current_pair(self) -> tuple[str, str]:
        """The certificate and key in use, as PEM."""
        return self._pair

    @property
    def context(self) -> SSLContext:
        """The TLS context of the listening sockets."""
        return self._tls.context
