"""Settings of the address that a collector serves on: TLS, tokens and users."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sidelight.request_origin import is_loopback
from sidelight.server_tls import CertificateFiles
from sidelight.settings import BadSetting, parse_positive_float, setting
from sidelight_collector.settings.workers import WorkerSettings


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class ListenerSettings(WorkerSettings):
    """Settings of TLS and of access without a token.

    The collector's `Settings` include them.
    """

    tls_cert_file: Path | None = setting(
        None,
        "PEM file of the certificate, with its chain, to serve with TLS; read again when it changes",
        parse=Path,
    )
    tls_key_file: Path | None = setting(
        None, "PEM file of the private key of --tls-cert-file, without a password", parse=Path
    )
    tls_check_interval_seconds: float = setting(
        10.0, "time between checks of the two files for changes", parse=parse_positive_float
    )
    auth_check_interval_seconds: float = setting(
        10.0,
        "time between checks of the files of tokens and rules for changes",
        parse=parse_positive_float,
    )
    capture_groups: tuple[str, ...] = setting(
        (),
        "group of the proxy whose users may start captures; may be repeated; without it, all its users may",
        metavar="GROUP",
    )
    allow_anonymous_writes: bool = setting(
        default=False, help="accept windows without a token, from anybody who can reach this address"
    )
    allow_anonymous_reads: bool = setting(
        default=False, help="answer queries without a token, to anybody who can reach this address"
    )

    @property
    def certificate_files(self) -> CertificateFiles | None:
        """The files to serve with TLS, if any."""
        if self.tls_cert_file is None or self.tls_key_file is None:
            return None
        return CertificateFiles(self.tls_cert_file, self.tls_key_file)

    def check_tls(self) -> None:
        """Raise BadSetting for half of a certificate."""
        if (self.tls_cert_file is None) is not (self.tls_key_file is None):
            raise BadSetting(
                "tls_cert_file and tls_key_file go together", hint="Give both to serve with TLS, or neither."
            )

    def check_access(self, host: str, *, has_writers: bool, has_readers: bool) -> None:
        """Raise BadSetting if anybody could write or read, and no option says so.

        `has_writers` and `has_readers` say whether something else decides who may write and read.
        """
        if not (has_writers or self.allow_anonymous_writes or is_loopback(host)):
            raise BadSetting(
                f"anybody who reaches {host} could write profiles",
                hint="Give --write-tokens-file or --kubernetes, or listen on 127.0.0.1, or "
                "--allow-anonymous-writes.",
            )
        if not (has_readers or self.allow_anonymous_reads or is_loopback(host)):
            raise BadSetting(
                f"anybody who reaches {host} could read profiles",
                hint="Give --read-tokens-file or --read-proxy-header, or listen on 127.0.0.1, or "
                "--allow-anonymous-reads.",
            )
        if has_readers and self.allow_anonymous_reads:
            raise BadSetting(
                "allow_anonymous_reads is given together with what decides who may read",
                hint="Leave out --allow-anonymous-reads, or --read-tokens-file and --read-proxy-header.",
            )
