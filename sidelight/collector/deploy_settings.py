"""What can be set about deploys and who is told of them; part of a collector's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sidelight.settings import BadSetting, positive, seconds, setting, whole

MOST_DAYS: Final = 36_525
DAY_SECONDS: Final = 86_400.0
MOST_LAST_DAYS: Final = 14
MOST_RECEIVERS: Final = 10
LEAST_SECRET: Final = 16


@dataclass(frozen=True, slots=True)
class DeploySettings:
    """The settings of deploys; `Settings` of the collector has them among its own."""

    deploys: bool = setting(default=True, help="compare each new version of a service with the one before")
    deploy_fail_on: tuple[str, ...] = setting(
        ("cpu>+5%",),
        "a deploy for which this holds is regressed; may be repeated",
        metavar="CONDITION",
    )
    deploy_detect_percent: float = setting(
        5.0, "the smallest change one wants to see; a look that could not see it says so", read=positive
    )
    deploy_first_look_seconds: float = setting(
        600.0,
        "a new version is compared when it has been seen for so long, then each time that doubled",
        read=positive,
    )
    deploy_last_look_seconds: float = setting(
        DAY_SECONDS, "and for the last time after so long, at most 14 days", read=positive
    )
    deploy_warmup_seconds: float = setting(
        60.0, "the beginning of a version that is left out: imports and first requests", read=seconds
    )
    deploy_gone_seconds: float = setting(
        900.0,
        "a version not seen for so long while its service is was rolled back; above any sidecar's interval",
        read=positive,
    )
    deploy_interval_seconds: float = setting(60.0, "time between looks for new versions", read=positive)
    deploy_looks_per_minute: int = setting(
        12, "comparisons of deploys that one minute may have", read=whole, metavar="COUNT"
    )
    deploy_cpu_percent: float = setting(
        20.0, "of one core that they may take, on average of a minute", read=positive
    )
    deploy_retention_days: float = setting(90.0, "days deploys are kept", read=positive)

    def check_deploys(self) -> None:
        """Raises ValueError or BadSetting for what does not go together."""
        if self.deploy_looks_per_minute < 1:
            raise ValueError("deploy_looks_per_minute must be at least 1")
        if self.deploy_retention_days > MOST_DAYS:
            raise ValueError(f"deploy_retention_days must be at most {MOST_DAYS}")
        if self.deploy_last_look_seconds > MOST_LAST_DAYS * DAY_SECONDS:
            raise ValueError(f"deploy_last_look_seconds must be at most {MOST_LAST_DAYS * DAY_SECONDS:g}")
        if self.deploy_cpu_percent > 100:
            raise ValueError("deploy_cpu_percent must be at most 100")
        if self.deploy_first_look_seconds > self.deploy_last_look_seconds:
            raise BadSetting(
                "deploy_first_look_seconds is above deploy_last_look_seconds",
                hint="Lower the first or raise the second; equal, there is one look.",
            )
        if self.deploys and not self.deploy_fail_on:
            raise BadSetting("deploy_fail_on is empty", hint="Give a condition, or --no-deploys.")
