"""What a trigger asks of one process: a higher rate for a while, and labels that say why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidelight_sidecar.triggers import TriggerEvent, build_trigger_labels


@dataclass(slots=True)
class Boost:
    """Begins when the process's loop comes to it, at once unless a capture runs; `until` is set then.

    What fires meanwhile is added; it does not last longer for that.
    """

    seconds: float
    rate_hz: int
    events: list[TriggerEvent] = field(default_factory=list)
    until: float | None = None

    @property
    def has_started(self) -> bool:
        return self.until is not None

    @property
    def labels(self) -> Mapping[str, str]:
        return build_trigger_labels(self.events)

    def add(self, event: TriggerEvent) -> None:
        """Say why as well; the same word again says nothing new."""
        if all(one.trigger != event.trigger for one in self.events):
            self.events.append(event)
