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
from sidelight_collector.settings.types import Days
from sidelight_collector.storage import lease, manifest, segments
from sidelight_collector.storage.blocks import rewrite_block
from sidelight_collector.storage.manifest import Block, Manifest, Version
from sidelight_collector.storage.objects import ObjectMissing, ObjectStore, StoreError, StoreUnavailable
from sidelight_collector.storage.pins import Pin, held, read_pins
from sidelight_collector.storage.tables import SCHEMAS, Part

DELETES_AT_ONCE: Final = 8
_DAY: Final = r"(?P<day>\d{4}-\d\d-\d\d)"
_NAME: Final = r"\d{13}-\d{13}-[0-9a-f]{16}"
_IN_ORDER: Final = (
    re.compile(rf"{segments.ROOT}{_DAY}/{_NAME}/samples\.parquet"),
    re.compile(rf"{segments.ROOT}{_DAY}/{_NAME}/(profiles|stacks)\.parquet"),
    re.compile(rf"{manifest.ROOT}{_DAY}\.json"),
    re.compile(rf"{manifest.BLOCKS}{_DAY}/{_NAME}/({'|'.join(SCHEMAS)})\.parquet"),
    lease.KEY,
)
"""Keys that the collector writes. What makes others count goes first, so that no reader finds half of it."""
_log = structlog.get_logger()


class Level(IntEnum):
    """What is kept of windows."""

    NOTHING = 0
    DAY = 1
    HOUR = 2
    WINDOW = 3


KEPT: Final[Mapping[Level, frozenset[Part]]] = {
    Level.WINDOW: frozenset(SCHEMAS),
    Level.HOUR: frozenset(("stacks", "hours", "sums", "daily")),
    Level.DAY: frozenset(("stacks", "hours", "daily")),
    Level.NOTHING: frozenset(),
}
"""The tables of a block at each level; `hours` tells of windows by the hour and pod by pod to the end."""


@dataclass(frozen=True, slots=True)
class Policy:
    """What is kept for how long, of services with days of their own and of all others, and of how many bytes.

    `most_bytes` of segments and blocks together; 0 is any number.
    """

    default: Days
    services: Mapping[str, Days] = field(default_factory=dict)
    most_bytes: int = 0

    def level(self, day: date, service: str, now: datetime) -> Level:
        """What is kept of a service's windows of a day, by their age."""
        return level_at(self.services.get(service, self.default), day, now)

    def is_over(self, day: date, now: datetime) -> bool:
        """Whether nothing is kept of a day."""
        every = (self.default, *self.services.values())
        return all(level_at(days, day, now) is Level.NOTHING for days in every)


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of a block: services by what is to be kept of them, and why. `bytes` go, at least."""

    day: date
    block: Block
    to: Mapping[Level, Sequence[str]]
    why: str

    @property
    def bytes(self) -> int:
        """Of tables that none of its services needs any longer."""
        needed = frozenset(chain.from_iterable(KEPT[level] for level in self.to))
        return sum(size for part, size in self.block.parts.items() if part not in needed)


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to go now: changes of blocks in order of their days, and keys of days that are over, in groups.

    The groups are to be deleted one after the other.
    """

    changes: Sequence[Change]
    keys: Sequence[Sequence[str]]
    versions: Mapping[date, Version]


def last_expired(now: datetime, days: int) -> date:
    """The latest day of which no window is younger than `days` days."""
    return (now.astimezone(UTC) - timedelta(days=days + 1)).date()


def level_at(days: Days, day: date, now: datetime) -> Level:
    """What is kept of a day, by its age."""
    if day > last_expired(now, days.window):
        return Level.WINDOW
    if day > last_expired(now, days.hour):
        return Level.HOUR
    return Level.DAY if day > last_expired(now, days.day) else Level.NOTHING


def level_of(block: Block) -> Level:
    """What is kept of the windows of a block."""
    if block.ref.is_whole:
        return Level.WINDOW
    return Level.HOUR if "sums" in block.parts else Level.DAY


