"""What a trigger asks of one process: a higher rate for a while, and labels that say why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidelight_sidecar.triggers import Fired, labels_of


@dataclass(slots=True)
class Boost:
    """Begins when the process's loop comes to it, at once unless a capture runs; `until` is set then.

    What fires meanwhile is added; it does not last longer for that.
    """

    seconds: float
    rate_hz: int
    fired: list[Fired] = field(default_factory=list)
    until: float | None = None

    @property
    def begun(self) -> bool:
        return self.until is not None

    @property
    def labels(self) -> Mapping[str, str]:
        return labels_of(self.fired)

    def add(self, fired: Fired) -> None:
        """Say why as well; the same word again says nothing new."""
        if all(one.word != fired.word for one in self.fired):
            self.fired.append(fired)
