"""What a collector can say about itself since it started: how much it took in, when, and from whom."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

MAX_SIDECARS: Final = 1000
Sender = tuple[str, ...]
"""Pod and service, and the namespace where it is known."""


@dataclass(frozen=True, slots=True)
class SidecarLastSeen:
    """Who shipped windows, and when last (Unix ns)."""

    pod: str
    service: str
    last_seen_ns: int
    namespace: str = ""


def fill_namespace(sender: Sender) -> Sender:
    """A sender with a namespace, if only the empty one."""
    return (*sender, "")[:3]


class IngestStats:
    """Counts acknowledged windows and remembers the 1,000 senders seen last. Safe to use from any thread."""

    def __init__(self, max_sidecars: int = MAX_SIDECARS) -> None:
        self._lock = threading.Lock()
        self._max_sidecars = max_sidecars
        self._last_seen_by_sender: OrderedDict[Sender, int] = OrderedDict()
        self._windows = 0
        self._last_ingest_ns: int | None = None

    def record_acknowledged(self, senders: Iterable[Sender], now_ns: int) -> None:
        """Windows became durable, one from each of these."""
        with self._lock:
            for sender in senders:
                self._windows += 1
                self._last_ingest_ns = now_ns
                self._record_sender(sender, now_ns)

    def merge(self, windows: int, last_ns: int | None, senders: Mapping[Sender, int]) -> None:
        """What another process of the same collector tells; of each sender when it was last seen."""
        with self._lock:
            self._windows += windows
            self._last_ingest_ns = max(self._last_ingest_ns or 0, last_ns or 0) or None
            latest = dict(senders)
            for sender, at in self._last_seen_by_sender.items():
                latest[sender] = max(at, latest.get(sender, 0))
            self._last_seen_by_sender.clear()
            for sender, at in sorted(latest.items(), key=lambda item: item[1]):
                self._record_sender(sender, at)

    def aggregate_processes(self) -> IngestStats:
        """What all processes of this collector know together; blocks."""
        return self

    @property
    def windows_acknowledged(self) -> int:
        """Windows made durable since the process started."""
        return self._windows

    @property
    def last_ingest_ns(self) -> int | None:
        """When the last of them was (Unix ns)."""
        return self._last_ingest_ns

    def list_sidecars(self) -> list[SidecarLastSeen]:
        """Who shipped windows, the latest first."""
        with self._lock:
            seen = list(self._last_seen_by_sender.items())
        return [SidecarLastSeen(pod, service, at, space) for (pod, service, space), at in seen[::-1]]

    def _record_sender(self, sender: Sender, now_ns: int) -> None:
        sender = fill_namespace(sender)
        self._last_seen_by_sender[sender] = now_ns
        self._last_seen_by_sender.move_to_end(sender)
        if len(self._last_seen_by_sender) > self._max_sidecars:
            self._last_seen_by_sender.popitem(last=False)