def plan(store: ObjectStore, policy: Policy, now: datetime) -> Plan:
    """What is to go at this moment; blocks. Raises StoreError, PinDamaged for one."""
    pins = read_pins(store)
    versions = dict(_versions(store))
    pressed = _pressed(store, policy, versions, pins, now) if policy.most_bytes else {}
    changes = [
        change
        for day, version in sorted(versions.items())
        for change in _changes(day, version.manifest, policy, pins, pressed.get(day, Level.WINDOW), now)
    ]
    over = [day for day in _days(store) if policy.is_over(day, now) or pressed.get(day) is Level.NOTHING]
    free = {day for day in over if not any(pin.touches(day) for pin in pins)}
    changes = [change for change in changes if change.day not in free]
    return Plan(changes, expired(_keys(store, free), free), versions)


def expired(keys: Iterable[str], days: Iterable[date]) -> list[list[str]]:
    """Those keys that hold these days, in groups to be deleted one after the other.

    A segment without its samples object does not count, nor does a block that no manifest names. Keys that
    the collector does not write are never among them.
    """
    over = {day.isoformat() for day in days}
    groups: list[list[str]] = [[] for _ in _IN_ORDER]
    for key in keys:
        for group, written in zip(groups, _IN_ORDER, strict=True):
            if match := written.fullmatch(key):
                if match["day"] in over:
                    group.append(key)
                break
    return [sorted(group) for group in groups]


def _versions(store: ObjectStore) -> Iterator[tuple[date, Version]]:
    """The manifests of all days, but for those that are damaged: their blocks stay as they are."""
    for day in manifest.days(store):
        try:
            yield day, manifest.read(store, day)
        except StoreUnavailable:
            raise
        except StoreError as error:
            _log.warning("day left out of retention", error=error.message, hint=error.hint)


def _changes(
    day: date, known: Manifest, policy: Policy, pins: Sequence[Pin], most: Level, now: datetime
) -> Iterator[Change]:
    """What becomes of the blocks of a day of which at most this level may stay."""
    for block in known.blocks:
        has = level_of(block)
        to: dict[Level, list[str]] = defaultdict(list)
        aged = False
        for service in block.services:
            by_age = policy.level(day, service, now)
            level = has if held(pins, day, service) else min(has, by_age, most)
            aged |= level == by_age < has
            to[level].append(service)
        if set(to) != {has}:
            yield Change(day, block, dict(to), "age" if aged else "size")


def _pressed(
    store: ObjectStore, policy: Policy, versions: Mapping[date, Version], pins: Sequence[Pin], now: datetime
) -> dict[date, Level]:
    """The most that may stay of days so that everything together is small enough.

    The oldest windows go first, then the oldest hours, then the oldest days. Today stays, and so does what is
    not in blocks yet.
    """
    sizes = {day: _sizes(day, version.manifest, policy, pins, now) for day, version in versions.items()}
    too_many = sum(entry.size for entry in store.list(segments.ROOT)) - policy.most_bytes
    too_many += sum(sum(levels.values()) for levels in sizes.values())
    most: dict[date, Level] = {}
    old = [day for day in sorted(sizes) if day < now.astimezone(UTC).date()]
    for level in (Level.WINDOW, Level.HOUR, Level.DAY):
        for day in old:
            if too_many > 0 and (size := sizes[day].get(level, 0)):
                most[day] = Level(level - 1)
                too_many -= size
    return most


def _sizes(
    day: date, known: Manifest, policy: Policy, pins: Sequence[Pin], now: datetime
) -> Mapping[Level, int]:
    """The bytes that go with each level of a day, once what is too old has gone; NOTHING: what is held."""
    sizes: dict[Level, int] = defaultdict(int)
    for block in known.blocks:
        keeps = any(held(pins, day, service) for service in block.services)
        level = max(policy.level(day, service, now) for service in block.services)
        for part, size in block.parts.items():
            of = min(own for own in Level if part in KEPT[own])
            if keeps:
                sizes[Level.NOTHING] += size
            elif of <= level:
                sizes[of] += size
    return sizes


