"""Windows waiting to be stored together, and the decision when they have waited enough. Pure.

One segment costs three objects however few windows it holds, so windows of one day wait for each other: until
the first of them has waited the longest that is allowed, or there is enough text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from typing import Generic, TypeVar

from sidelight_collector.stack_hashing import HashedWindow

Done = TypeVar("Done")


@dataclass(frozen=True, slots=True)
class FlushRule:
    """How long (seconds) and how much (bytes of text) windows wait for others."""

    seconds: float
    bytes: int


@dataclass(slots=True)
class Batch(Generic[Done]):
    """Windows that will be one segment; `done` is how those who wait for it are told."""

    day: date
    opened: float
    done: Done
    windows: list[HashedWindow] = field(default_factory=list)
    text_bytes: int = 0


def seconds_until_due(now: float, opened: float, text_bytes: int, rule: FlushRule) -> float:
    """How long a batch may still wait; 0 when it is to be stored now."""
    if text_bytes >= rule.bytes:
        return 0.0
    return max(0.0, opened + rule.seconds - now)
