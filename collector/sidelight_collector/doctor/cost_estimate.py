"""What a service takes of the store, and what that costs in a month.

The bytes of a table are shared out to its services by their rows. A service's present rate is what it stored
on the days before the newest (which is mostly not over), seven of them at most, by the day; on the newest if
there is no other.

- Storage, once the store holds as many days as it keeps: bytes of a day x days kept x price, for what is
  kept while windows are (all), while hours are, and while days are.
- Requests: a collector writes a segment, three objects, at most every `flush_seconds`, and not more segments
  than windows come. What compaction writes is a hundredth of that, and what is read costs a twelfth or less
  a request: neither is in it. A service's share is that of its windows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sidelight_collector.doctor.layout import Tables
from sidelight_collector.doctor.object_reader import Contents
from sidelight_collector.storage.lifecycle.retention import KEPT, Level
from sidelight_collector.storage.tables import PARTS

RATE_DAYS: Final = 7
MONTH_DAYS: Final = 365.25 / 12
GB: Final = 1 << 30
DAY_SECONDS: Final = 86_400.0
UNREAD: Final = "(not read)"
"""Whose the bytes are of which no table says it."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Windows and bytes of a service: of all tables, of those kept as hours, and of those kept as days."""

    windows: float = 0.0
    bytes: float = 0.0
    hour_bytes: float = 0.0
    day_bytes: float = 0.0

    def plus(self, other: Usage, share: float = 1.0) -> Usage:
        """With a share of another's."""
        return Usage(
            self.windows + other.windows * share,
            self.bytes + other.bytes * share,
            self.hour_bytes + other.hour_bytes * share,
            self.day_bytes + other.day_bytes * share,
        )


def add_usage(
    usage: dict[str, Usage], there: Tables, read: Contents | None, services: Sequence[str], windows: int
) -> None:
    """Share a segment or block out to its services; to all alike if its tables were not read."""
    rows = read.rows if read else {}
    shares = read.services if read and read.services else dict.fromkeys(services or [UNREAD], 1)
    for part, entry in there.items():
        of_hours = entry.size if part in KEPT[Level.HOUR] else 0
        of_days = entry.size if part in KEPT[Level.DAY] else 0
        _share(usage, rows.get(part) or shares, Usage(0, entry.size, of_hours, of_days))
    _share(usage, shares, Usage(sum(read.services.values()) if read and read.services else windows))


def _share(usage: dict[str, Usage], shares: Mapping[str, int], what: Usage) -> None:
    every = sum(shares.values())
    for service, share in shares.items():
        usage[service] = usage.get(service, Usage()).plus(what, share / every)


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices, and what must be known besides them."""

    per_gb_month: float
    per_1000_requests: float
    raw_days: int
    hour_days: int
    day_days: int
    flush_seconds: float
    collectors: int


@dataclass(frozen=True, slots=True)
class Service:
    """A service in the store. Costs are of a month, `stored` of what lies there now."""

    service: str
    windows: int
    bytes: int
    windows_per_day: float
    bytes_per_day: float
    stored_cost: float
    storage_cost: float
    requests_cost: float


@dataclass(slots=True)
class Account:
    """Adds up days, given in order; keeps the last few one by one."""

    _all: dict[str, Usage] = field(default_factory=dict)
    _last: list[Mapping[str, Usage]] = field(default_factory=list)

    def add(self, usage: Mapping[str, Usage]) -> None:
        """Take one day, later than all before."""
        if not usage:
            return
        for service, used in usage.items():
            self._all[service] = self._all.get(service, Usage()).plus(used)
        self._last = [*self._last, usage][-RATE_DAYS - 1 :]

    def services(self, prices: Prices) -> list[Service]:
        """All services, the largest first."""
        recent = self._last[:-1] or self._last
        rates = dict.fromkeys(self._all, Usage())
        for day in recent:
            for service, used in day.items():
                rates[service] = rates[service].plus(used, 1 / len(recent))
        every = sum(rate.windows for rate in rates.values())
        most = prices.collectors * DAY_SECONDS / prices.flush_seconds
        requests = len(PARTS) * min(every, most) * MONTH_DAYS / 1000 * prices.per_1000_requests
        found = [
            Service(
                service=service,
                windows=round(used.windows),
                bytes=round(used.bytes),
                windows_per_day=rates[service].windows,
                bytes_per_day=rates[service].bytes,
                stored_cost=used.bytes / GB * prices.per_gb_month,
                storage_cost=_filled(rates[service], prices) / GB * prices.per_gb_month,
                requests_cost=requests * rates[service].windows / every if every else 0.0,
            )
            for service, used in self._all.items()
        ]
        return sorted(found, key=lambda one: (-one.bytes, one.service))


def _filled(rate: Usage, prices: Prices) -> float:
    """The bytes of a store that has filled up at this rate."""
    return (
        rate.bytes * prices.raw_days
        + rate.hour_bytes * (prices.hour_days - prices.raw_days)
        + rate.day_bytes * (prices.day_days - prices.hour_days)
    )
