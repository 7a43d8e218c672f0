"""Hours without any window of a service, between its first and its last."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime

from sidelight_collector.doctor.findings import Finding, Kind, counted, note
from sidelight_collector.storage.segments import ROOT, event_day
from sidelight_collector.storage.tables import HOUR_NS


@dataclass(slots=True)
class Gaps:
    """Looks at days in order; of each service it keeps one hour."""

    _last: dict[str, int] = field(default_factory=dict)

    def add(self, hours: Mapping[str, Set[int]]) -> Iterator[Finding]:
        """Take the hours (Unix ns) of the services of a day; the gaps that end on it."""
        for service in sorted(hours):
            for hour in sorted(hours[service]):
                before = self._last.get(service, hour - HOUR_NS)
                if hour - before > HOUR_NS:
                    yield _gap(service, before + HOUR_NS, hour)
                self._last[service] = max(hour, before)


def _gap(service: str, start: int, end: int) -> Finding:
    hours = counted((end - start) // HOUR_NS, "hour")
    message = f"{service}: no window for {hours}, from {_hour(start)} until {_hour(end)}"
    hint = "Nothing if it did not run then; else see the sidecar's log and metrics of that time."
    return note(Kind.GAP, f"{ROOT}{event_day(start).isoformat()}/", message, hint)


def _hour(ns: int) -> str:
    return datetime.fromtimestamp(ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%MZ")
