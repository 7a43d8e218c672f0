"""Settings of OpenTelemetry profiles, a part of the collector's settings."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight.settings import setting
from sidelight_collector.settings.notes import NoteSettings


@dataclass(frozen=True, slots=True)
class OtlpSettings(NoteSettings):
    """Settings of the route for OpenTelemetry profiles.

    The collector's `Settings` include them.
    """

    otlp_ingest: bool = setting(
        default=True,
        help="accept OpenTelemetry profiles (OTLP over HTTP, /v1development/profiles)",
    )
