"""TLS of a client: the authorities that it trusts, and its errors."""

from __future__ import annotations

import re
import ssl
from pathlib import Path
from typing import Final, NamedTuple

from sidelight.settings import BadSetting
from sidelight_model.errors import Reason

MAX_EXPORT_BYTES: Final = 64 << 10
"""The most certificates to hand on as text: the kernel takes a variable of 128 KiB at most."""
_CERTIFICATE: Final = re.compile(r"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----\n?")
_NO_TLS_REASONS: Final = ("WRONG_VERSION_NUMBER", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE")


class CaBundle:
    """The certificate authorities that a client trusts.

    They are in a PEM file or in `text`; without both, they are those of the system.
    """

    def __init__(self, file: Path | None = None, text: str = "") -> None:
        self._file = file
        self._text = text
        self._context: tuple[str, ssl.SSLContext] | None = None

    def get_context(self) -> ssl.SSLContext:
        """Return a TLS context with the present content of the file.

        It is the same context until the content changes. Raises BadSetting if the file cannot be used.
        """
        text = self._text if self._file is None else _read_certificates(self._file)
        if self._context is None or self._context[0] != text:
            try:
                self._context = text, ssl.create_default_context(cadata=text or None)
            except (ValueError, ssl.SSLError) as error:
                place = self._file or "--ca-certificates"
                raise BadSetting(
                    f"there are no CA certificates in {place}: {error}"[:300],
                    hint="It must hold the certificates of the authorities as PEM.",
                ) from error
        return self._context[1]

    def export_certificates(self) -> str:
        """Return the certificates of the file as PEM text, and nothing else of the file.

        Raises BadSetting if the file cannot be used, or has more than MAX_EXPORT_BYTES of certificates.
        """
        self.get_context()
        text = "".join(_CERTIFICATE.findall(self._context[0] if self._context else ""))
        if len(text) > MAX_EXPORT_BYTES:
            raise BadSetting(
                f"the CA certificates in {self._file} have {len(text)} bytes, of at most {MAX_EXPORT_BYTES}",
                hint="Name a file with the collector's own authority alone.",
            )
        return text


class TlsProblem(NamedTuple):
    """Why there is no TLS connection to a server, and what to do."""

    reason: Reason
    message: str
    hint: str


def explain_tls_error(error: BaseException | None) -> TlsProblem | None:
    """Return the TLS problem that caused an error of a request, if one did.

    The hint is about options of clients of the collector.
    """
    while error is not None:
        if isinstance(error, ssl.SSLCertVerificationError):
            return TlsProblem(
                Reason.UNTRUSTED_CERTIFICATE,
                f"its certificate is not trusted: {getattr(error, 'verify_message', error)}",
                "Name the PEM file of its certificate authority in --ca-file, and use a host name of the "
                "certificate in --collector.",
            )
        if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS_REASONS:
            return TlsProblem(
                Reason.COLLECTOR_UNREACHABLE,
                "it does not answer with TLS",
                "Use an http:// URL in --collector, or start the collector with --tls-cert-file.",
            )
        error = error.__cause__ or error.__context__
    return None


def _read_certificates(file: Path) -> str:
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSetting(
            f"cannot read the CA certificates in {file}: {error}", hint="Check --ca-file."
        ) from error
    if not text.strip():
        raise BadSetting(f"there are no CA certificates in {file}", hint="Check --ca-file.")
    return text
