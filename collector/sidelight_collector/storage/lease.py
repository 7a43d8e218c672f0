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
MOST_SECONDS: Final = 3600.0
"""A lease that asks for more time than this, or cannot be read, is believed for no longer."""
KEY: Final = re.compile(rf"{ROOT}(?P<day>\d{{4}}-\d\d-\d\d)\.json")
RENEWALS: Final = 3
"""So often in its time a lease is replaced."""
_log = structlog.get_logger()

Stopped = Callable[[], bool]
What = TypeVar("What", date, str)
"""A day, or the name of other work that one process is enough for."""


@dataclass(frozen=True, slots=True)
class _Held:
    """A lease of ours as it was written at `since`; without an etag the day was taken without a lease."""

    etag: str | None
    since: float


@dataclass(frozen=True, slots=True)
class _Seen:
    """A lease of somebody else, and since when it looks like this."""

    etag: str
    since: float


class Leases(Generic[What]):
    """The leases of one collector; for one thread at a time.

    Others leave a day alone for `seconds` after its holder was last heard of. `left` is called each time that
    a day is left to another.
    """

    def __init__(
        self,
        store: ObjectStore,
        seconds: float,
        left: Callable[[], None] = lambda: None,
        *,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._seconds = seconds
        self._left = left
        self._timer = timer
        self._holder = token_hex(8)
        self._beat = 0
        self._held: dict[What, _Held] = {}
        self._seen: dict[What, _Seen] = {}

    def taken(self, days: Iterable[What], stopped: Stopped) -> Iterator[tuple[What, Stopped]]:
        """Those of the days that nobody else is at work on, each ours until the next is asked for.

        With each comes what says whether to end: because of `stopped`, or because another took the day over.
        """
        for day in days:
            if stopped():
                return
            if not self._take(day):
                self._left()
                continue
            try:
                yield day, partial(self._has_ended, day, stopped)
            finally:
                self._release(day)

    def _has_ended(self, day: What, stopped: Stopped) -> bool:
        return stopped() or not self._keep(day)

    def _take(self, day: What) -> bool:
        key = key_of(day)
        try:
            try:
                self._held[day] = self._written(day, if_absent=True)
            except ObjectExists:
                before = self._timer()
                content, etag = self._store.get_with_etag(key)
                holder, seconds = self._told(content)
                if holder == self._holder:  # and the answer, or what should have deleted it, was lost
                    self._held[day] = _Held(etag, before)
                    return True
                seen = self._seen.get(day)
                if seen is None or seen.etag != etag:
                    self._seen[day] = _Seen(etag, self._timer())
                    return False
                if before - seen.since < seconds:
                    return False
                self._held[day] = self._written(day, if_match=etag)
                _log.info("lease taken over", key=key, holder=holder, seconds=seconds)
        except (ObjectMissing, ObjectExists, ObjectChanged):
            return False  # something happens to it at this moment
        except StoreError as error:
            self._without(day, error)
        self._seen.pop(day, None)
        return True

    def _keep(self, day: What) -> bool:
        held = self._held.get(day)
        if held is None:
            return False
        if held.etag is None or self._timer() - held.since < self._seconds / RENEWALS:
            return True
        try:
            self._held[day] = self._written(day, if_match=held.etag)
        except ObjectChanged:
            return self._is_ours(day)
        except StoreError as error:
            self._without(day, error)
        return True

    def _is_ours(self, day: What) -> bool:
        """Whether a lease that was changed, or is gone, was changed by us, or by nobody who wants the day."""
        before = self._timer()
        try:
            content, etag = self._store.get_with_etag(key_of(day))
        except StoreError as error:
            self._without(day, error)
            return True
        if self._told(content)[0] == self._holder:
            self._held[day] = _Held(etag, before)
            return True
        del self._held[day]
        _log.warning("lease lost", key=key_of(day))
        return False

    def _release(self, day: What) -> None:
        held = self._held.pop(day, None)
        # Once its time is over it may be somebody else's, and we come to it again if it is not.
        if held is None or held.etag is None or self._timer() - held.since >= self._seconds:
            return
        try:
            self._store.delete(key_of(day))
        except StoreError as error:
            _log.warning("lease not given back", key=key_of(day), error=error.message, hint=error.hint)

    def _written(self, day: What, *, if_absent: bool = False, if_match: str | None = None) -> _Held:
        since = self._timer()
        self._beat += 1
        told = {"beat": self._beat, "format": FORMAT, "holder": self._holder, "seconds": self._seconds}
        content = json.dumps(told, sort_keys=True).encode()
        return _Held(self._store.put(key_of(day), content, if_absent=if_absent, if_match=if_match), since)

    def _without(self, day: What, error: StoreError) -> None:
        _log.warning("work done without a lease", key=key_of(day), error=error.message, hint=error.hint)
        self._held[day] = _Held(None, 0.0)

    def _told(self, content: bytes) -> tuple[str, float]:
        """Who holds a lease and for how many seconds; nobody knows who if it cannot be read."""
        try:
            told = json.loads(content)
            holder, seconds = str(told["holder"]), float(told["seconds"])
            if told["format"] == FORMAT and seconds >= 0:
                return holder, min(seconds, MOST_SECONDS)
        except (ValueError, KeyError, TypeError):
            pass
        return "", self._seconds


def unleased(days: Iterable[What], stopped: Stopped) -> Iterator[tuple[What, Stopped]]:
    """All of the days until `stopped`, whoever else is at work on them."""
    for day in days:
        if stopped():
            return
        yield day, stopped


def days(store: ObjectStore) -> list[date]:
    """The days that have a lease, in order."""
    found: list[date] = []
    for entry in store.list(ROOT):
        if match := KEY.fullmatch(entry.key):
            with suppress(ValueError):
                found.append(date.fromisoformat(match["day"]))
    return found


def key_of(day: date | str) -> str:
    """Where the lease of a day, or of other work, lies."""
    return f"{ROOT}{day}.json"
