"""Leases, which assign work to one collector at a time.

A lease is for a day to compact, or for other named work, such as the watch of a cluster. The holder creates
an object before it begins, renews it regularly, and deletes it when the work is done:

    v1/lease/2026-11-21.json

    {"beat": 7, "format": 1, "holder": "3f0c…", "seconds": 120.0}

Other collectors skip work with a lease and try again later. A holder that died renews nothing. Another
collector takes a lease over once it has seen the lease unchanged for longer than `seconds`, measured on its
own clock.

Leases only avoid duplicate work. Conditional writes of manifests ensure that no window counts twice. If the
store fails a lease, compaction therefore works on the day: two collectors may then build the same block, and
one of them discards it.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import date
from functools import partial
from math import inf
from secrets import token_hex
from typing import Final, Generic, TypeVar

import orjson
import structlog

from sidelight_collector.storage.documents import DocumentStore, parse_document
from sidelight_collector.storage.objects import ObjectDamaged, ObjectStore, StoreError

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
class LeaseContent:
    """The content of a lease; `beat` makes every write of a holder differ."""

    beat: int
    holder: str
    seconds: float


class Lease:
    """One lease of one collector; not thread-safe.

    Other collectors do not take it over for `seconds` after it was last renewed.
    """

    def __init__(
        self, store: ObjectStore, key: str, seconds: float, timer: Callable[[], float] = time.monotonic
    ) -> None:
        self.key = key
        self.is_held = False
        self._store = store
        self._documents = DocumentStore(store, _encode, _decode)
        self._seconds = seconds
        self._timer = timer
        self._holder = token_hex(8)
        self._beat = 0
        # The lease as last seen, and since when (timer seconds).
        self._etag: str | None = None
        self._since = 0.0

    def try_acquire(self) -> bool:
        """Acquire the lease, or renew it when that is due; return whether it is held.

        Raises StoreError.
        """
        if self.is_held and self._timer() - self._since < self._seconds / RENEWALS:
            return True
        if (self.is_held or self._etag is None) and self._write(self._etag):
            return True
        now = self._timer()
        stored = self._documents.find(self.key)
        content = stored.document or LeaseContent(0, "", self._seconds)
        was_held, self.is_held = self.is_held, False
        if stored.etag is None:
            self._write(None)
        elif content.holder == self._holder:  # the response to an earlier write, or a delete, was lost
            self.is_held, self._etag, self._since = True, stored.etag, now
        elif stored.etag != self._etag:
            self._etag, self._since = stored.etag, self._timer()
        elif now - self._since >= content.seconds and self._write(stored.etag):
            _log.info("lease taken over", key=self.key, holder=content.holder, seconds=content.seconds)
        if was_held and not self.is_held:
            _log.warning("lease lost", key=self.key)
        return self.is_held

    def hold_without_store(self) -> None:
        """Count as held until `release`, because the store fails."""
        self.is_held, self._etag, self._since = True, None, inf

    def release(self) -> None:
        """Give the lease up, and delete it. Raises StoreError if that fails."""
        if not self.is_held:
            return
        etag, self._etag, self.is_held = self._etag, None, False
        # After its time is over, another collector may hold it; if not, this one acquires it again later.
        if etag is not None and self._timer() - self._since < self._seconds:
            self._store.delete(self.key)

    def _write(self, etag: str | None) -> bool:
        """Write the lease unless it has changed; return whether it is held."""
        now = self._timer()
        self._beat += 1
        written = self._documents.commit(
            self.key, LeaseContent(self._beat, self._holder, self._seconds), etag
        )
        if written is not None:
            self.is_held, self._etag, self._since = True, written.etag, now
        return written is not None


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
        self._on_skip = on_skip
        self._create_lease = partial(Lease, store, seconds=seconds, timer=timer)
        self._leases: dict[WorkItem, Lease] = {}

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
            lease = self._leases.setdefault(day, self._create_lease(key_of(day)))
            if not _may_work(lease):
                self._on_skip()
                continue
            try:
                yield day, partial(_must_stop, lease, should_stop)
            finally:
                _release(lease)


def _must_stop(lease: Lease, should_stop: ShouldStop) -> bool:
    return should_stop() or not (lease.is_held and _may_work(lease))


def _may_work(lease: Lease) -> bool:
    try:
        return lease.try_acquire()
    except StoreError as error:
        _log.warning("work done without a lease", key=lease.key, error=error.message, hint=error.hint)
        lease.hold_without_store()
        return True


def _release(lease: Lease) -> None:
    try:
        lease.release()
    except StoreError as error:
        _log.warning("lease not given back", key=lease.key, error=error.message, hint=error.hint)


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


def _encode(content: LeaseContent) -> bytes:
    return orjson.dumps({"format": FORMAT, **asdict(content)}, option=orjson.OPT_SORT_KEYS)


def _decode(key: str, content: bytes) -> LeaseContent:
    fields = parse_document(key, content, FORMAT)
    with suppress(KeyError, TypeError, ValueError):
        holder, seconds = str(fields["holder"]), float(fields["seconds"])
        if seconds >= 0:
            return LeaseContent(0, holder, min(seconds, MAX_SECONDS))
    raise ObjectDamaged(key, "it has no holder and seconds")
