"""What a collector can say about itself since it started: how much it took in, when, and from whom."""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

MAX_SIDECARS: Final = 1000


@dataclass(frozen=True, slots=True)
class SidecarSeen:
    """Who shipped windows, and when last (Unix ns)."""

    pod: str
    service: str
    last_seen_ns: int


class Activity:
    """Counts acknowledged windows and remembers the 1,000 senders seen last. Safe to use from any thread."""

    def __init__(self, max_sidecars: int = MAX_SIDECARS) -> None:
        self._lock = threading.Lock()
        self._max_sidecars = max_sidecars
        self._sidecars: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._windows = 0
        self._last_ingest_ns: int | None = None

    def acknowledged(self, pod: str, service: str, now_ns: int) -> None:
        """One window became durable."""
        with self._lock:
            self._windows += 1
            self._last_ingest_ns = now_ns
            self._sidecars[pod, service] = now_ns
            self._sidecars.move_to_end((pod, service))
            if len(self._sidecars) > self._max_sidecars:
                self._sidecars.popitem(last=False)

    @property
    def windows_acknowledged(self) -> int:
        """Windows made durable since the process started."""
        return self._windows

    @property
    def last_ingest_ns(self) -> int | None:
        """When the last of them was (Unix ns)."""
        return self._last_ingest_ns

    def sidecars(self) -> list[SidecarSeen]:
        """Who shipped windows, the latest first."""
        with self._lock:
            seen = [SidecarSeen(pod, service, at) for (pod, service), at in self._sidecars.items()]
        return seen[::-1]
