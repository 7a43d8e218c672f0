"""Statistics of ingest since the start: number of windows, last time, and senders."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

MAX_SIDECARS: Final = 1000
Sender = tuple[str, ...]
"""Pod and service, and optionally the namespace."""


@dataclass(frozen=True, slots=True)
class SidecarLastSeen:
    """A sender of windows, and the time of its last window (Unix ns)."""

    pod: str
    service: str
    last_seen_ns: int
    namespace: str = ""


def fill_namespace(sender: Sender) -> Sender:
    """Return a sender with a namespace, which is empty if it had none."""
    return (*sender, "")[:3]


class IngestStats:
    """A count of acknowledged windows, and the senders seen last; thread-safe.

    It keeps at most `max_sidecars` senders.
    """

    def __init__(self, max_sidecars: int = MAX_SIDECARS) -> None:
        self._lock = threading.Lock()
        self._max_sidecars = max_sidecars
        self._last_seen_by_sender: OrderedDict[Sender, int] = OrderedDict()
        self._windows = 0
        self._last_ingest_ns: int | None = None

    def record_acknowledged(self, senders: Iterable[Sender], now_ns: int) -> None:
        """Record durable windows, one for each element of `senders`."""
        with self._lock:
            for sender in senders:
                self._windows += 1
                self._last_ingest_ns = now_ns
                self._record_sender(sender, now_ns)

    def merge(self, windows: int, last_ns: int | None, senders: Mapping[Sender, int]) -> None:
        """Add the statistics of another process; `senders` has when each was last seen."""
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
        """Return the statistics of all processes of this collector; blocks the thread."""
        return self

    @property
    def windows_acknowledged(self) -> int:
        """Windows that became durable since the start."""
        return self._windows

    @property
    def last_ingest_ns(self) -> int | None:
        """When a window last became durable (Unix ns)."""
        return self._last_ingest_ns

    def list_sidecars(self) -> list[SidecarLastSeen]:
        """List the senders of windows, latest first."""
        with self._lock:
            senders = list(self._last_seen_by_sender.items())
        return [
            SidecarLastSeen(pod, service, at, namespace) for (pod, service, namespace), at in senders[::-1]
        ]

    def _record_sender(self, sender: Sender, now_ns: int) -> None:
        sender = fill_namespace(sender)
        self._last_seen_by_sender[sender] = now_ns
        self._last_seen_by_sender.move_to_end(sender)
        if len(self._last_seen_by_sender) > self._max_sidecars:
            self._last_seen_by_sender.popitem(last=False)
