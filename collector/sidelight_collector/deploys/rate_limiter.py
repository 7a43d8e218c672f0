"""How much of a process the comparisons of deploys may take."""

from __future__ import annotations

from typing import Final

_MINUTE: Final = 60.0


class AnalysisRateLimiter:
    """At most so many comparisons a minute, and so much of one core, on average of a minute."""

    def __init__(self, per_minute: int, cpu_share: float, now: float) -> None:
        self._per_minute = per_minute
        self._cpu_share = cpu_share
        self._updated_at = now
        self._analyses_left = float(per_minute)
        self._cpu_seconds_left = cpu_share * _MINUTE

    def can_start(self, now: float) -> bool:
        """Whether one more comparison may begin."""
        passed, self._updated_at = max(0.0, now - self._updated_at), now
        self._analyses_left = min(self._per_minute, self._analyses_left + passed * self._per_minute / _MINUTE)
        self._cpu_seconds_left = min(
            self._cpu_share * _MINUTE, self._cpu_seconds_left + passed * self._cpu_share
        )
        return self._analyses_left >= 1 and self._cpu_seconds_left > 0

    def record_start(self) -> None:
        """A comparison began."""
        self._analyses_left -= 1

    def record_cpu(self, cpu_seconds: float) -> None:
        """So much CPU time was taken, by a comparison or by a look for versions."""
        self._cpu_seconds_left -= cpu_seconds
