"""Listing of a store: its days, and the objects outside of days."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date
from typing import Final

from sidelight_collector.captures.capture_repository import is_capture_key
from sidelight_collector.deploys import deploy_repository as deploys
from sidelight_collector.kubernetes_discovery import shared_state as discovery
from sidelight_collector.notes.note_repository import is_note_key
from sidelight_collector.storage import manifest, segments
from sidelight_collector.storage.backends.open_store import CONFIG_KEY, PROBE_ROOT
from sidelight_collector.storage.objects import ObjectEntry, ObjectStore
from sidelight_collector.storage.tables import BLOCK_PARTS, SCHEMAS, SEGMENT_PARTS, SegmentPart

ROOT: Final = "v1/"
_DAY_KEY_PATTERN: Final = re.compile(
    rf"(?P<folder>(?:{segments.ROOT}|{manifest.BLOCK_ROOT}|{manifest.ROLLUP_ROOT})(?P<day>\d{{4}}-\d\d-\d\d))/.*",
    re.DOTALL,
)
_MANIFEST_KEY_PATTERN: Final = re.compile(rf"{manifest.ROOT}(\d{{4}}-\d\d-\d\d)\.json")
_TABLE_KEY_PATTERN: Final = re.compile(r"(?P<place>v1/[^/]+/[^/]+/[^/]+/)(?P<part>[a-z]+)\.parquet")
_PIN_KEY_PATTERN: Final = re.compile(r"v1/pins/[a-z0-9][a-z0-9._-]{0,62}\.json")
_LEASE_ROOT: Final = "v1/lease/"
_LINK_KEY_PATTERN: Final = re.compile(r"v1/links/[a-z2-7]{16}\.json")


@dataclass(slots=True)
class ObjectGroup:
    """The objects of one folder: their number, total size and latest modification.

    `last_modified` is in Unix seconds.
    """

    first_key: str
    objects: int = 0
    total_bytes: int = 0
    last_modified: float = 0.0

    def add(self, entry: ObjectEntry) -> None:
        self.objects += 1
        self.total_bytes += entry.size
        self.last_modified = max(self.last_modified, entry.modified)


@dataclass(slots=True)
class StoreSurvey:
    """The days of a store, and its objects outside the folders of days."""

    days: set[date] = field(default_factory=set)
    has_config: bool = False
    probes: list[ObjectEntry] = field(default_factory=list)
    pins: list[str] = field(default_factory=list)
    unknown: dict[str, ObjectGroup] = field(default_factory=dict)
    objects: int = 0

    @property
    def is_empty(self) -> bool:
        return not (self.days or self.has_config or self.probes or self.unknown or self.objects)


def survey_store(store: ObjectStore) -> StoreSurvey:
    """Survey a store without listing the objects of its days."""
    result = StoreSurvey()
    for entry in _iter_outside_days(store, result.days):
        result.objects += 1
        if match := _MANIFEST_KEY_PATTERN.fullmatch(entry.key):
            with suppress(ValueError):
                result.days.add(date.fromisoformat(match[1]))
                continue
        if entry.key == CONFIG_KEY:
            result.has_config = True
        elif entry.key.startswith(PROBE_ROOT):
            result.probes.append(entry)
        elif _PIN_KEY_PATTERN.fullmatch(entry.key):
            result.pins.append(entry.key)
        elif not (
            entry.key.startswith(_LEASE_ROOT)
            or _LINK_KEY_PATTERN.fullmatch(entry.key)
            or _is_known_key(entry.key)
        ):
            add_unknown(result.unknown, entry)
    return result


def _is_known_key(key: str) -> bool:
    checks = is_capture_key, discovery.is_discovery_key, deploys.is_deploy_key, is_note_key
    return any(is_known(key) for is_known in checks)


def add_unknown(unknown: dict[str, ObjectGroup], entry: ObjectEntry) -> None:
    """Count an unknown object in the group of its folder."""
    folder = entry.key[: entry.key.rfind("/") + 1]
    unknown.setdefault(folder, ObjectGroup(entry.key)).add(entry)


def _iter_outside_days(store: ObjectStore, days: set[date]) -> Iterator[ObjectEntry]:
    """Iterate over the objects outside the folders of days.

    Adds the days of the skipped folders to `days`.
    """
    after: str | None = ""
    while after is not None:
        start, after = after, None
        for entry in store.list(ROOT, start_after=start):
            match = _DAY_KEY_PATTERN.fullmatch(entry.key)
            if match and (day := _parse_day(match["day"])):
                days.add(day)
                after = f"{match['folder']}0"  # "0" follows "/"
                break
            yield entry


def _parse_day(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


PartEntries = dict[SegmentPart, ObjectEntry]


@dataclass(slots=True)
class DayObjects:
    """The objects of a day: tables by the prefix of their keys, and others."""

    segments: dict[str, PartEntries]
    blocks: dict[str, PartEntries]
    rollups: dict[str, PartEntries]
    unknown: dict[str, ObjectGroup]
    manifest: ObjectEntry | None

    @property
    def table_count(self) -> int:
        """The number of all tables."""
        return sum(map(len, self._tables))

    @property
    def total_bytes(self) -> int:
        """The size of all tables in bytes."""
        return sum(entry.size for tables in self._tables for entry in tables.values())

    @property
    def _tables(self) -> list[PartEntries]:
        return [*self.segments.values(), *self.blocks.values(), *self.rollups.values()]


def list_day(store: ObjectStore, day: date) -> DayObjects:
    """List the objects of a day."""
    unknown: dict[str, ObjectGroup] = {}
    key = manifest.key_of(day)
    manifest_entry = next((entry for entry in store.list(key) if entry.key == key), None)
    groups = [
        _group_tables(store.list(f"{root}{day.isoformat()}/"), parts, unknown)
        for root, parts in (
            (segments.ROOT, SEGMENT_PARTS),
            (manifest.BLOCK_ROOT, BLOCK_PARTS),
            (manifest.ROLLUP_ROOT, tuple(SCHEMAS)),
        )
    ]
    return DayObjects(groups[0], groups[1], groups[2], unknown, manifest_entry)


def _group_tables(
    entries: Iterable[ObjectEntry], parts: tuple[SegmentPart, ...], unknown: dict[str, ObjectGroup]
) -> dict[str, PartEntries]:
    groups: dict[str, PartEntries] = {}
    for entry in entries:
        match = _TABLE_KEY_PATTERN.fullmatch(entry.key)
        part = next((part for part in parts if match and match["part"] == part), None)
        if match and part and manifest.is_key_prefix(match["place"]):
            groups.setdefault(match["place"], {})[part] = entry
        else:
            add_unknown(unknown, entry)
    return groups
