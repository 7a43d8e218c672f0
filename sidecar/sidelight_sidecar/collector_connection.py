"""Settings of the sidecar's connection to the collector."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sidelight.client_tls import CaBundle
from sidelight.connection_settings import ConnectionSettings
from sidelight.settings import BadSetting, setting


def parse_url(text: str) -> str:
    """Parse the URL of a collector, without a slash at the end."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{text!r} is not an http:// or https:// URL")
    if parts.username or parts.password:
        raise ValueError("a URL must not hold a password: use --token-file")
    return text.rstrip("/")


@dataclass(frozen=True, slots=True, kw_only=True, init=False, repr=False, eq=False)
class CollectorConnectionSettings(ConnectionSettings):
    """Address, token and trusted authorities; `SamplingSettings` include them."""

    collector: str = setting(
        "", "URL of the collector to send windows to", parse=parse_url, required=True, metavar="URL"
    )
    token_file: Path | None = setting(
        None, "file with the bearer token for the collector, read again for every request", parse=Path
    )
    ca_file: Path | None = setting(
        None,
        "PEM file of the authorities to trust for an https:// collector, read again for every request; "
        "without it, the system's",
        parse=Path,
    )
    ca_certificates: str = setting(
        "", "the same certificates as PEM text, instead of a file", secret=True, metavar="PEM"
    )

    def check_connection(self) -> None:
        """Raise BadSetting for settings that contradict each other."""
        names = [name for name in ("ca_file", "ca_certificates") if getattr(self, name)]
        if len(names) > 1:
            raise BadSetting(
                "--ca-file and --ca-certificates cannot go together", hint="Put all certificates in one."
            )
        if names and not self.uses_tls:
            raise BadSetting(
                f"--{names[0].replace('_', '-')} is given, and --collector is not an https:// URL",
                hint="Tokens would cross the network in clear text: use https://, or leave the option out.",
            )

    def open_ca_bundle(self) -> CaBundle:
        """Return the trusted authorities.

        Raises BadSetting if they are needed and cannot be read.
        """
        bundle = CaBundle(self.ca_file, self.ca_certificates)
        if self.uses_tls:
            bundle.get_context()
        return bundle

    @property
    def uses_tls(self) -> bool:
        """Whether the connection is encrypted."""
        return self.collector.startswith("https://")
