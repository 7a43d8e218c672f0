"""A boost: a higher rate for one process, with labels that name the triggers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sidelight_sidecar.triggers import TriggerEvent, build_trigger_labels


@dataclass(slots=True)
class Boost:
    """A higher rate for `seconds`, started by one or more triggers.

    It starts when the process's sampling loop reaches it: at once, unless a capture runs. `until` is set at
    the start. Triggers that fire during a boost are added to it and do not prolong it.
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
        """Add a trigger event, unless an event of the same trigger is there already."""
        if all(other.trigger != event.trigger for other in self.events):
            self.events.append(event)
