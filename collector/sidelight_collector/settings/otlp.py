"""Settings of OpenTelemetry profiles, a part of the collector's settings."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from sidelight.request_origin import is_loopback
from sidelight.settings import BadSetting, parse_address, parse_byte_size, setting
from sidelight_collector.settings.notes import NoteSettings


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class OtlpSettings(NoteSettings):
    """Settings of the route for OpenTelemetry profiles.

    The collector's `Settings` include them.
    """

    otlp_ingest: bool = setting(
        default=True,
        help="accept OpenTelemetry profiles (OTLP over HTTP, /v1development/profiles)",
    )
    otlp_grpc_listen: str | None = setting(
        None,
        "address to accept OpenTelemetry profiles over gRPC on, such as 127.0.0.1:4317; needs the extra grpc",
        metavar="HOST:PORT",
    )
    otlp_grpc_max_message_bytes: int = setting(
        4 << 20,
        "largest request over gRPC, decompressed; --max-body-bytes limits it too",
        parse=parse_byte_size,
    )

    def check_otlp_grpc(self, *, is_guarded: bool) -> None:
        """Raise BadSetting for settings of gRPC that do not work.

        `is_guarded` says whether something decides who may write.
        """
        if self.otlp_grpc_listen is None:
            return
        if self.otlp_grpc_max_message_bytes < 1:
            raise ValueError("otlp_grpc_max_message_bytes must be at least 1")
        host, _ = parse_address(self.otlp_grpc_listen)
        if not is_guarded and not is_loopback(host):
            raise BadSetting(
                f"anybody who reaches {host} could write profiles over gRPC",
                hint="Give --write-tokens-file or --kubernetes, or listen on 127.0.0.1, or "
                "--allow-anonymous-writes.",
            )
        if find_spec("grpc") is None:
            raise BadSetting(
                "otlp_grpc_listen needs a package that is not installed",
                hint="Install it: pip install 'sidelight-collector[grpc]'.",
            )
