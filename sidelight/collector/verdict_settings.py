"""What can be set about verdicts; part of a collector's settings."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight.collector.deploy_settings import DeploySettings
from sidelight.settings import setting, whole


@dataclass(frozen=True, slots=True)
class VerdictSettings(DeploySettings):
    """The settings of verdicts; `Settings` of the collector has them among its own."""

    max_verdict_rows: int = setting(
        5_000_000,
        "most rows of stacks that a comparison reads window by window; beyond them it reads hours",
        read=whole,
        metavar="COUNT",
    )
    max_verdict_tests: int = setting(
        10_000,
        "most functions, and most flame graph nodes, that a comparison tests for changes",
        read=whole,
        metavar="COUNT",
    )

    def check_verdicts(self) -> None:
        """Raises for settings that cannot be."""
        for name in ("max_verdict_rows", "max_verdict_tests"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
