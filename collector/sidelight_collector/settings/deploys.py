"""Settings of deploy evaluations and alerts, a part of the collector's settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from sidelight.settings import BadSetting, parse_nonnegative_int, parse_positive_float, parse_seconds, setting
from sidelight_collector.settings.profile_metrics import ProfileMetricsSettings
from sidelight_model.gates import BadCondition, parse_condition

MAX_RETENTION_DAYS: Final = 36_525
DAY_SECONDS: Final = 86_400.0
MAX_LAST_ANALYSIS_DAYS: Final = 14
MAX_VERSIONS_PER_DAY: Final = 20
MAX_ALERTMANAGERS: Final = 10
MAX_MIN_EFFECT_PERCENT: Final = 1000.0
MAX_RESEND_SECONDS: Final = 3600.0


def check_gate_condition(text: str) -> str:
    """Check a condition such as cpu>+5% and return it unchanged."""
    try:
        parse_condition(text)
    except BadCondition as error:
        raise ValueError(f"{error.message}; {error.hint}") from None
    return text


def parse_http_url(text: str) -> str:
    """Check the URL of a server. Errors leave it out, because it may have a password."""
    try:
        parts = urlsplit(text)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fine = False
    if not fine or parts.fragment or not text.isascii() or not text.isprintable() or " " in text:
        raise ValueError("this is no URL such as https://HOST/PATH")
    return text


def parse_plain_url(text: str) -> str:
    """Check a URL that others see, which must not have a password."""
    if "@" in urlsplit(parse_http_url(text)).netloc:
        raise ValueError("this URL is shown to others: it must not have a user or a password")
    return text


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class DeploySettings(ProfileMetricsSettings):
    """Settings of deploys; the collector's `Settings` include them."""

    deploys: bool = setting(
        default=True, help="compare each new version of a service with the previous version"
    )
    deploy_fail_on: tuple[str, ...] = setting(
        ("cpu>+5%",),
        "condition under which a deploy counts as regressed; may be repeated",
        parse=check_gate_condition,
        metavar="CONDITION",
    )
    deploy_min_effect_percent: float = setting(
        5.0,
        "smallest change to detect; an analysis reports if it cannot detect it",
        parse=parse_positive_float,
    )
    deploy_first_analysis_seconds: float = setting(
        600.0,
        "age of a new version at its first analysis; the age doubles for each next analysis",
        parse=parse_positive_float,
    )
    deploy_last_analysis_seconds: float = setting(
        DAY_SECONDS, "age of a new version at its last analysis, at most 14 days", parse=parse_positive_float
    )
    deploy_warmup_seconds: float = setting(
        60.0, "start of a new version to exclude: imports and first requests", parse=parse_seconds
    )
    deploy_absent_seconds: float = setting(
        900.0,
        "time without data after which a version is absent; longer than any sidecar's interval",
        parse=parse_positive_float,
    )
    deploy_max_detections_per_day: int = setting(
        4,
        "how often per day a version that comes and goes counts as a deploy",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    deploy_max_versions_per_day: int = setting(
        10,
        "most new versions of a service per day, at most 20, unless they are rollouts of a watched cluster",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    deploy_check_interval_seconds: float = setting(
        60.0, "time between checks for new versions", parse=parse_positive_float
    )
    deploy_max_analyses_per_minute: int = setting(
        12, "most analyses of deploys per minute", parse=parse_nonnegative_int, metavar="COUNT"
    )
    deploy_cpu_budget_percent: float = setting(
        20.0,
        "most CPU time of analyses, in percent of one core, averaged over a minute",
        parse=parse_positive_float,
    )
    deploy_retention_days: float = setting(90.0, "days to keep deploys", parse=parse_positive_float)
    deploy_webhook_url: str = setting(
        "",
        "URL that gets a JSON message when a deploy regresses and when that ends",
        parse=parse_http_url,
        secret=True,
        metavar="URL",
    )
    deploy_webhook_secret_file: Path | None = setting(
        None, "file with the secret that signs messages to --deploy-webhook-url", parse=Path
    )
    alertmanager_url: tuple[str, ...] = setting(
        (),
        "Alertmanager that gets alerts of deploys; may be repeated for the members of a cluster",
        parse=parse_http_url,
        secret=True,
        metavar="URL",
    )
    alertmanager_resend_seconds: float = setting(
        60.0,
        "time between repeats of an alert to Alertmanager; the alert ends after four times this",
        parse=parse_positive_float,
    )
    deploy_alert_retry_seconds: float = setting(
        21_600.0,
        "how long to retry an unreachable receiver, at growing intervals",
        parse=parse_positive_float,
    )
    public_url: str = setting(
        "",
        "URL of the UI for users, with the path prefix; alerts link to it",
        parse=parse_plain_url,
        metavar="URL",
    )

    @property
    def disabled_parts(self) -> tuple[str, ...]:
        """The parts of the API that are off, by the names that the pages have for them."""
        return () if self.deploys else ("deploys",)

    def check_deploys(self) -> None:
        """Raise ValueError or BadSetting for invalid settings or combinations."""
        if self.deploy_max_analyses_per_minute < 1:
            raise ValueError("deploy_max_analyses_per_minute must be at least 1")
        if self.deploy_max_detections_per_day < 1:
            raise ValueError("deploy_max_detections_per_day must be at least 1")
        if not 1 <= self.deploy_max_versions_per_day <= MAX_VERSIONS_PER_DAY:
            raise ValueError(f"deploy_max_versions_per_day must be from 1 to {MAX_VERSIONS_PER_DAY}")
        if self.deploy_retention_days > MAX_RETENTION_DAYS:
            raise ValueError(f"deploy_retention_days must be at most {MAX_RETENTION_DAYS}")
        if self.deploy_last_analysis_seconds > MAX_LAST_ANALYSIS_DAYS * DAY_SECONDS:
            raise ValueError(
                f"deploy_last_analysis_seconds must be at most {MAX_LAST_ANALYSIS_DAYS * DAY_SECONDS:g}"
            )
        if self.deploy_min_effect_percent > MAX_MIN_EFFECT_PERCENT:
            raise ValueError(f"deploy_min_effect_percent must be at most {MAX_MIN_EFFECT_PERCENT:g}")
        if self.deploy_cpu_budget_percent > 100:
            raise ValueError("deploy_cpu_budget_percent must be at most 100")
        if self.deploy_first_analysis_seconds > self.deploy_last_analysis_seconds:
            raise BadSetting(
                "deploy_first_analysis_seconds is above deploy_last_analysis_seconds",
                hint="Lower the first or raise the second; equal, there is one look.",
            )
        if self.alertmanager_resend_seconds > MAX_RESEND_SECONDS:
            raise ValueError(f"alertmanager_resend_seconds must be at most {MAX_RESEND_SECONDS:g}")
        if len(self.alertmanager_url) > MAX_ALERTMANAGERS:
            raise ValueError(f"alertmanager_url must be given at most {MAX_ALERTMANAGERS} times")
        if self.deploy_webhook_secret_file is not None and not self.deploy_webhook_url:
            raise BadSetting(
                "deploy_webhook_secret_file is given without deploy_webhook_url",
                hint="Give the URL too, or leave out the file.",
            )
        if not self.deploys and (self.deploy_webhook_url or self.alertmanager_url):
            raise BadSetting(
                "who is told of deploys is given with --no-deploys",
                hint="Leave out --no-deploys, or --deploy-webhook-url and --alertmanager-url.",
            )
        if self.deploys and not self.deploy_fail_on:
            raise BadSetting("deploy_fail_on is empty", hint="Give a condition, or --no-deploys.")
