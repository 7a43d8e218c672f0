"""Leases, which assign work to one collector at a time.

A lease is for a day to compact, or for other named work. The holder creates an object before it begins,
renews it regularly, and deletes it when the work is done:

    v1/lease/2026-11-21.json

    {"beat": 7, "format": 1, "holder": "3f0c…", "seconds": 120.0}

Other collectors skip a day with a lease and try again later. A holder that died renews nothing. Another
collector takes a lease over once it has seen the lease unchanged for longer than `seconds`, measured on its
own clock.

Leases only avoid duplicate work. Conditional writes of manifests ensure that no window counts twice. If the
holder of a lease cannot be determined, the collector therefore works on the day: two collectors may then
build the same block, and one of them discards it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from functools import partial
from secrets import token_hex
from typing import Final, Generic, TypeVar

import structlog

from sidelight_collector.storage.objects import (
    ObjectChanged,
    ObjectExists,
    ObjectMissing,
    ObjectStore,
    StoreError,
)

ROOT: Final = "v1/lease/"
FORMAT: Final = 1
MAX_SECONDS: Final = 3600.0
"""Upper bound for the `seconds` of a lease that another collector wrote."""
KEY_PATTERN: Final = re.compile(rf"{ROOT}(?P<day>\d{{4}}-\d\d-\d\d)\.json")
RENEWALS: Final = 3
"""Renewals of a lease within its `seconds`."""
_log = structlog.get_logger()

ShouldStop = Callable[[], bool]
WorkItem = TypeVar("WorkItem", date, str)
"""A day, or the name of other work that only one process needs to do."""


@dataclass(frozen=True, slots=True)
class _OwnLease:
    """A lease that this collector holds, written at `since` (timer seconds).

    `etag` is None if the collector works on the day without a lease.
    """

    etag: str | None
    since: float


@dataclass(frozen=True, slots=True)
class _ForeignLease:
    """A lease of another holder, unchanged since `since` (timer seconds)."""

    etag: str
    since: float


class Leases(Generic[WorkItem]):
    """The leases of one collector; not thread-safe.

    Other collectors skip a day for `seconds` after its lease was last renewed. `on_skip` is called for each
    day that this collector skips because another one holds its lease.
    """

    def __init__(
        self,
        store: ObjectStore,
        seconds: float,
        on_skip: Callable[[], None] = lambda: None,
        *,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._seconds = seconds
        self._on_skip = on_skip
        self._timer = timer
        self._holder = token_hex(8)
        self._heartbeat = 0
        self._own_leases: dict[WorkItem, _OwnLease] = {}
        self._foreign_leases: dict[WorkItem, _ForeignLease] = {}

    def iter_acquired(
        self, days: Iterable[WorkItem], should_stop: ShouldStop
    ) -> Iterator[tuple[WorkItem, ShouldStop]]:
        """Iterate over the days that this collector gets a lease for.

        It holds the lease of a day until it requests the next day. Each day comes with a function that
        tells whether to stop working on it: because of `should_stop`, or because another collector took it
        over.
        """
        for day in days:
            if should_stop():
                return
            if not self._acquire(day):
                self._on_skip()
                continue
            try:
                yield day, partial(self._must_stop, day, should_stop)
            finally:
                self._release(day)

    def _must_stop(self, day: WorkItem, should_stop: ShouldStop) -> bool:
        return should_stop() or not self._renew(day)

    def _acquire(self, day: WorkItem) -> bool:
        key = key_of(day)
        try:
            try:
                self._own_leases[day] = self._write(day, if_absent=True)
            except ObjectExists:
                now = self._timer()
                content, etag = self._store.get_with_etag(key)
                holder, seconds = self._parse_lease(content)
                if holder == self._holder:  # the response to an earlier write, or a delete, was lost
                    self._own_leases[day] = _OwnLease(etag, now)
                    return True
                foreign_lease = self._foreign_leases.get(day)
                if foreign_lease is None or foreign_lease.etag != etag:
                    self._foreign_leases[day] = _ForeignLease(etag, self._timer())
                    return False
                if now - foreign_lease.since < seconds:
                    return False
                self._own_leases[day] = self._write(day, if_match=etag)
                _log.info("lease taken over", key=key, holder=holder, seconds=seconds)
        except (ObjectMissing, ObjectExists, ObjectChanged):
            return False  # another collector is changing the lease right now
        except StoreError as error:
            self._proceed_without_lease(day, error)
        self._foreign_leases.pop(day, None)
        return True

    def _renew(self, day: WorkItem) -> bool:
        held = self._own_leases.get(day)
        if held is None:
            return False
        if held.etag is None or self._timer() - held.since < self._seconds / RENEWALS:
            return True
        try:
            self._own_leases[day] = self._write(day, if_match=held.etag)
        except ObjectChanged:
            return self._is_own(day)
        except StoreError as error:
            self._proceed_without_lease(day, error)
        return True

    def _is_own(self, day: WorkItem) -> bool:
        """Return whether this collector may go on with a lease that has changed.

        It may if it wrote the change itself, or if the lease cannot be read or no longer exists.
        """
        now = self._timer()
        try:
            content, etag = self._store.get_with_etag(key_of(day))
        except StoreError as error:
            self._proceed_without_lease(day, error)
            return True
        if self._parse_lease(content)[0] == self._holder:
            self._own_leases[day] = _OwnLease(etag, now)
            return True
        del self._own_leases[day]
        _log.warning("lease lost", key=key_of(day))
        return False

    def _release(self, day: WorkItem) -> None:
        held = self._own_leases.pop(day, None)
        # After its time is over, another collector may hold it; if not, this one acquires it again later.
        if held is None or held.etag is None or self._timer() - held.since >= self._seconds:
            return
        try:
            self._store.delete(key_of(day))
        except StoreError as error:
            _log.warning("lease not given back", key=key_of(day), error=error.message, hint=error.hint)

    def _write(self, day: WorkItem, *, if_absent: bool = False, if_match: str | None = None) -> _OwnLease:
        since = self._timer()
        self._heartbeat += 1
        fields = {"beat": self._heartbeat, "format": FORMAT, "holder": self._holder, "seconds": self._seconds}
        content = json.dumps(fields, sort_keys=True).encode()
        return _OwnLease(self._store.put(key_of(day), content, if_absent=if_absent, if_match=if_match), since)

    def _proceed_without_lease(self, day: WorkItem, error: StoreError) -> None:
        _log.warning("work done without a lease", key=key_of(day), error=error.message, hint=error.hint)
        self._own_leases[day] = _OwnLease(None, 0.0)

    def _parse_lease(self, content: bytes) -> tuple[str, float]:
        """Return the holder and seconds of a lease; no holder if it cannot be read."""
        try:
            fields = json.loads(content)
            holder, seconds = str(fields["holder"]), float(fields["seconds"])
            if fields["format"] == FORMAT and seconds >= 0:
                return holder, min(seconds, MAX_SECONDS)
        except (ValueError, KeyError, TypeError):
            pass
        return "", self._seconds


def iter_without_leases(
    days: Iterable[WorkItem], should_stop: ShouldStop
) -> Iterator[tuple[WorkItem, ShouldStop]]:
    """Iterate over all of `days` until `should_stop`, without leases."""
    for day in days:
        if should_stop():
            return
        yield day, should_stop


def list_days(store: ObjectStore) -> list[date]:
    """List the days that have a lease, in order."""
    days: list[date] = []
    for entry in store.list(ROOT):
        if match := KEY_PATTERN.fullmatch(entry.key):
            with suppress(ValueError):
                days.append(date.fromisoformat(match["day"]))
    return days


def key_of(day: date | str) -> str:
    """Return the key of the lease of a day or of other work."""
    return f"{ROOT}{day}.json"
