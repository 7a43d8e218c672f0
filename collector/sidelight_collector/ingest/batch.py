"""Batches of windows that become one segment, and when to flush them. Pure.

A segment costs three objects, however few windows it has. Windows of one day are therefore collected until
the first of them has waited for the maximum time, or until there is enough text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Generic, TypeVar

from sidelight_collector.stack_hashing import HashedWindow

Completion = TypeVar("Completion")


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """The age (seconds) and the size (bytes of text) at which a batch is flushed."""

    max_seconds: float
    max_bytes: int


@dataclass(slots=True)
class WindowBatch(Generic[Completion]):
    """Windows that will become a segment; `completion` notifies waiting requests."""

    day: date
    opened_at: float
    completion: Completion
    windows: list[HashedWindow] = field(default_factory=list)
    text_bytes: int = 0


def seconds_until_due(now: float, opened_at: float, text_bytes: int, policy: FlushPolicy) -> float:
    """Return the seconds until a batch must be flushed; 0 if that is now."""
    if text_bytes >= policy.max_bytes:
        return 0.0
    return max(0.0, opened_at + policy.max_seconds - now)
