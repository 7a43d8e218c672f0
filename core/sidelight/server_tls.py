"""TLS of a server, whose certificate can change while it serves.

It reads certificates with the package cryptography, which the distributions of servers depend on.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Final

from sidelight_model.errors import Reason, SidelightError

_HINT: Final = "The certificate with its chain, and its private key without a password, must be PEM."


class BadCertificate(SidelightError):
    """A certificate and key that cannot be served."""

    reason = Reason.BAD_CERTIFICATE


class TlsContext:
    """A TLS context for the life of the process.

    Connections that start after `set_certificate` get the new certificate; open connections keep theirs.
    `on_change` receives the expiration of a new certificate. `run_on_loop` calls a change of the context
    where connections are accepted: a connection that starts during the change would get the new certificate
    and the old key.
    """

    def __init__(
        self,
        on_change: Callable[[datetime], None] = lambda _: None,
        run_on_loop: Callable[[Callable[[], None]], None] = lambda change: change(),
    ) -> None:
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._on_change = on_change
        self._run_on_loop = run_on_loop
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
        expires_at = check_pair(certificate, key)
        self._run_on_loop(partial(_load_pair, self.context, certificate, key))
        self._current_pair = (certificate, key)
        self._on_change(expires_at)
        return True


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """Files of a certificate and its key, which somebody else renews."""

    certificate: Path
    key: Path

    def read(self, now: datetime) -> tuple[str, str]:
        """Read the certificate and its key.

        Raises BadCertificate if a file cannot be read, the two do not fit, or the certificate has expired.
        """
        certificate, key = (_read_file(file) for file in (self.certificate, self.key))
        try:
            expires_at = check_pair(certificate, key)
        except BadCertificate as error:
            raise BadCertificate(
                f"{error.message} (certificate {self.certificate}, key {self.key})", hint=error.hint
            ) from error
        if expires_at <= now:
            raise BadCertificate(
                f"the certificate in {self.certificate} expired at {expires_at.isoformat()}",
                hint="Renew it, or correct the clock of this machine.",
            )
        return certificate, key


def check_pair(certificate: str, key: str) -> datetime:
    """Check that a certificate and a key can be served; return the expiration.

    Both are PEM. Raises BadCertificate.
    """
    # The demo installs no cryptography, and its collector serves without TLS.
    from cryptography import x509

    try:
        expires_at = x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc
    except ValueError as error:
        raise BadCertificate(f"the certificate cannot be read: {error}"[:300], hint=_HINT) from error
    try:
        # Another context: a certificate that does not fit its key would leave one with half of the pair.
        _load_pair(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), certificate, key)
    except (ValueError, OSError) as error:
        raise BadCertificate(
            "the key does not belong to the certificate"
            if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH"
            else f"the certificate or its key cannot be used: {error}"[:300],
            hint=_HINT,
        ) from error
    return expires_at


def _load_pair(context: ssl.SSLContext, certificate: str, key: str) -> None:
    # Python's ssl reads certificates only from files. This one is in memory: the key touches no disk.
    with os.fdopen(os.memfd_create("sidelight-certificate"), "w") as file:
        file.write(f"{key}\n{certificate}")
        file.flush()
        context.load_cert_chain(f"/proc/self/fd/{file.fileno()}", password=_refuse_password)


def _refuse_password() -> str:
    """Keep OpenSSL from asking for the password at the terminal."""
    raise ValueError("the key has a password")


def _read_file(file: Path) -> str:
    try:
        return file.read_text("utf-8")
    except OSError as error:
        raise BadCertificate(
            f"cannot read {file}: {error.strerror}", hint="Check the path, and that this user may read it."
        ) from error
    except UnicodeDecodeError as error:
        raise BadCertificate(f"{file} is not PEM", hint=_HINT) from error
