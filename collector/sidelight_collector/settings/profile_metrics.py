"""Settings of metrics from profiles, a part of the collector's settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from sidelight.settings import parse_nonnegative_int, setting
from sidelight_collector.settings.forwarding import ForwardingSettings


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class ProfileMetricsSettings(ForwardingSettings):
    """Settings of `/metrics/profiles`; the collector's `Settings` include them."""

    profile_metrics_file: Path | None = setting(
        None,
        "YAML file of rules for metrics from profiles, at /metrics/profiles; read again when it changes",
        parse=Path,
        metavar="FILE",
    )
    profile_metrics_max_series: int = setting(
        1000,
        "most series at /metrics/profiles; above it, the last rules of the file lose theirs",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
