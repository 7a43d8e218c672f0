"""Pins, which protect windows from retention until an operator removes the pin.

    v1/pins/incident-42.json

    {"format": 1, "from": 1795219200, "made": 1795300000, "reason": "INC-42", "service": "shop",
     "until": 1795305600}

A pin covers whole days: every day on which a window of its range may have begun. The range is in Unix
seconds and excludes `until`. An empty `service` means every service. While a pin cannot be read, retention
deletes nothing, because the range of that pin is unknown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Final

from sidelight_collector.storage.documents import DocumentStore
from sidelight_collector.storage.objects import ObjectStore, StoreError, StoreRefused
from sidelight_collector.storage.segments import event_day

ROOT: Final = "v1/pins/"
FORMAT: Final = 1
_KEY_PATTERN: Final = re.compile(r"v1/pins/[a-z0-9][a-z0-9._-]{0,62}\.json")


class PinDamaged(StoreError):
    """A pin is not in a format that this version reads, so its range is unknown."""

    def __init__(self, key: str, problem: str) -> None:
        super().__init__(
            f"the pin {key!r} cannot be read: {problem}",
            hint="Nothing is deleted until it is restored or removed (sidelight storage unpin).",
        )


@dataclass(frozen=True, slots=True)
class Pin:
    """A pin on the windows of one service, or of all, that began in a time range.

    `start` and `until` are Unix seconds, `until` excluded. An empty `service` means every service.
    """

    name: str
    start: float
    until: float
    service: str
    reason: str
    created_at: float

    def covers(self, day: date, service: str) -> bool:
        """Return whether the pin protects the windows of `service` on `day`."""
        return self.service in ("", service) and self.covers_day(day)

    def covers_day(self, day: date) -> bool:
        """Return whether the pin protects windows of any service on `day`."""
        last = max(self.start, self.until - 1e-9)
        return event_day(round(self.start * 1e9)) <= day <= event_day(round(last * 1e9))


def read_pins(store: ObjectStore) -> list[Pin]:
    """Read all pins, in the order of their names. Raises PinDamaged."""
    keys = [entry.key for entry in store.list(ROOT) if _KEY_PATTERN.fullmatch(entry.key)]
    return [_documents(store).load(key).document for key in keys]


def add_pin(store: ObjectStore, pin: Pin) -> None:
    """Create a pin. Raises StoreRefused if its name is taken or invalid."""
    key = _key_of(pin.name)
    if _documents(store).commit(key, pin, None) is None:
        raise StoreRefused(
            f"there is a pin {pin.name!r} already", hint="Choose another name, or remove that one first."
        )


def remove_pin(store: ObjectStore, name: str) -> None:
    """Delete a pin. Raises StoreRefused if there is none of this name."""
    key = _key_of(name)
    if key not in [entry.key for entry in store.list(key)]:
        raise StoreRefused(f"there is no pin {name!r}", hint="sidelight storage pins lists those there are.")
    store.delete(key)


def is_pinned(pins: Iterable[Pin], day: date, service: str) -> bool:
    """Return whether any of `pins` protects the windows of `service` on `day`."""
    return any(pin.covers(day, service) for pin in pins)


def _documents(store: ObjectStore) -> DocumentStore[Pin]:
    return DocumentStore(store, _encode, decode)


def _key_of(name: str) -> str:
    key = f"{ROOT}{name}.json"
    if not _KEY_PATTERN.fullmatch(key):
        raise StoreRefused(
            f"{name!r} cannot be the name of a pin",
            hint="Use up to 63 small letters, digits, '.', '_' and '-', and begin with a letter or a digit.",
        )
    return key


def _encode(pin: Pin) -> bytes:
    fields = {
        "format": FORMAT,
        "from": pin.start,
        "until": pin.until,
        "service": pin.service,
        "reason": pin.reason,
        "made": pin.created_at,
    }
    return json.dumps(fields, sort_keys=True).encode()


def decode(key: str, content: bytes) -> Pin:
    """Parse the JSON of a pin. Raises PinDamaged."""
    try:
        fields = json.loads(content)
        if fields["format"] > FORMAT:
            raise PinDamaged(
                key, f"it is in format {fields['format']}, and this version reads up to {FORMAT}"
            )
        start, until, created_at = (float(fields[field]) for field in ("from", "until", "made"))
        name = key.removeprefix(ROOT).removesuffix(".json")
        return Pin(name, start, until, str(fields["service"]), str(fields["reason"]), created_at)
    except (ValueError, KeyError, TypeError) as error:
        raise PinDamaged(key, f"{type(error).__name__}: {error}") from error
