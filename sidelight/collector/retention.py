"""Deleting what is too old: whole days, by when windows began, and never a key of somebody else."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from itertools import groupby
from typing import Final

import structlog

from sidelight.collector.metrics import Metrics
from sidelight.collector.store.objects import ObjectStore, StoreError
from sidelight.collector.store.segments import ROOT

DELETES_AT_ONCE: Final = 8
_PART: Final = re.compile(
    re.escape(ROOT) + r"(\d{4}-\d\d-\d\d)/\d{13}-\d{13}-[0-9a-f]{16}/(profiles|stacks|samples)\.parquet"
)
_log = structlog.get_logger()


def last_expired(now: datetime, days: int) -> date:
    """The latest day of which no window is younger than `days` days."""
    return (now.astimezone(UTC) - timedelta(days=days + 1)).date()


def expired(keys: Iterable[str], now: datetime, days: int) -> list[str]:
    """Those keys that hold segments of whole days older than `days`, in the order to delete them.

    Every samples object comes before every other: a segment without it does not count, so no reader finds
    half of one. Keys that the collector does not write are never among them.
    """
    last = last_expired(now, days).isoformat()
    old = [key for key in keys if (part := _PART.fullmatch(key)) and part[1] <= last]
    return sorted(old, key=lambda key: (not key.endswith("/samples.parquet"), key))


def old_keys(store: ObjectStore, now: datetime, days: int) -> list[str]:
    """What `expired` finds in a store; blocks."""
    return expired(_until(store, f"{ROOT}{last_expired(now, days).isoformat()}0"), now, days)


def _until(store: ObjectStore, beyond: str) -> Iterator[str]:
    for entry in store.list(ROOT):
        if entry.key >= beyond:
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
            keys = old_keys(self._store, now, self._days)
            with ThreadPoolExecutor(DELETES_AT_ONCE, thread_name_prefix="retention") as threads:
                for group in _groups(keys):
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
            _log.info("old segments deleted", objects=deleted, last_day=last)


def _groups(keys: list[str]) -> Iterator[list[str]]:
    """Keys in groups of DELETES_AT_ONCE, none with samples and other objects both."""
    for _, same in groupby(keys, key=lambda key: key.endswith("/samples.parquet")):
        rest = list(same)
        for start in range(0, len(rest), DELETES_AT_ONCE):
            yield rest[start : start + DELETES_AT_ONCE]
