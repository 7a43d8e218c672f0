"""Retention, which downsamples old windows to hours and days, then deletes them.

Windows are also downsampled when the store exceeds a size limit. Retention drops the tables of a block in
steps: first the individual windows (`profiles`, `samples`), then the hourly sums (`sums`), then the rest.
It commits each step to the manifest of the day, which takes effect for all readers at once. Compaction
deletes the objects once no query can still be reading them. Services may have retention times of their own,
and pins protect the windows of whole days. If the services of a block need different resolutions, retention
rewrites the block as several blocks.

Without its single windows, a day has no ids that tell a repeated window from a new one. Retention therefore
closes a day for further windows first, and waits until compaction has merged those that were acknowledged.

Retention only deletes keys that the collector writes.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from enum import IntEnum
from itertools import chain
from typing import Final

import structlog

from sidelight.waiting import wait_for_event
from sidelight_collector.metrics import Metrics
from sidelight_collector.settings.types import RetentionDays
from sidelight_collector.storage import lease, manifest, segments
from sidelight_collector.storage.blocks import rewrite_block
from sidelight_collector.storage.documents import Stored
from sidelight_collector.storage.manifest import Block, DayState, Manifest
from sidelight_collector.storage.objects import (
    DELETE_CONCURRENCY,
    ObjectMissing,
    ObjectStore,
    StoreError,
    StoreUnavailable,
)
from sidelight_collector.storage.pins import Pin, is_pinned, read_pins
from sidelight_collector.storage.tables import BLOCK_PARTS, DAY_NS, SCHEMAS, SegmentPart

MAX_CLOSING_SECONDS: Final = 6 * 3600.0
"""Longest wait for compaction of a day that is being closed; it never merges a damaged segment."""
_DAY_PATTERN: Final = r"(?P<day>\d{4}-\d\d-\d\d)"
_NAME_PATTERN: Final = r"\d{13}-\d{13}-[0-9a-f]{16}"
_DELETION_ORDER: Final = (
    re.compile(rf"{segments.ROOT}{_DAY_PATTERN}/{_NAME_PATTERN}/samples\.parquet"),
    re.compile(rf"{segments.ROOT}{_DAY_PATTERN}/{_NAME_PATTERN}/(profiles|stacks)\.parquet"),
    re.compile(rf"{manifest.ROOT}{_DAY_PATTERN}\.json"),
    re.compile(
        rf"(?:{manifest.BLOCK_ROOT}|{manifest.ROLLUP_ROOT}){_DAY_PATTERN}/{_NAME_PATTERN}/({'|'.join(SCHEMAS)})\.parquet"
    ),
    lease.KEY_PATTERN,
)
"""Patterns of keys that the collector writes, in order of deletion.

Objects that make other objects count are deleted first, so that no reader finds an incomplete segment or
day.
"""
_log = structlog.get_logger()


class Resolution(IntEnum):
    """The finest time resolution at which windows are stored."""

    NOTHING = 0
    DAY = 1
    HOUR = 2
    WINDOW = 3


RESOLUTION_PARTS: Final[Mapping[Resolution, frozenset[SegmentPart]]] = {
    Resolution.WINDOW: frozenset(BLOCK_PARTS),
    Resolution.HOUR: frozenset(("stacks", "hours", "sums", "daily")),
    Resolution.DAY: frozenset(("stacks", "hours", "daily")),
    Resolution.NOTHING: frozenset(),
}
"""The tables of a block at each resolution.

At all resolutions, `hours` describes windows by hour and by pod.
"""


@dataclass(frozen=True, slots=True)
class RetentionPolicy:
    """How long windows are stored at which resolution, and a size limit.

    `service_days` has the services with retention times of their own; `default_days` is for all others.
    `max_bytes` limits the size of segments and blocks together; 0 means no limit.
    """

    default_days: RetentionDays
    service_days: Mapping[str, RetentionDays] = field(default_factory=dict)
    max_bytes: int = 0

    def resolution_for(self, day: date, service: str, now: datetime) -> Resolution:
        """Return the resolution at which a service's windows of `day` are stored."""
        return resolution_at(self.service_days.get(service, self.default_days), day, now)

    def is_expired(self, day: date, now: datetime) -> bool:
        """Return whether the windows of all services of a day have expired."""
        all_days = (self.default_days, *self.service_days.values())
        return all(resolution_at(days, day, now) is Resolution.NOTHING for days in all_days)


