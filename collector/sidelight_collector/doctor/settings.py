"""Settings of `sidelight doctor`."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight.settings import BadSetting, parse_nonnegative_int, parse_positive_float, parse_seconds, setting
from sidelight_collector.settings.collector import MIN_ORPHAN_AGE_SECONDS


@dataclass(frozen=True, slots=True)
class DoctorSettings:
    """The options of `sidelight doctor`."""

    store: str = setting(
        "", "store to check: a directory, or s3://bucket/prefix", required=True, metavar="STORE"
    )
    s3_endpoint: str | None = setting(None, "URL of an S3 service other than AWS", metavar="URL")
    store_timeout_seconds: float = setting(
        20.0, "timeout of one request to S3 (up to four attempts)", parse=parse_positive_float
    )
    json: bool = setting(default=False, help="write one JSON document")
    quick: bool = setting(default=False, help="compare only sizes; do not open tables")
    probe: bool = setting(default=False, help="write and delete an object to test conditional writes")
    orphan_age_seconds: float = setting(
        86_400.0,
        "age at which an object counts as orphaned, at least 600; not below the collectors' setting",
        parse=parse_positive_float,
    )
    max_findings: int = setting(
        1000,
        "most findings to list per kind; the others are counted",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )

    repair: bool = setting(default=False, help="repair what can be repaired safely")
    forget_lost: bool = setting(
        default=False, help="with --repair: remove references to data that blocks have lost for good"
    )
    offline: bool = setting(
        default=False,
        help="with --repair: no collector is running; required if conditional writes do not work",
    )

    price_per_gb_month: float = setting(0.023, "price of storing 2^30 bytes for a month", parse=parse_seconds)
    price_per_1000_requests: float = setting(0.005, "price of 1,000 PUT requests", parse=parse_seconds)
    retention_raw_days: int = setting(
        14, "the collectors' --retention-raw-days, for the price", parse=parse_nonnegative_int
    )
    retention_hour_days: int = setting(
        90, "the collectors' --retention-hour-days, for the price", parse=parse_nonnegative_int
    )
    retention_day_days: int = setting(
        400, "the collectors' --retention-day-days, for the price", parse=parse_nonnegative_int
    )
    flush_seconds: float = setting(
        1.0, "the collectors' --flush-seconds, for the price", parse=parse_positive_float
    )
    collectors: int = setting(
        1,
        "number of collectors that ingest windows, for the price",
        parse=parse_nonnegative_int,
        metavar="COUNT",
    )

    def __post_init__(self) -> None:
        if self.orphan_age_seconds < MIN_ORPHAN_AGE_SECONDS:
            raise BadSetting(
                f"orphan_age_seconds is below {MIN_ORPHAN_AGE_SECONDS:g}",
                hint="A block that a slow collector is about to commit would be taken for a stray.",
            )
        for name in ("max_findings", "collectors"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1")
        if not self.retention_raw_days <= self.retention_hour_days <= self.retention_day_days:
            raise ValueError("retention_raw_days, retention_hour_days and retention_day_days must ascend")
        if self.repair and self.quick:
            raise BadSetting(
                "--repair and --quick do not go together", hint="What is mended must be read first."
            )
        for name in ("forget_lost", "offline"):
            if getattr(self, name) and not self.repair:
                raise BadSetting(
                    f"--{name.replace('_', '-')} does nothing without --repair", hint="Give --repair too."
                )
