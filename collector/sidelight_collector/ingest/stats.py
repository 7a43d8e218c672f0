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
    """A sender of windows, when its last one came (Unix ns), and their number."""

    pod: str
    service: str
    last_seen_ns: int
    namespace: str = ""
    windows: int = 0


@dataclass(frozen=True, slots=True)
class SenderActivity:
    """When a sender was last seen (Unix ns), and the number of its windows."""

    last_seen_ns: int = 0
    windows: int = 0

    def __add__(self, other: SenderActivity) -> SenderActivity:
        return SenderActivity(max(self.last_seen_ns, other.last_seen_ns), self.windows + other.windows)


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
        self._senders: OrderedDict[Sender, SenderActivity] = OrderedDict()
        self._windows = 0
        self._last_ingest_ns: int | None = None

    def record_acknowledged(self, senders: Iterable[Sender], now_ns: int) -> None:
        """Record durable windows, one for each element of `senders`."""
        with self._lock:
            for sender in senders:
                self._windows += 1
                self._last_ingest_ns = now_ns
                self._record_sender(sender, SenderActivity(now_ns, 1))

    def merge(self, windows: int, last_ns: int | None, senders: Mapping[Sender, SenderActivity]) -> None:
        """Add the statistics of another process."""
        with self._lock:
            self._windows += windows
            self._last_ingest_ns = max(self._last_ingest_ns or 0, last_ns or 0) or None
            both = dict(self._senders)
            for sender, activity in senders.items():
                both[sender] = activity + both.get(sender, SenderActivity())
            self._senders.clear()
            for sender, activity in sorted(both.items(), key=lambda item: item[1].last_seen_ns):
                self._record_sender(sender, activity)

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
            senders = list(self._senders.items())
        return [
            SidecarLastSeen(pod, service, activity.last_seen_ns, namespace, activity.windows)
            for (pod, service, namespace), activity in senders[::-1]
        ]

    def _record_sender(self, sender: Sender, activity: SenderActivity) -> None:
        sender = fill_namespace(sender)
        self._senders[sender] = activity + self._senders.get(sender, SenderActivity())
        self._senders.move_to_end(sender)
        if len(self._senders) > self._max_sidecars:
            self._senders.popitem(last=False)