@dataclass(frozen=True, slots=True)
class BlockChange:
    """A planned change of a block: the target resolution of its services.

    `cause` is `age` or `size`.
    """

    day: date
    block: Block
    services_by_resolution: Mapping[Resolution, Sequence[str]]
    cause: str

    @property
    def drops_windows(self) -> bool:
        """Whether single windows of the block are dropped, and with them their ids."""
        return self.block.ref.is_raw and any(
            level is not Resolution.WINDOW for level in self.services_by_resolution
        )

    @property
    def freed_bytes(self) -> int:
        """Bytes of the tables that no service needs any longer.

        The change frees at least these.
        """
        needed = frozenset(
            chain.from_iterable(RESOLUTION_PARTS[level] for level in self.services_by_resolution)
        )
        return sum(size for part, size in self.block.parts.items() if part not in needed)


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """Block changes in order of day, and keys of expired days to delete.

    `expired_keys` has groups of keys, to be deleted one group after the other. `versions` are the manifests
    that the plan is based on.
    """

    changes: Sequence[BlockChange]
    expired_keys: Sequence[Sequence[str]]
    versions: Mapping[date, Stored[Manifest]]


def day_start_ns(day: date) -> int:
    """Return the start of a day (UTC) in Unix nanoseconds."""
    return int(datetime.combine(day, datetime.min.time(), UTC).timestamp()) * 10**9


def last_expired_day(now: datetime, days: int) -> date:
    """Return the latest day whose windows are all at least `days` days old."""
    return (now.astimezone(UTC) - timedelta(days=days + 1)).date()


def resolution_at(days: RetentionDays, day: date, now: datetime) -> Resolution:
    """Return the resolution at which windows of `day` are stored at `now`."""
    if day > last_expired_day(now, days.window):
        return Resolution.WINDOW
    if day > last_expired_day(now, days.hour):
        return Resolution.HOUR
    return Resolution.DAY if day > last_expired_day(now, days.day) else Resolution.NOTHING


def resolution_of(block: Block) -> Resolution:
    if block.ref.is_raw:
        return Resolution.WINDOW
    return Resolution.HOUR if "sums" in block.parts else Resolution.DAY


def plan_retention(store: ObjectStore, policy: RetentionPolicy, now: datetime) -> RetentionPlan:
    """Plan what retention changes and deletes at `now`; blocks.

    Raises StoreError, for instance PinDamaged.
    """
    pins = read_pins(store)
    versions = dict(_read_manifests(store))
    size_limited = _apply_size_limit(store, policy, versions, pins, now) if policy.max_bytes else {}
    changes = [
        change
        for day, version in sorted(versions.items())
        for change in _plan_changes(
            day, version.document, policy, pins, size_limited.get(day, Resolution.WINDOW), now
        )
    ]
    expired_days = [
        day
        for day in _list_days(store)
        if policy.is_expired(day, now) or size_limited.get(day) is Resolution.NOTHING
    ]
    deletable_days = {day for day in expired_days if not any(pin.covers_day(day) for pin in pins)}
    changes = [change for change in changes if change.day not in deletable_days]
    return RetentionPlan(
        changes, select_expired_keys(_list_keys(store, deletable_days), deletable_days), versions
    )


def select_expired_keys(keys: Iterable[str], days: Iterable[date]) -> list[list[str]]:
    """Select the keys of these days, in groups to delete one after the other.

    The first groups make the others ineffective: a segment without its `samples` object does not count, nor
    does a block that no manifest names. Keys that the collector does not write are never selected.
    """
    expired_days = {day.isoformat() for day in days}
    groups: list[list[str]] = [[] for _ in _DELETION_ORDER]
    for key in keys:
        for group, pattern in zip(groups, _DELETION_ORDER, strict=True):
            if match := pattern.fullmatch(key):
                if match["day"] in expired_days:
                    group.append(key)
                break
    return [sorted(group) for group in groups]


