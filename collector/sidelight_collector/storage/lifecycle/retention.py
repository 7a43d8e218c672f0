"""Rotation: windows become hours of windows, then days, then nothing, as they get older or take too much.

What a block has of a day goes table by table: first its windows one by one (`profiles`, `samples`), then what
they add up to by the hour (`sums`), then the whole of it. That is said in the day's manifest, at once and for
all readers; the objects themselves are deleted by compaction, once no query can be reading them any longer.
Services may be kept for other times than the rest, and pins keep everything of a day as it is: a block of
which some services stay and others go is written as two.

Nothing but keys that the collector writes is ever deleted.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from itertools import chain
from typing import Final

import structlog

from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.storage import lease, manifest, segments
from sidelight_collector.storage.blocks import rewrite_block
from sidelight_collector.storage.manifest import Block, Manifest, ManifestVersion
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreError, StoreUnavailable
from sidelight_collector.storage.pins import Pin, is_pinned, read_pins
from sidelight_collector.storage.tables import SCHEMAS, SegmentPart

DELETE_CONCURRENCY: Final = 8
_DAY_PATTERN: Final = r"(?P<day>\d{4}-\d\d-\d\d)"
_NAME_PATTERN: Final = r"\d{13}-\d{13}-[0-9a-f]{16}"
_DELETION_ORDER: Final = (
    re.compile(rf"{segments.ROOT}{_DAY_PATTERN}/{_NAME_PATTERN}/samples\.parquet"),
    re.compile(rf"{segments.ROOT}{_DAY_PATTERN}/{_NAME_PATTERN}/(profiles|stacks)\.parquet"),
    re.compile(rf"{manifest.ROOT}{_DAY_PATTERN}\.json"),
    re.compile(rf"{manifest.BLOCK_ROOT}{_DAY_PATTERN}/{_NAME_PATTERN}/({'|'.join(SCHEMAS)})\.parquet"),
    lease.KEY_PATTERN,
)
"""Keys that the collector writes. What makes others count goes first, so that no reader finds half of it."""
_log = structlog.get_logger()


class Resolution(IntEnum):
    """What is kept of windows."""

    NOTHING = 0
    DAY = 1
    HOUR = 2
    WINDOW = 3


RESOLUTION_PARTS: Final[Mapping[Resolution, frozenset[SegmentPart]]] = {
    Resolution.WINDOW: frozenset(SCHEMAS),
    Resolution.HOUR: frozenset(("stacks", "hours", "sums", "daily")),
    Resolution.DAY: frozenset(("stacks", "hours", "daily")),
    Resolution.NOTHING: frozenset(),
}
"""The tables of a block at each level; `hours` tells of windows by the hour and pod by pod to the end."""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """What is kept for how long, of services with days of their own and of all others, and of how many bytes.

    `max_bytes` of segments and blocks together; 0 is any number.
    """

    default_days: RetentionDays
    service_days: Mapping[str, RetentionDays] = field(default_factory=dict)
    max_bytes: int = 0

    def resolution_for(self, day: date, service: str, now: datetime) -> Resolution:
        """What is kept of a service's windows of a day, by their age."""
        return resolution_at(self.service_days.get(service, self.default_days), day, now)

    def is_expired(self, day: date, now: datetime) -> bool:
        """Whether nothing is kept of a day."""
        every = (self.default_days, *self.service_days.values())
        return all(resolution_at(days, day, now) is Resolution.NOTHING for days in every)


