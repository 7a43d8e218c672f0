"""Windows waiting to be stored together, and the decision when they have waited enough. Pure.

One segment costs three objects however few windows it holds, so windows of one day wait for each other: until
the first of them has waited the longest that is allowed, or there is enough text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Generic, TypeVar

from sidelight_collector.stack_hashing import HashedWindow

Completion = TypeVar("Completion")


@dataclass(frozen=True, slots=True)
class FlushPolicy:
    """How long (seconds) and how much (bytes of text) windows wait for others."""

    max_seconds: float
    max_bytes: int


@dataclass(slots=True)
class WindowBatch(Generic[Completion]):
    """Windows that will be one segment; `completion` is how those who wait for it are told."""

    day: date
    opened_at: float
    completion: Completion
    windows: list[HashedWindow] = field(default_factory=list)
    text_bytes: int = 0


def seconds_until_due(now: float, opened_at: float, text_bytes: int, policy: FlushPolicy) -> float:
    """How long a batch may still wait; 0 when it is to be stored now."""
    if text_bytes >= policy.max_bytes:
        return 0.0
    return max(0.0, opened_at + policy.max_seconds - now)