def _read_manifests(store: ObjectStore) -> Iterator[tuple[date, Stored[Manifest]]]:
    """Read the manifests of all days; skips damaged ones, whose blocks stay unchanged."""
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
    """Plan the changes of a day's blocks, stored at `max_resolution` at most."""
    for block in day_manifest.blocks:
        current = resolution_of(block)
        services_by_resolution: dict[Resolution, list[str]] = defaultdict(list)
        is_aged = False
        for service in block.services:
            by_age = policy.resolution_for(day, service, now)
            level = current if is_pinned(pins, day, service) else min(current, by_age, max_resolution)
            is_aged |= level == by_age < current
            services_by_resolution[level].append(service)
        if set(services_by_resolution) != {current}:
            yield BlockChange(day, block, dict(services_by_resolution), "age" if is_aged else "size")


def _apply_size_limit(
    store: ObjectStore,
    policy: RetentionPolicy,
    versions: Mapping[date, Stored[Manifest]],
    pins: Sequence[Pin],
    now: datetime,
) -> dict[date, Resolution]:
    """Limit the resolution of old days so that the store fits `policy.max_bytes`.

    Returns the days to downsample with the finest resolution that they may have. The oldest windows are
    dropped first, then the oldest hours, then the oldest days. Today's blocks and all segments are not
    dropped.
    """
    sizes = {
        day: _measure_bytes(day, version.document, policy, pins, now) for day, version in versions.items()
    }
    excess_bytes = sum(entry.size for entry in store.list(segments.ROOT)) - policy.max_bytes
    excess_bytes += sum(sum(levels.values()) for levels in sizes.values())
    max_resolutions: dict[date, Resolution] = {}
    past_days = [day for day in sorted(sizes) if day < now.astimezone(UTC).date()]
    for level in (Resolution.WINDOW, Resolution.HOUR, Resolution.DAY):
        for day in past_days:
            if excess_bytes > 0 and (size := sizes[day].get(level, 0)):
                max_resolutions[day] = Resolution(level - 1)
                excess_bytes -= size
    return max_resolutions


def _measure_bytes(
    day: date, day_manifest: Manifest, policy: RetentionPolicy, pins: Sequence[Pin], now: datetime
) -> Mapping[Resolution, int]:
    """Measure the bytes that dropping each resolution of a day would free.

    Tables that expire by age do not count. Bytes of blocks that a pin protects count for
    Resolution.NOTHING.
    """
    sizes: dict[Resolution, int] = defaultdict(int)
    for block in day_manifest.blocks:
        is_protected = any(is_pinned(pins, day, service) for service in block.services)
        level = max(policy.resolution_for(day, service, now) for service in block.services)
        for part, size in block.parts.items():
            part_resolution = min(
                resolution for resolution in Resolution if part in RESOLUTION_PARTS[resolution]
            )
            if is_protected:
                sizes[Resolution.NOTHING] += size
            elif part_resolution <= level:
                sizes[part_resolution] += size
    for rollup in day_manifest.live_rollups:  # they go with the single windows of their blocks
        is_protected = any(is_pinned(pins, day, service) for service in rollup.services)
        sizes[Resolution.NOTHING if is_protected else Resolution.WINDOW] += rollup.bytes
    return sizes


def _list_days(store: ObjectStore) -> list[date]:
    """List the days that have segments, blocks, a manifest or a lease, in order."""
    roots = (segments.ROOT, manifest.BLOCK_ROOT, manifest.ROLLUP_ROOT)
    listed_days = (*manifest.list_days(store), *lease.list_days(store))
    return sorted({*listed_days, *chain.from_iterable(segments.list_days(store, root) for root in roots)})


def _list_keys(store: ObjectStore, days: Iterable[date]) -> Iterator[str]:
    for day in sorted(days):
        roots = (segments.ROOT, manifest.BLOCK_ROOT, manifest.ROLLUP_ROOT)
        for root in (*(f"{root}{day}/" for root in roots), manifest.key_of(day), lease.key_of(day)):
            for entry in store.list(root):
                yield entry.key


