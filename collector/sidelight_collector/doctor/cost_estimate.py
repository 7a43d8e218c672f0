"""The storage that services use, and an estimate of its monthly costs.

The bytes of a table are split among its services in proportion to their rows. The current rate of a service
is its daily average over the last seven days before the newest day, which is usually incomplete. If there
is no earlier day, the newest day is the rate.

- Storage: the cost of a store that has filled up, which is bytes of a day x stored days x price. It adds up
  the days with individual windows (all tables), with hours and with days.
- Requests: a collector writes a segment of three objects at most every `flush_seconds`, and not more
  segments than windows arrive. The estimate leaves out writes of compaction, which are a hundredth of that,
  and reads, which cost a twelfth or less per request. A service's share is its share of windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sidelight_collector.doctor.layout import PartEntries
from sidelight_collector.doctor.object_reader import TableContents
from sidelight_collector.storage.lifecycle.retention import RESOLUTION_PARTS, Resolution
from sidelight_collector.storage.tables import SEGMENT_PARTS

RATE_DAYS: Final = 7
MONTH_DAYS: Final = 365.25 / 12
BYTES_PER_GB: Final = 1 << 30
DAY_SECONDS: Final = 86_400.0
UNREAD_SERVICE: Final = "(not read)"
"""Stands for the services of tables that were not read."""


@dataclass(frozen=True, slots=True)
class StorageUsage:
    """Windows and stored bytes of a service.

    `total_bytes` counts all tables, `hour_bytes` those that hours need, and `day_bytes` those that days
    need.
    """

    windows: float = 0.0
    total_bytes: float = 0.0
    hour_bytes: float = 0.0
    day_bytes: float = 0.0

    def add(self, other: StorageUsage, factor: float = 1.0) -> StorageUsage:
        """Return the sum of this usage and `factor` times `other`."""
        return StorageUsage(
            self.windows + other.windows * factor,
            self.total_bytes + other.total_bytes * factor,
            self.hour_bytes + other.hour_bytes * factor,
            self.day_bytes + other.day_bytes * factor,
        )


def add_usage(
    usage: dict[str, StorageUsage],
    stored: PartEntries,
    contents: TableContents | None,
    services: Sequence[str],
    windows: int,
) -> None:
    """Split the usage of a segment or block among its services.

    The split is even if its tables were not read.
    """
    rows = contents.rows if contents else {}
    shares = (
        contents.windows_by_service
        if contents and contents.windows_by_service
        else dict.fromkeys(services or [UNREAD_SERVICE], 1)
    )
    for part, entry in stored.items():
        of_hours = entry.size if part in RESOLUTION_PARTS[Resolution.HOUR] else 0
        of_days = entry.size if part in RESOLUTION_PARTS[Resolution.DAY] else 0
        _distribute(usage, rows.get(part) or shares, StorageUsage(0, entry.size, of_hours, of_days))
    _distribute(
        usage,
        shares,
        StorageUsage(
            sum(contents.windows_by_service.values()) if contents and contents.windows_by_service else windows
        ),
    )


def _distribute(
    usage: dict[str, StorageUsage], shares: Mapping[str, int], usage_to_share: StorageUsage
) -> None:
    total_share = sum(shares.values())
    for service, share in shares.items():
        usage[service] = usage.get(service, StorageUsage()).add(usage_to_share, share / total_share)


@dataclass(frozen=True, slots=True)
class CostParameters:
    """Prices, and the collector settings that costs depend on."""

    per_gb_month: float
    per_1000_requests: float
    raw_days: int
    hour_days: int
    day_days: int
    flush_seconds: float
    collectors: int


@dataclass(frozen=True, slots=True)
class ServiceCosts:
    """Storage and monthly costs of a service.

    `stored_now_cost` is the monthly cost of what is stored now.
    """

    service: str
    windows: int
    total_bytes: int
    windows_per_day: float
    bytes_per_day: float
    stored_now_cost: float
    storage_cost: float
    requests_cost: float


@dataclass(slots=True)
class CostAccount:
    """Adds up the usage of days, which are added in order."""

    _totals: dict[str, StorageUsage] = field(default_factory=dict)
    _recent_days: list[Mapping[str, StorageUsage]] = field(default_factory=list)

    def add_day(self, usage: Mapping[str, StorageUsage]) -> None:
        """Add the usage of a day, which is later than all earlier ones."""
        if not usage:
            return
        for service, used in usage.items():
            self._totals[service] = self._totals.get(service, StorageUsage()).add(used)
        self._recent_days = [*self._recent_days, usage][-RATE_DAYS - 1 :]

    def estimate_costs(self, prices: CostParameters) -> list[ServiceCosts]:
        """Estimate the costs of all services, in descending order of size."""
        recent = self._recent_days[:-1] or self._recent_days
        rates = dict.fromkeys(self._totals, StorageUsage())
        for day in recent:
            for service, used in day.items():
                rates[service] = rates[service].add(used, 1 / len(recent))
        total_windows = sum(rate.windows for rate in rates.values())
        max_segments = prices.collectors * DAY_SECONDS / prices.flush_seconds
        requests = (
            len(SEGMENT_PARTS)
            * min(total_windows, max_segments)
            * MONTH_DAYS
            / 1000
            * prices.per_1000_requests
        )
        costs = [
            ServiceCosts(
                service=service,
                windows=round(used.windows),
                total_bytes=round(used.total_bytes),
                windows_per_day=rates[service].windows,
                bytes_per_day=rates[service].total_bytes,
                stored_now_cost=used.total_bytes / BYTES_PER_GB * prices.per_gb_month,
                storage_cost=_compute_filled_bytes(rates[service], prices)
                / BYTES_PER_GB
                * prices.per_gb_month,
                requests_cost=requests * rates[service].windows / total_windows if total_windows else 0.0,
            )
            for service, used in self._totals.items()
        ]
        return sorted(costs, key=lambda item: (-item.total_bytes, item.service))


def _compute_filled_bytes(rate: StorageUsage, prices: CostParameters) -> float:
    """Compute the bytes of a store that has filled up at this rate."""
    return (
        rate.total_bytes * prices.raw_days
        + rate.hour_bytes * (prices.hour_days - prices.raw_days)
        + rate.day_bytes * (prices.day_days - prices.hour_days)
    )
