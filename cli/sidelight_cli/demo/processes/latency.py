"""Summary of the latencies of many requests."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Latency:
    """Latency quantiles of the answered requests, in milliseconds.

    Latency counts from a request's intended start. The quantiles are None if no request was answered.
    """

    answered: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None

    @classmethod
    def summarize(cls, seconds: Sequence[float]) -> Latency:
        """Summarize latencies in seconds, in any order."""
        if not seconds:
            return cls(0, None, None, None, None)
        ordered = sorted(seconds)
        p50, p95, p99 = (_to_milliseconds(compute_quantile(ordered, q)) for q in (0.5, 0.95, 0.99))
        return cls(len(ordered), p50, p95, p99, _to_milliseconds(ordered[-1]))


def compute_quantile(ordered: Sequence[float], q: float) -> float:
    """Return the `q` quantile of sorted values by the nearest-rank method.

    It is the smallest value with at least the share `q` of all values at or below it.
    """
    return ordered[max(0, math.ceil(q * len(ordered)) - 1)]


def _to_milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)
