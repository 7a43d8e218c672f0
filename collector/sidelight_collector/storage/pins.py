"""Pins: what retention must leave as it is, until somebody takes the pin away.

    v1/pins/incident-42.json

    {"format": 1, "from": 1795219200, "made": 1795300000, "reason": "INC-42", "service": "shop",
     "until": 1795305600}

A pin holds whole days: all those on which a window of its range (Unix seconds, `until` excluded) may have
begun. An empty `service` is every service. A pin that cannot be read holds everything, for nobody knows what
it was for.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from sidelight_collector.storage.objects import ObjectExists, ObjectStore, StoreError, StoreRefused
from sidelight_collector.storage.segments import event_day

ROOT: Final = "v1/pins/"
FORMAT: Final = 1
_KEY_PATTERN: Final = re.compile(r"v1/pins/([a-z0-9][a-z0-9._-]{0,62})\.json")


class PinDamaged(StoreError):
    """A pin is not what this version or an older one wrote: what it holds is not known."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(
            f"the pin {key!r} cannot be read: {problem}",
            hint="Nothing is deleted until it is restored or removed (sidelight storage unpin).",
        )


@dataclass(frozen=True, slots=True)
class Pin:
    """Windows of a service (or all) that began in a range of Unix seconds, until excluded."""

    name: str
    start: float
    until: float
    service: str
    reason: str
    created_at: float

    def covers(self, day: date, service: str) -> bool:
        """Whether windows of this service and day must stay as they are."""
        return self.service in ("", service) and self.covers_day(day)

    def covers_day(self, day: date) -> bool:
        """Whether windows of this day must stay, of any service."""
        last = max(self.start, self.until - 1e-9)
        return event_day(round(self.start * 1e9)) <= day <= event_day(round(last * 1e9))


def read_pins(store: ObjectStore) -> list[Pin]:
    """All pins, in the order of their names. Raises PinDamaged."""
    found = ((entry.key, _KEY_PATTERN.fullmatch(entry.key)) for entry in store.list(ROOT))
    return [decode(store.get(key), key, match[1]) for key, match in found if match]


def add_pin(store: ObjectStore, pin: Pin) -> None:
    """Make a pin. Raises StoreRefused for a name that is taken or cannot be one."""
    key = _key_of(pin.name)
    content: dict[str, object] = {"format": FORMAT, "from": pin.start, "until": pin.until}
    content |= {"service": pin.service, "reason": pin.reason, "made": pin.created_at}
    try:
        store.put(key, json.dumps(content, sort_keys=True).encode(), if_absent=True)
    except ObjectExists:
        raise StoreRefused(
            f"there is a pin {pin.name!r} already", hint="Choose another name, or remove that one first."
        ) from None


def remove_pin(store: ObjectStore, name: str) -> None:
    """Take a pin away. Raises StoreRefused if there is none."""
    key = _key_of(name)
    if key not in [entry.key for entry in store.list(key)]:
        raise StoreRefused(f"there is no pin {name!r}", hint="sidelight storage pins lists those there are.")
    store.delete(key)


def is_pinned(pins: Iterable[Pin], day: date, service: str) -> bool:
    """Whether any of these pins holds the windows of this service and day."""
    return any(pin.covers(day, service) for pin in pins)


def _key_of(name: str) -> str:
    key = f"{ROOT}{name}.json"
    if not _KEY_PATTERN.fullmatch(key):
        raise StoreRefused(
            f"{name!r} cannot be the name of a pin",
            hint="Use up to 63 small letters, digits, '.', '_' and '-', and begin with a letter or a digit.",
        )
    return key


def decode(content: bytes, key: str, name: str) -> Pin:
    try:
        told = json.loads(content)
        if told["format"] > FORMAT:
            raise PinDamaged(key, f"it is in format {told['format']}, and this version reads up to {FORMAT}")
        start, until, made = (float(told[field]) for field in ("from", "until", "made"))
        return Pin(name, start, until, str(told["service"]), str(told["reason"]), made)
    except (ValueError, KeyError, TypeError) as error:
        raise PinDamaged(key, f"{type(error).__name__}: {error}") from error