@dataclass(frozen=True, slots=True)
class BlockChange:
    """What becomes of a block: services by what is to be kept of them, and why. `freed_bytes` go, at
    least.
    """

    day: date
    block: Block
    services_by_resolution: Mapping[Resolution, Sequence[str]]
    cause: str

    @property
    def freed_bytes(self) -> int:
        """Of tables that none of its services needs any longer."""
        needed = frozenset(
            chain.from_iterable(RESOLUTION_PARTS[level] for level in self.services_by_resolution)
        )
        return sum(size for part, size in self.block.parts.items() if part not in needed)


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What is to go now: changes of blocks in order of their days, and keys of days that are over, in groups.

    The groups are to be deleted one after the other.
    """

    changes: Sequence[BlockChange]
    expired_keys: Sequence[Sequence[str]]
    versions: Mapping[date, ManifestVersion]


def last_expired_day(now: datetime, days: int) -> date:
    """The latest day of which no window is younger than `days` days."""
    return (now.astimezone(UTC) - timedelta(days=days + 1)).date()


def resolution_at(days: RetentionDays, day: date, now: datetime) -> Resolution:
    """What is kept of a day, by its age."""
    if day > last_expired_day(now, days.window):
        return Resolution.WINDOW
    if day > last_expired_day(now, days.hour):
        return Resolution.HOUR
    return Resolution.DAY if day > last_expired_day(now, days.day) else Resolution.NOTHING


def resolution_of(block: Block) -> Resolution:
    """What is kept of the windows of a block."""
    if block.ref.is_raw:
        return Resolution.WINDOW
    return Resolution.HOUR if "sums" in block.parts else Resolution.DAY


def plan_retention(store: ObjectStore, policy: RetentionPolicy, now: datetime) -> RetentionPlan:
    """What is to go at this moment; blocks. Raises StoreError, PinDamaged for one."""
    pins = read_pins(store)
    versions = dict(_read_manifests(store))
    pressed = _apply_size_limit(store, policy, versions, pins, now) if policy.max_bytes else {}
    changes = [
        change
        for day, version in sorted(versions.items())
        for change in _plan_changes(
            day, version.manifest, policy, pins, pressed.get(day, Resolution.WINDOW), now
        )
    ]
    over = [
        day
        for day in _list_days(store)
        if policy.is_expired(day, now) or pressed.get(day) is Resolution.NOTHING
    ]
    free = {day for day in over if not any(pin.covers_day(day) for pin in pins)}
    changes = [change for change in changes if change.day not in free]
    return RetentionPlan(changes, select_expired_keys(_list_keys(store, free), free), versions)


def select_expired_keys(keys: Iterable[str], days: Iterable[date]) -> list[list[str]]:
    """Those keys that hold these days, in groups to be deleted one after the other.

    A segment without its samples object does not count, nor does a block that no manifest names. Keys that
    the collector does not write are never among them.
    """
    over = {day.isoformat() for day in days}
    groups: list[list[str]] = [[] for _ in _DELETION_ORDER]
    for key in keys:
        for group, written in zip(groups, _DELETION_ORDER, strict=True):
            if match := written.fullmatch(key):
                if match["day"] in over:
                    group.append(key)
                break
    return [sorted(group) for group in groups]


def _read_manifests(store: ObjectStore) -> Iterator[tuple[date, ManifestVersion]]:
    """The manifests of all days, but for those that are damaged: their blocks stay as they are."""
    for day in manifest.list_days(store):
        try:
            yield day, manifest.read(store, day)
        except StoreUnavailable:
            raise
        except StoreError as error:
            _log.warning("day left out of retention", error=error.message, hint=error.hint)


def _plan_changes(
    day: date,
    day_manifest: Manifest,
    policy: RetentionPolicy,
    pins: Sequence[Pin],
    max_resolution: Resolution,
    now: datetime,
) -> Iterator[BlockChange]:
    """What becomes of the blocks of a day of which at most this level may stay."""
    for block in day_manifest.blocks:
        has = resolution_of(block)
        to: dict[Resolution, list[str]] = defaultdict(list)
        aged = False
        for service in block.services:
            by_age = policy.resolution_for(day, service, now)
            level = has if is_pinned(pins, day, service) else min(has, by_age, max_resolution)
            aged |= level == by_age < has
            to[level].append(service)
        if set(to) != {has}:
            yield BlockChange(day, block, dict(to), "age" if aged else "size")


def _apply_size_limit(
    store: ObjectStore,
    policy: RetentionPolicy,
    versions: Mapping[date, ManifestVersion],
    pins: Sequence[Pin],
    now: datetime,
) -> dict[date, Resolution]:
    """The most that may stay of days so that everything together is small enough.

    The oldest windows go first, then the oldest hours, then the oldest days. Today stays, and so does what is
    not in blocks yet.
    """
    sizes = {
        day: _measure_bytes(day, version.manifest, policy, pins, now) for day, version in versions.items()
    }
    too_many = sum(entry.size for entry in store.list(segments.ROOT)) - policy.max_bytes
    too_many += sum(sum(levels.values()) for levels in sizes.values())
    most: dict[date, Resolution] = {}
    old = [day for day in sorted(sizes) if day < now.astimezone(UTC).date()]
    for level in (Resolution.WINDOW, Resolution.HOUR, Resolution.DAY):
        for day in old:
            if too_many > 0 and (size := sizes[day].get(level, 0)):
                most[day] = Resolution(level - 1)
                too_many -= size
    return most


def _measure_bytes(
    day: date, day_manifest: Manifest, policy: RetentionPolicy, pins: Sequence[Pin], now: datetime
) -> Mapping[Resolution, int]:
    """The bytes that go with each level of a day, once what is too old has gone; NOTHING: what is held."""
    sizes: dict[Resolution, int] = defaultdict(int)
    for block in day_manifest.blocks:
        keeps = any(is_pinned(pins, day, service) for service in block.services)
        level = max(policy.resolution_for(day, service, now) for service in block.services)
        for part, size in block.parts.items():
            of = min(own for own in Resolution if part in RESOLUTION_PARTS[own])
            if keeps:
                sizes[Resolution.NOTHING] += size
            elif of <= level:
                sizes[of] += size
    return sizes


def _list_days(store: ObjectStore) -> list[date]:
    """Days of which there is anything, segments or blocks or a manifest or a lease."""
    roots = (segments.ROOT, manifest.BLOCK_ROOT)
    named = (*manifest.list_days(store), *lease.list_days(store))
    return sorted({*named, *chain.from_iterable(segments.list_days(store, root) for root in roots)})


def _list_keys(store: ObjectStore, days: Iterable[date]) -> Iterator[str]:
    for day in sorted(days):
        named = (manifest.key_of(day), lease.key_of(day))
        for root in (f"{segments.ROOT}{day}/", f"{manifest.BLOCK_ROOT}{day}/", *named):
            for entry in store.list(root):
                yield entry.key


class Retention:
    """Looks for what has to go every so often, as a root task; a failing store is waited for.

    `revisit` is told of each day of which compaction has objects to delete from now on; `expire` deletes what
    else is too old at a Unix second, until it is told to stop, and says how many objects.
    """

    def __init__(
        self,
        store: ObjectStore,
        metrics: Metrics,
        *,
        policy: RetentionPolicy,
        interval_seconds: float,
        clock: Callable[[], float] = time.time,
        revisit: Callable[[date], None] = lambda _: None,
        expire: Callable[[float, Callable[[], bool]], int] = lambda _, __: 0,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._policy = policy
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._revisit = revisit
        self._expire = expire

    async def run(self, stop: asyncio.Event) -> None:
        """Rotate and wait, until `stop` is set."""
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            now = datetime.fromtimestamp(self._clock(), UTC)
            await loop.run_in_executor(None, self.run_once, now, stop.is_set)
            try:
                async with asyncio.timeout(self._interval_seconds):
                    await stop.wait()
            except TimeoutError:
                continue

    def run_once(self, now: datetime, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Do once what is to be done now; blocks. What is left when `should_stop` waits for the next look."""
        try:
            found = plan_retention(self._store, self._policy, now)
            for change in found.changes:
                if should_stop():
                    return
                self._apply_change(change)
            self._delete_keys(found.expired_keys, should_stop)
            self._metrics.retention_deleted.inc(self._expire(now.timestamp(), should_stop))
        except StoreError as error:
            self._record_failure(error)

    def _apply_change(self, change: BlockChange) -> None:
        """Say in the manifest of its day what becomes of a block; if it has changed, the next look will."""
        try:
            known = manifest.read(self._store, change.day)
            if change.block not in known.manifest.blocks:
                return
            self._revisit(change.day)
            made, gone = self._build_replacement(change)
            blocks = [made if each == change.block else [each] for each in known.manifest.blocks]
            content = Manifest(tuple(chain.from_iterable(blocks)), known.manifest.tombstones | gone)
            if manifest.commit(self._store, change.day, known, content) is None:
                return
        except ObjectMissing:
            return  # compaction was faster
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._record_failure(error)
            return
        self._metrics.retention_downsampled.inc()
        to = {level.name.lower(): list(services) for level, services in change.services_by_resolution.items()}
        _log.info(
            "block rotated",
            key=change.block.ref.key_prefix,
            to=to,
            why=change.cause,
            bytes=change.freed_bytes,
        )

    def _build_replacement(self, change: BlockChange) -> tuple[list[Block], frozenset[str]]:
        """What takes the place of a block, and what is gone then."""
        block, to = (
            change.block,
            {level: names for level, names in change.services_by_resolution.items() if level},
        )
        if len(change.services_by_resolution) == 1 and all(
            RESOLUTION_PARTS[level] <= block.ref.parts for level in to
        ):
            kept = [block.drop_parts(block.ref.parts - RESOLUTION_PARTS[level]) for level in to]
            parts = block.ref.parts - kept[0].ref.parts if kept else ()
            keys = [block.ref.key(part) for part in parts] or [block.ref.key_prefix]
            return kept, frozenset(keys)
        made = [
            rewrite_block(self._store, change.day, block, names, RESOLUTION_PARTS[level])
            for level, names in sorted(to.items(), reverse=True)
        ]
        return made, frozenset([block.ref.key_prefix])

    def _delete_keys(self, groups: Sequence[Sequence[str]], should_stop: Callable[[], bool]) -> None:
        deleted = 0
        try:
            with ThreadPoolExecutor(DELETE_CONCURRENCY, thread_name_prefix="retention") as threads:
                for group in (group for keys in groups for group in _batched(keys)):
                    if should_stop():
                        break
                    for _ in threads.map(self._store.delete, group):
                        deleted += 1
        finally:
            self._metrics.retention_deleted.inc(deleted)
            if deleted:
                _log.info("old windows deleted", objects=deleted)

    def _record_failure(self, error: StoreError) -> None:
        self._metrics.retention_errors.inc()
        _log.warning("retention failed", error=error.message, hint=error.hint)


def _batched(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Keys in groups of DELETES_AT_ONCE."""
    for start in range(0, len(keys), DELETE_CONCURRENCY):
        yield keys[start : start + DELETE_CONCURRENCY]
