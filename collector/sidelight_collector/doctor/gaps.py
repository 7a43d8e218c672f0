"""Finds hours without windows between the first and the last window of a service."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sidelight_collector.doctor.findings import FindingKind, StoreFinding, format_count, make_note
from sidelight_collector.storage.segments import ROOT, event_day
from sidelight_collector.storage.tables import HOUR_NS


@dataclass(slots=True)
class GapDetector:
    """Finds gaps in days that are added in order; remembers one hour of each service."""

    _last_hours: dict[str, int] = field(default_factory=dict)

    def add_day(self, hours: Mapping[str, Set[int]]) -> Iterator[StoreFinding]:
        """Add the hours (Unix ns) of each service on a day; yields gaps that end there."""
        for service in sorted(hours):
            for hour in sorted(hours[service]):
                previous = self._last_hours.get(service, hour - HOUR_NS)
                if hour - previous > HOUR_NS:
                    yield _make_gap_finding(service, previous + HOUR_NS, hour)
                self._last_hours[service] = max(hour, previous)


def _make_gap_finding(service: str, start: int, end: int) -> StoreFinding:
    hours = format_count((end - start) // HOUR_NS, "hour")
    message = f"{service}: no window for {hours}, from {_format_hour(start)} until {_format_hour(end)}"
    hint = "Nothing if it did not run then; else see the sidecar's log and metrics of that time."
    return make_note(FindingKind.GAP, f"{ROOT}{event_day(start).isoformat()}/", message, hint)


def _format_hour(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%MZ")
