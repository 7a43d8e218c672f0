"""Leases: several collectors share work out, compaction by day, and leave a day to the one at work on it.

A lease is an object that its holder creates before it begins, replaces now and then while it is at work, and
deletes when it is done:

    v1/lease/2026-11-21.json

    {"beat": 7, "format": 1, "holder": "3f0c…", "seconds": 120.0}

Whoever finds one leaves the day alone, and looks again later. A holder that died replaces nothing: a lease
that an observer has seen unchanged for longer than its time, on a clock of the observer's own, is taken over.

A lease saves work and nothing else. That no window counts twice is the work of the conditional writes
of manifests. So whenever it cannot be known who has a lease, the day is taken: two collectors may then make
the same block, and one of them drops it.
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
"""A lease that asks for more time than this, or cannot be read, is believed for no longer."""
KEY_PATTERN: Final = re.compile(rf"{ROOT}(?P<day>\d{{4}}-\d\d-\d\d)\.json")
RENEWALS: Final = 3
"""So often in its time a lease is replaced."""
_log = structlog.get_logger()

ShouldStop = Callable[[], bool]
WorkItem = TypeVar("WorkItem", date, str)
"""A day, or the name of other work that one process is enough for."""


@dataclass(frozen=True, slots=True)
class _OwnLease:
    """A lease of ours as it was written at `since`; without an etag the day was taken without a lease."""

    etag: str | None
    since: float


@dataclass(frozen=True, slots=True)
class _ForeignLease:
    """A lease of somebody else, and since when it looks like this."""

    etag: str
    since: float


class Leases(Generic[WorkItem]):
    """The leases of one collector; for one thread at a time.

    Others leave a day alone for `seconds` after its holder was last heard of. `left` is called each time that
    a day is left to another.
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
        """Those of the days that nobody else is at work on, each ours until the next is asked for.

        With each comes what says whether to end: because of `should_stop`, or because another took the day
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
                before = self._timer()
                content, etag = self._store.get_with_etag(key)
                holder, seconds = self._parse_lease(content)
                if holder == self._holder:  # and the answer, or what should have deleted it, was lost
                    self._own_leases[day] = _OwnLease(etag, before)
                    return True
                seen = self._foreign_leases.get(day)
                if seen is None or seen.etag != etag:
                    self._foreign_leases[day] = _ForeignLease(etag, self._timer())
                    return False
                if before - seen.since < seconds:
                    return False
                self._own_leases[day] = self._write(day, if_match=etag)
                _log.info("lease taken over", key=key, holder=holder, seconds=seconds)
        except (ObjectMissing, ObjectExists, ObjectChanged):
            return False  # something happens to it at this moment
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
        """Whether a lease that was changed, or is gone, was changed by us, or by nobody who wants the day."""
        before = self._timer()
        try:
            content, etag = self._store.get_with_etag(key_of(day))
        except StoreError as error:
            self._proceed_without_lease(day, error)
            return True
        if self._parse_lease(content)[0] == self._holder:
            self._own_leases[day] = _OwnLease(etag, before)
            return True
        del self._own_leases[day]
        _log.warning("lease lost", key=key_of(day))
        return False

    def _release(self, day: WorkItem) -> None:
        held = self._own_leases.pop(day, None)
        # Once its time is over it may be somebody else's, and we come to it again if it is not.
        if held is None or held.etag is None or self._timer() - held.since >= self._seconds:
            return
        try:
            self._store.delete(key_of(day))
        except StoreError as error:
            _log.warning("lease not given back", key=key_of(day), error=error.message, hint=error.hint)

    def _write(self, day: WorkItem, *, if_absent: bool = False, if_match: str | None = None) -> _OwnLease:
        since = self._timer()
        self._heartbeat += 1
        told = {"beat": self._heartbeat, "format": FORMAT, "holder": self._holder, "seconds": self._seconds}
        content = json.dumps(told, sort_keys=True).encode()
        return _OwnLease(self._store.put(key_of(day), content, if_absent=if_absent, if_match=if_match), since)

    def _proceed_without_lease(self, day: WorkItem, error: StoreError) -> None:
        _log.warning("work done without a lease", key=key_of(day), error=error.message, hint=error.hint)
        self._own_leases[day] = _OwnLease(None, 0.0)

    def _parse_lease(self, content: bytes) -> tuple[str, float]:
        """Who holds a lease and for how many seconds; nobody knows who if it cannot be read."""
        try:
            told = json.loads(content)
            holder, seconds = str(told["holder"]), float(told["seconds"])
            if told["format"] == FORMAT and seconds >= 0:
                return holder, min(seconds, MAX_SECONDS)
        except (ValueError, KeyError, TypeError):
            pass
        return "", self._seconds


def iter_without_leases(
    days: Iterable[WorkItem], should_stop: ShouldStop
) -> Iterator[tuple[WorkItem, ShouldStop]]:
    """All of the days until `should_stop`, whoever else is at work on them."""
    for day in days:
        if should_stop():
            return
        yield day, should_stop


def list_days(store: ObjectStore) -> list[date]:
    """The days that have a lease, in order."""
    found: list[date] = []
    for entry in store.list(ROOT):
        if match := KEY_PATTERN.fullmatch(entry.key):
            with suppress(ValueError):
                found.append(date.fromisoformat(match["day"]))
    return found


def key_of(day: date | str) -> str:
    """Where the lease of a day, or of other work, lies."""
    return f"{ROOT}{day}.json"
