"""The TLS context of the webhook; its certificate can change while it serves."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from cryptography import x509

from sidelight_injector.metrics import Metrics
from sidelight_model.errors import Reason, SidelightError

_HINT: Final = (
    "It wants a certificate with its chain in tls.crt, and its private key in tls.key, both as PEM."
)


class BadCertificate(SidelightError):
    """A certificate and key that cannot be served."""

    reason = Reason.BAD_CERTIFICATE


class TlsContext:
    """A TLS context for the life of the process.

    Connections that start after `set_certificate` get the new certificate. `run_on_loop` calls a change of
    the context where connections are accepted: a connection that starts during the change would get the new
    certificate and the old key.
    """

    def __init__(
        self, metrics: Metrics, run_on_loop: Callable[[Callable[[], None]], None] | None = None
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._metrics = metrics
        self._run_on_loop = run_on_loop or (lambda change: change())
        self._current_pair: tuple[str, str] | None = None

    @property
    def has_certificate(self) -> bool:
        """Whether there is a certificate to serve with."""
        return self._current_pair is not None

    def set_certificate(self, certificate: str, key: str) -> bool:
        """Serve this certificate from now on; return whether it differs from the last.

        Certificate and key are PEM. Raises BadCertificate, and continues with the previous certificate.
        """
        if self._current_pair == (certificate, key):
            return False
        try:
            expires_at = x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc
            self._check_pair(certificate, key)
            self._run_on_loop(partial(self._load, self.context, certificate, key))
        except (ValueError, ssl.SSLError) as error:
            raise BadCertificate(f"the certificate cannot be served: {error}"[:300], hint=_HINT) from error
        except OSError as error:
            raise BadCertificate(
                f"the certificate cannot be loaded by way of {tempfile.gettempdir()}: {error.strerror}",
                hint="Mount a volume there that can be written.",
            ) from error
        self._current_pair = (certificate, key)
        self._metrics.certificate_expiration.set(expires_at.timestamp())
        self._metrics.certificate_reloads.inc()
        return True

    def _check_pair(self, certificate: str, key: str) -> None:
        """Load the pair into another context first.

        A certificate that does not fit its key would leave the context with half of the pair.
        """
        self._load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)

    @staticmethod
    def _load(context: ssl.SSLContext, certificate: str, key: str) -> None:
        # Python's ssl reads certificates only from files; only this user can read a TemporaryDirectory.
        with tempfile.TemporaryDirectory(prefix="sidelight-tls-") as folder:
            pair = Path(folder, "pair.pem")
            pair.write_text(f"{key}\n{certificate}")
            context.load_cert_chain(pair)
