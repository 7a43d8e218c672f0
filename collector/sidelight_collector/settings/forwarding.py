"""Settings of forwarding, a part of the collector's settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sidelight.settings import parse_byte_size, setting
from sidelight_collector.settings.otlp import OtlpSettings


def parse_forward_url(text: str) -> str:
    """Check the URL of a server. Raises ValueError."""
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine or parts.query or parts.fragment or "@" in parts.netloc or not text.isascii():
        raise ValueError("this is no URL such as https://HOST/PATH without a password")
    return text


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class ForwardingSettings(OtlpSettings):
    """Settings of forwarding; the collector's `Settings` include them."""

    forward_url: str | None = setting(
        None,
        "also send stored windows to this server: of OTLP if its path ends with /v1development/profiles, "
        "otherwise of Pyroscope's protocol",
        parse=parse_forward_url,
        metavar="URL",
    )
    forward_token_file: Path | None = setting(
        None, "file with the bearer token for the server of --forward-url", parse=Path, metavar="FILE"
    )
    forward_queue_bytes: int = setting(
        64 << 20,
        "memory of windows that wait to be forwarded; others are dropped and counted",
        parse=parse_byte_size,
    )