class Retention:
    """The root task that applies retention periodically.

    It retries when the store fails. It calls `revisit` with each day that has new objects for compaction to
    delete. `expire(now, should_stop)` deletes other expired objects at the Unix time `now` and returns
    their number.
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
        self._closing_since: dict[date, datetime] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """Apply retention every `interval_seconds` until `stop` is set."""
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            now = datetime.fromtimestamp(self._clock(), UTC)
            await loop.run_in_executor(None, self.run_once, now, stop.is_set)
            await wait_for_event(stop, self._interval_seconds)

    def run_once(self, now: datetime, should_stop: Callable[[], bool] = lambda: False) -> None:
        """Apply retention once at `now`; blocks.

        Ends early when `should_stop` returns true; the next run does the remaining work.
        """
        try:
            plan = plan_retention(self._store, self._policy, now)
            for change in plan.changes:
                if should_stop():
                    return
                self._apply_change(change, now)
            self._delete_keys(plan.expired_keys, should_stop)
            self._metrics.retention_deleted.inc(self._expire(now.timestamp(), should_stop))
        except StoreError as error:
            self._record_failure(error)

    def _apply_change(self, change: BlockChange, now: datetime) -> None:
        """Commit the change of a block to the manifest of its day.

        Does nothing if the block or the manifest has changed, or if the day cannot be closed yet; the next
        run plans again.
        """
        try:
            current = manifest.read(self._store, change.day)
            version = self._close_day(change.day, current, now) if change.drops_windows else current
            if version is None or change.block not in version.document.blocks:
                return
            self._revisit(change.day)
            replacement, tombstones = self._build_replacement(change)
            blocks = [replacement if block == change.block else [block] for block in version.document.blocks]
            content = replace(
                version.document,
                blocks=tuple(chain.from_iterable(blocks)),
                tombstones=version.document.tombstones | tombstones,
                state=DayState.CLOSED if change.drops_windows else version.document.state,
            )
            if manifest.commit(self._store, change.day, version, content) is None:
                return
        except ObjectMissing:
            return  # compaction was faster
        except StoreUnavailable:
            raise
        except StoreError as error:
            self._record_failure(error)
            return
        self._metrics.retention_downsampled.inc()
        services_by_level = {
            level.name.lower(): list(services) for level, services in change.services_by_resolution.items()
        }
        _log.info(
            "block rotated",
            key=change.block.ref.key_prefix,
            to=services_by_level,
            why=change.cause,
            bytes=change.freed_bytes,
        )

    def _close_day(self, day: date, version: Stored[Manifest], now: datetime) -> Stored[Manifest] | None:
        """Close a day for further windows; None while it has segments that count.

        The order of these steps is what `DayState` relies on.
        """
        if version.document.state is DayState.OPEN:
            closing = replace(version.document, state=DayState.CLOSING)
            if (committed := manifest.commit(self._store, day, version, closing)) is None:
                return None
            version = committed
        if version.document.state is DayState.CLOSED:
            return version
        start = day_start_ns(day)
        refs = segments.list_segments(self._store, start, start + DAY_NS)
        pending = [ref.key_prefix for ref in refs if ref.key_prefix not in version.document.tombstones]
        if not pending:
            return version
        since = self._closing_since.setdefault(day, now)
        if (now - since).total_seconds() < MAX_CLOSING_SECONDS:
            _log.info("retention waits for compaction", day=day.isoformat(), segments=len(pending))
            return None
        _log.warning("segments left out of a day that retention closes", segments=pending)
        return version

    def _build_replacement(self, change: BlockChange) -> tuple[list[Block], frozenset[str]]:
        """Build the blocks that replace a block; returns them and the new tombstones."""
        block = change.block
        remaining = {level: names for level, names in change.services_by_resolution.items() if level}
        if len(change.services_by_resolution) == 1 and all(
            RESOLUTION_PARTS[level] <= block.ref.parts for level in remaining
        ):
            reduced = [block.drop_parts(block.ref.parts - RESOLUTION_PARTS[level]) for level in remaining]
            parts = block.ref.parts - reduced[0].ref.parts if reduced else ()
            keys = [block.ref.key(part) for part in parts] or [block.ref.key_prefix]
            return reduced, frozenset(keys)
        new_blocks = [
            rewrite_block(self._store, change.day, block, names, RESOLUTION_PARTS[level])
            for level, names in sorted(remaining.items(), reverse=True)
        ]
        return new_blocks, frozenset([block.ref.key_prefix])

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
    """Split keys into batches of DELETE_CONCURRENCY."""
    for start in range(0, len(keys), DELETE_CONCURRENCY):
        yield keys[start : start + DELETE_CONCURRENCY]
