"""Deleting what is too old: whole days, by when windows began, and never a key of somebody else."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from itertools import chain
from typing import Final

import structlog

from sidelight.collector.metrics import Metrics
from sidelight.collector.store import manifest, segments
from sidelight.collector.store.objects import ObjectStore, StoreError
from sidelight.collector.store.tables import SCHEMAS

DELETES_AT_ONCE: Final = 8
_DAY: Final = r"(?P<day>\d{4}-\d\d-\d\d)"
_NAME: Final = r"\d{13}-\d{13}-[0-9a-f]{16}"
_IN_ORDER: Final = (
    re.compile(rf"{segments.ROOT}{_DAY}/{_NAME}/samples\.parquet"),
    re.compile(rf"{segments.ROOT}{_DAY}/{_NAME}/(profiles|stacks)\.parquet"),
    re.compile(rf"{manifest.ROOT}{_DAY}\.json"),
    re.compile(rf"{manifest.BLOCKS}{_DAY}/{_NAME}/({'|'.join(SCHEMAS)})\.parquet"),
)
"""Keys that the collector writes. What makes others count goes first, so that no reader finds half of it."""
_log = structlog.get_logger()


def last_expired(now: datetime, days: int) -> date:
    """The latest day of which no window is younger than `days` days."""
    return (now.astimezone(UTC) - timedelta(days=days + 1)).date()


def expired(keys: Iterable[str], now: datetime, days: int) -> list[list[str]]:
    """Those keys that hold whole days older than `days`, in groups to be deleted one after the other.

    A segment without its samples object does not count, nor does a block that no manifest names. Keys that
    the collector does not write are never among them.
    """
    last = last_expired(now, days).isoformat()
    groups: list[list[str]] = [[] for _ in _IN_ORDER]
    for key in keys:
        for group, written in zip(groups, _IN_ORDER, strict=True):
            if match := written.fullmatch(key):
                if match["day"] <= last:
                    group.append(key)
                break
    return [sorted(group) for group in groups]


def old_keys(store: ObjectStore, now: datetime, days: int) -> list[list[str]]:
    """What `expired` finds in a store; blocks."""
    beyond = f"{last_expired(now, days).isoformat()}~"
    roots = (segments.ROOT, manifest.ROOT, manifest.BLOCKS)
    return expired(chain.from_iterable(_until(store, root, beyond) for root in roots), now, days)


def _until(store: ObjectStore, root: str, beyond: str) -> Iterator[str]:
    for entry in store.list(root):
        if entry.key >= f"{root}{beyond}":
            return
        yield entry.key


class Retention:
    """Looks for old segments every so often, as a root task; a failing store is waited for."""

    def __init__(
        self,
        store: ObjectStore,
        metrics: Metrics,
        *,
        days: int,
        interval_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._days = days
        self._interval_seconds = interval_seconds
        self._clock = clock

    async def run(self, stop: asyncio.Event) -> None:
        """Delete and wait, until `stop` is set."""
        loop = asyncio.get_running_loop()
        while not stop.is_set():
            now = datetime.fromtimestamp(self._clock(), UTC)
            await loop.run_in_executor(None, self.look, now, stop.is_set)
            try:
                async with asyncio.timeout(self._interval_seconds):
                    await stop.wait()
            except TimeoutError:
                continue

    def look(self, now: datetime, stopped: Callable[[], bool]) -> None:
        """Delete once what is too old; blocks. What is left when `stopped` waits for the next look."""
        deleted = 0
        try:
            groups = old_keys(self._store, now, self._days)
            with ThreadPoolExecutor(DELETES_AT_ONCE, thread_name_prefix="retention") as threads:
                for group in (group for keys in groups for group in _batched(keys)):
                    if stopped():
                        break
                    for _ in threads.map(self._store.delete, group):
                        deleted += 1
        except StoreError as error:
            self._metrics.retention_errors.inc()
            _log.warning("retention failed", error=error.message, hint=error.hint)
        self._metrics.retention_deleted.inc(deleted)
        if deleted:
            last = last_expired(now, self._days).isoformat()
            _log.info("old windows deleted", objects=deleted, last_day=last)


def _batched(keys: list[str]) -> Iterator[list[str]]:
    """Keys in groups of DELETES_AT_ONCE."""
    for start in range(0, len(keys), DELETES_AT_ONCE):
        yield keys[start : start + DELETES_AT_ONCE]