def _days(store: ObjectStore) -> list[date]:
    """Days of which there is anything, segments or blocks or a manifest or a lease."""
    roots = (segments.ROOT, manifest.BLOCKS)
    named = (*manifest.days(store), *lease.days(store))
    return sorted({*named, *chain.from_iterable(segments.days(store, root) for root in roots)})


def _keys(store: ObjectStore, days: Iterable[date]) -> Iterator[str]:
    for day in sorted(days):
        named = (manifest.key_of(day), lease.key_of(day))
        for root in (f"{segments.ROOT}{day}/", f"{manifest.BLOCKS}{day}/", *named):
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
        policy: Policy,
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
            await loop.run_in_executor(None, self.look, now, stop.is_set)
            try:
                async with asyncio.timeout(self._interval_seconds):
                    await stop.wait()
            except TimeoutError:
                continue

    def look(self, now: datetime, stopped: Callable[[], bool] = lambda: False) -> None:
        """Do once what is to be done now; blocks. What is left when `stopped` waits for the next look."""
        try:
            found = plan(self._store, self._policy, now)
            for change in found.changes:
                if stopped():
                    return
                self._change(change)
            self._delete(found.keys, stopped)
            self._metrics.retention_deleted.inc(self._expire(now.timestamp(), stopped))
        except StoreError as error:
            self._failed(error)

    def _change(self, change: Change) -> None:
        """Say in the manifest of its day what becomes of a block; if it has changed, the next look will."""
        try:
            known = manifest.read(self._store, change.day)
            if change.block not in known.manifest.blocks:
                return
            self._revisit(change.day)
            made, gone = self._made(change)
            blocks = [made if each == change.block else [each] for each in known.manifest.blocks]
            content = Manifest(tuple(chain.from_iterable(blocks)), known.manifest.gone | gone)
            if manifest.commit(self._store, change.day, known, content) is None:
                return
        except ObjectMissing:
            return  # compaction was faster
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._failed(error)
            return
        self._metrics.retention_downsampled.inc()
        to = {level.name.lower(): list(services) for level, services in change.to.items()}
        _log.info("block rotated", key=change.block.ref.key_prefix, to=to, why=change.why, bytes=change.bytes)

    def _made(self, change: Change) -> tuple[list[Block], frozenset[str]]:
        """What takes the place of a block, and what is gone then."""
        block, to = change.block, {level: names for level, names in change.to.items() if level}
        if len(change.to) == 1 and all(KEPT[level] <= block.ref.parts for level in to):
            kept = [block.without(block.ref.parts - KEPT[level]) for level in to]
            parts = block.ref.parts - kept[0].ref.parts if kept else ()
            keys = [block.ref.key(part) for part in parts] or [block.ref.key_prefix]
            return kept, frozenset(keys)
        made = [
            rewrite_block(self._store, change.day, block, names, KEPT[level])
            for level, names in sorted(to.items(), reverse=True)
        ]
        return made, frozenset([block.ref.key_prefix])

    def _delete(self, groups: Sequence[Sequence[str]], stopped: Callable[[], bool]) -> None:
        deleted = 0
        try:
            with ThreadPoolExecutor(DELETES_AT_ONCE, thread_name_prefix="retention") as threads:
                for group in (group for keys in groups for group in _batched(keys)):
                    if stopped():
                        break
                    for _ in threads.map(self._store.delete, group):
                        deleted += 1
        finally:
            self._metrics.retention_deleted.inc(deleted)
            if deleted:
                _log.info("old windows deleted", objects=deleted)

    def _failed(self, error: StoreError) -> None:
        self._metrics.retention_errors.inc()
        _log.warning("retention failed", error=error.message, hint=error.hint)


def _batched(keys: Sequence[str]) -> Iterator[Sequence[str]]:
    """Keys in groups of DELETES_AT_ONCE."""
    for start in range(0, len(keys), DELETES_AT_ONCE):
        yield keys[start : start + DELETES_AT_ONCE]
