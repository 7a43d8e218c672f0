"""How much of a process the comparisons of deploys may take."""

from __future__ import annotations

from typing import Final

_MINUTE: Final = 60.0


class Pace:
    """At most so many comparisons a minute, and so much of one core, on average of a minute."""

    def __init__(self, per_minute: int, cpu_share: float, now: float) -> None:
        self._per_minute = per_minute
        self._share = cpu_share
        self._at = now
        self._looks = float(per_minute)
        self._cpu = cpu_share * _MINUTE

    def ready(self, now: float) -> bool:
        """Whether one more comparison may begin."""
        passed, self._at = max(0.0, now - self._at), now
        self._looks = min(self._per_minute, self._looks + passed * self._per_minute / _MINUTE)
        self._cpu = min(self._share * _MINUTE, self._cpu + passed * self._share)
        return self._looks >= 1 and self._cpu > 0

    def looked(self) -> None:
        """A comparison began."""
        self._looks -= 1

    def spent(self, cpu_seconds: float) -> None:
        """So much CPU time was taken, by a comparison or by a look for versions."""
        self._cpu -= cpu_seconds
