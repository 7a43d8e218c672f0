"""Latencies of many requests, told in five numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latency:
    """Quantiles over answered requests, in milliseconds from the intended start; None where none answered."""

    answered: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None

    @classmethod
    def summarize(cls, seconds: Sequence[float]) -> Latency:
        """Sum up latencies given in seconds, in any order."""
        if not seconds:
            return cls(0, None, None, None, None)
        ordered = sorted(seconds)
        p50, p95, p99 = (_to_milliseconds(compute_quantile(ordered, q)) for q in (0.5, 0.95, 0.99))
        return cls(len(ordered), p50, p95, p99, _to_milliseconds(ordered[-1]))


def compute_quantile(ordered: Sequence[float], q: float) -> float:
    """The smallest value that at least the share `q` of all values does not exceed (nearest rank)."""
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


def _to_milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
