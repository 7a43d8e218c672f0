"""An object store that fails where it is told to."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from threading import Lock
from typing import TypeVar

from sidelight_collector.storage.objects import ObjectEntry, ObjectStore, StoreUnavailable

Answer = TypeVar("Answer")


class Fault(Enum):
    """What becomes of one operation."""

    UNDONE = "it is not done, and an error is answered"
    UNTOLD = "it is done, and an error is answered"
    DIES_BEFORE = "the process dies before it is done"
    DIES_AFTER = "the process dies once it is done"


class Died(BaseException):
    """The process is no more: nothing that catches errors catches this."""


def steps(fault: Fault, operations: Sequence[str]) -> list[int]:
    """The operations at which a fault is worth a try: a read that was done is like one that was not."""
    done = fault in (Fault.UNTOLD, Fault.DIES_AFTER)
    return [at for at, name in enumerate(operations) if not done or name in ("put", "delete")]


class FaultyStore:
    """Another store, one operation of which goes wrong; `meanwhile` happens just before it.

    `at` counts operations from 0; a list is one, made when its first entry is asked for. `operations` has
    their names, in the order in which they were asked for.
    """

    kind = "faulty"
    location = "memory"

    def __init__(
        self,
        store: ObjectStore,
        at: int,
        fault: Fault | None = None,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._at = at
        self._fault = fault
        self._meanwhile = meanwhile
        self.operations: list[str] = []
        self._lock = Lock()

    @property
    def made(self) -> int:
        return len(self.operations)

    def get(self, key: str) -> bytes:
        return self._do("get", lambda: self._store.get(key))

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._do("get", lambda: self._store.get_range(key, start, end))

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        return self._do("get_with_etag", lambda: self._store.get_with_etag(key))

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        return self._do("put", lambda: self._store.put(key, content, if_absent=if_absent, if_match=if_match))

    def delete(self, key: str) -> None:
        self._do("delete", lambda: self._store.delete(key))

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        yield from self._do("list", lambda: list(self._store.list(prefix, start_after)))

    def _do(self, name: str, operation: Callable[[], Answer]) -> Answer:
        with self._lock:  # queries read in several threads
            number = self.made
            self.operations.append(name)
        if number != self._at:
            return operation()
        self._meanwhile()
        if self._fault is Fault.DIES_BEFORE:
            raise Died
        if self._fault is Fault.UNDONE:
            raise StoreUnavailable("the store cannot be reached")
        answer = operation()
        if self._fault is Fault.DIES_AFTER:
            raise Died
        if self._fault is Fault.UNTOLD:
            raise StoreUnavailable("the store did not answer in time")
        return answer
