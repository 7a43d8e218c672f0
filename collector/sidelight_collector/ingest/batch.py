"""Batches of windows that become one segment, and when to flush them. Pure.

A segment costs three objects, however few windows it has. Windows of one day are therefore collected until
the first of them has waited for the maximum time, or until they are enough. A window waits only if
windows of other senders may come meanwhile: those of one sender, one after another, are stored at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from math import inf
from typing import Final, Generic, TypeVar

from sidelight_collector.stack_hashing import HashedWindow

Completion = TypeVar("Completion")
ACTIVITY_FACTOR: Final = 10
"""For how many of the longest waits other senders count as active: segments of a busy collector stay few."""


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """The age (seconds) and the size (bytes in memory) at which a batch is flushed."""

    max_seconds: float
    max_bytes: int


@dataclass(slots=True)
class WindowBatch(Generic[Completion]):
    """Windows that will become a segment; `completion` notifies waiting requests."""

    day: date
    opened_at: float
    completion: Completion
    windows: list[HashedWindow] = field(default_factory=list)
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class _Arrival:
    sender: str
    connection: int | None
    at: float


class ArrivalHistory:
    """Remembers whether several senders are active.

    They are if windows arrive before others are durable, or from another sender on another connection than
    the windows before. After `activity_seconds` without that, a sender counts as alone.
    """

    def __init__(self, activity_seconds: float) -> None:
        self._activity_seconds = activity_seconds
        self._last: _Arrival | None = None
        self._concurrent_at = -inf

    def record(self, sender: str, connection: int | None, now: float, *, has_pending: bool) -> None:
        """Record windows of a sender; `has_pending`: others are not durable yet."""
        arrival, last = _Arrival(sender, connection, now), self._last
        is_other = (
            last is not None
            and now - last.at <= self._activity_seconds
            and sender != last.sender
            and (connection is None or connection != last.connection)
        )
        if has_pending or is_other:
            self._concurrent_at = now
        self._last = arrival

    def has_concurrent_senders(self, now: float) -> bool:
        """Return whether windows of another sender may come soon."""
        return now - self._concurrent_at <= self._activity_seconds


def seconds_until_due(
    now: float,
    opened_at: float,
    memory_bytes: int,
    policy: FlushPolicy,
    *,
    has_concurrent_senders: bool = True,
) -> float:
    """Return the seconds until a batch must be flushed; 0 if that is now."""
    if memory_bytes >= policy.max_bytes or not has_concurrent_senders:
        return 0.0
    return max(0.0, opened_at + policy.max_seconds - now)
