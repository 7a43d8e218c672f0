"""Settings of comparisons and verdicts, a part of the collector's settings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sidelight.settings import BadSetting, parse_nonnegative_int, parse_positive_float, setting
from sidelight_collector.settings.deploys import DeploySettings, parse_http_url

STEP_PLACEHOLDER: Final = "{step}"


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False)
class ComparisonSettings(DeploySettings):
    """Settings of comparisons; the collector's `Settings` include them."""

    max_verdict_rows: int = setting(
        5_000_000,
        "most stack rows that a comparison reads as individual windows; above it, hourly sums",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    max_verdict_tests: int = setting(
        10_000,
        "most functions, and most flame graph nodes, that a comparison tests for changes",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )
    prometheus_url: str | None = setting(
        None,
        "Prometheus with request counts of services; comparisons are then per request",
        parse=parse_http_url,
        secret=True,
        metavar="URL",
    )
    prometheus_requests_query: str = setting(
        "",
        "PromQL query for a service's requests in {step}; a side's {service}, {version} and "
        "{namespace} are inserted; sum by (pod) gives counts per pod",
        metavar="PROMQL",
    )
    prometheus_token_file: Path | None = setting(
        None, "file with the bearer token for --prometheus-url", parse=Path
    )
    prometheus_timeout_seconds: float = setting(
        5.0, "timeout of Prometheus for one side of a comparison", parse=parse_positive_float
    )

    def check_comparison(self) -> None:
        """Raise ValueError or BadSetting for invalid settings."""
        for name in ("max_verdict_rows", "max_verdict_tests"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if (self.prometheus_url is None) is not (not self.prometheus_requests_query):
            raise BadSetting(
                "prometheus_url and prometheus_requests_query go together",
                hint="Give the server, and the query that tells the requests of a service in {step}.",
            )
        if self.prometheus_requests_query and STEP_PLACEHOLDER not in self.prometheus_requests_query:
            raise BadSetting(
                "prometheus_requests_query has no {step}",
                hint='It stands for the length of a block: sum(increase(http_requests_total{app="{service}", '
                'version="{version}"}[{step}])).',
            )
        if self.prometheus_token_file is not None and self.prometheus_url is None:
            raise BadSetting(
                "prometheus_token_file is given without prometheus_url",
                hint="Give --prometheus-url, and the file beside it.",
            )
