"""Where things lie below `v1/`: days, and objects that no day has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from sidelight_collector.captures.capture_repository import is_own
from sidelight_collector.deploys import deploy_repository as deploys
from sidelight_collector.kubernetes_discovery import shared_state as discovery
from sidelight_collector.storage import manifest, segments
from sidelight_collector.storage.backends.open_store import CONFIG_KEY, PROBES
from sidelight_collector.storage.objects import ObjectEntry, ObjectStore
from sidelight_collector.storage.tables import PARTS, SCHEMAS, Part

EVERYTHING: Final = "v1/"
_DAY: Final = re.compile(
    rf"(?P<folder>(?:{segments.ROOT}|{manifest.BLOCKS})(?P<day>\d{{4}}-\d\d-\d\d))/.*", re.DOTALL
)
_MANIFEST: Final = re.compile(rf"{manifest.ROOT}(\d{{4}}-\d\d-\d\d)\.json")
_OBJECT: Final = re.compile(r"(?P<place>v1/[^/]+/[^/]+/[^/]+/)(?P<part>[a-z]+)\.parquet")
_PIN: Final = re.compile(r"v1/pins/[a-z0-9][a-z0-9._-]{0,62}\.json")
_LEASES: Final = "v1/lease/"
_LINK: Final = re.compile(r"v1/links/[a-z2-7]{16}\.json")


@dataclass(slots=True)
class Folder:
    """Objects that lie together: how many, how large, and when the youngest was written (Unix seconds)."""

    first: str
    objects: int = 0
    bytes: int = 0
    modified: float = 0.0

    def add(self, entry: ObjectEntry) -> None:
        self.objects += 1
        self.bytes += entry.size
        self.modified = max(self.modified, entry.modified)


@dataclass(slots=True)
class Survey:
    """What lies below `v1/` but for what lies in the folder of a day."""

    days: set[date] = field(default_factory=set)
    has_config: bool = False
    probes: list[ObjectEntry] = field(default_factory=list)
    pins: list[str] = field(default_factory=list)
    unknown: dict[str, Folder] = field(default_factory=dict)
    objects: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.days or self.has_config or self.probes or self.unknown or self.objects)


def survey(store: ObjectStore) -> Survey:
    """Look through a store without listing what lies in its days."""
    found = Survey()
    for entry in _outside_days(store, found.days):
        found.objects += 1
        if match := _MANIFEST.fullmatch(entry.key):
            with suppress(ValueError):
                found.days.add(date.fromisoformat(match[1]))
                continue
        if entry.key == CONFIG_KEY:
            found.has_config = True
        elif entry.key.startswith(PROBES):
            found.probes.append(entry)
        elif _PIN.fullmatch(entry.key):
            found.pins.append(entry.key)
        elif not (entry.key.startswith(_LEASES) or _LINK.fullmatch(entry.key) or _is_own(entry.key)):
            add_unknown(found.unknown, entry)
    return found


def _is_own(key: str) -> bool:
    return is_own(key) or discovery.is_own(key) or deploys.is_own(key)


def add_unknown(unknown: dict[str, Folder], entry: ObjectEntry) -> None:
    """Count an object with those that lie beside it."""
    folder = entry.key[: entry.key.rfind("/") + 1]
    unknown.setdefault(folder, Folder(entry.key)).add(entry)


def _outside_days(store: ObjectStore, days: set[date]) -> Iterator[ObjectEntry]:
    """Every object that lies in no day's folder; those days are added to `days`."""
    after: str | None = ""
    while after is not None:
        start, after = after, None
        for entry in store.list(EVERYTHING, start_after=start):
            match = _DAY.fullmatch(entry.key)
            if match and (day := _day(match["day"])):
                days.add(day)
                after = f"{match['folder']}0"  # "0" follows "/"
                break
            yield entry


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


Tables = dict[Part, ObjectEntry]


@dataclass(slots=True)
class Lying:
    """What lies in the folders of a day: tables by the key prefix of their segment or block, and the rest."""

    segments: dict[str, Tables]
    blocks: dict[str, Tables]
    unknown: dict[str, Folder]
    manifest: ObjectEntry | None

    @property
    def objects(self) -> int:
        """How many tables."""
        return sum(map(len, self._all))

    @property
    def bytes(self) -> int:
        """Of all tables."""
        return sum(entry.size for tables in self._all for entry in tables.values())

    @property
    def _all(self) -> list[Tables]:
        return [*self.segments.values(), *self.blocks.values()]


def lying(store: ObjectStore, day: date) -> Lying:
    """List a day."""
    unknown: dict[str, Folder] = {}
    key = manifest.key_of(day)
    named = next((entry for entry in store.list(key) if entry.key == key), None)
    found = [
        _tables(store.list(f"{root}{day.isoformat()}/"), parts, unknown)
        for root, parts in ((segments.ROOT, PARTS), (manifest.BLOCKS, tuple(SCHEMAS)))
    ]
    return Lying(found[0], found[1], unknown, named)


def _tables(
    entries: Iterable[ObjectEntry], parts: tuple[Part, ...], unknown: dict[str, Folder]
) -> dict[str, Tables]:
    found: dict[str, Tables] = {}
    for entry in entries:
        match = _OBJECT.fullmatch(entry.key)
        part = next((part for part in parts if match and match["part"] == part), None)
        if match and part and manifest.is_place(match["place"]):
            found.setdefault(match["place"], {})[part] = entry
        else:
            add_unknown(unknown, entry)
    return found
