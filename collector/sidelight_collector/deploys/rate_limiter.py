"""Limits how much of a process the analyses of deploys may take."""

from __future__ import annotations

from typing import Final

_MINUTE: Final = 60.0


class AnalysisRateLimiter:
    """Limits analyses per minute, and their CPU time, averaged over a minute.

    `cpu_share` is the share of one core.
    """

    def __init__(self, per_minute: int, cpu_share: float, now: float) -> None:
        self._per_minute = per_minute
        self._cpu_share = cpu_share
        self._updated_at = now
        self._analyses_left = float(per_minute)
        self._cpu_seconds_left = cpu_share * _MINUTE

    def can_start(self, now: float) -> bool:
        """Return whether another analysis may start."""
        elapsed, self._updated_at = max(0.0, now - self._updated_at), now
        self._analyses_left = min(
            self._per_minute, self._analyses_left + elapsed * self._per_minute / _MINUTE
        )
        self._cpu_seconds_left = min(
            self._cpu_share * _MINUTE, self._cpu_seconds_left + elapsed * self._cpu_share
        )
        return self._analyses_left >= 1 and self._cpu_seconds_left > 0

    def record_start(self) -> None:
        self._analyses_left -= 1

    def record_cpu(self, cpu_seconds: float) -> None:
        """Record CPU time of an analysis or of a scan for versions."""
        self._cpu_seconds_left -= cpu_seconds
