"""The store of a small world as one process sees it: others go on at each operation, and any may go wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from sidelight_collector.storage import manifest
from sidelight_collector.storage.objects import ObjectChanged, ObjectEntry, ObjectExists, StoreUnavailable
from tests.collector.faults import Died

if TYPE_CHECKING:
    from tests.collector.simulation import World

Answer = TypeVar("Answer")


class Trouble(Enum):
    """What becomes of one operation."""

    UNDONE = "not done, and an error is answered"
    UNTOLD = "done, and an error is answered"
    LATER = "an error is answered, and it is done a while after"
    MISTOLD = "done, and told as if another had been faster"
    SLOW = "done after a minute"
    STALLED = "the process stands still for hours before it"
    BROKEN = "a listing ends with an error in the middle"
    CUT = "some of the bytes do not arrive"
    FLIPPED = "a bit of what arrives is another"
    DIES_BEFORE = "the process dies before it is done"
    DIES_AFTER = "the process dies once it is done"


READS = frozenset((Trouble.CUT, Trouble.FLIPPED))
"""Troubles of what is read, after which an answer may have to say that it is incomplete."""


@dataclass
class Process:
    """Something that runs until it dies; its clock may be wrong."""

    name: str
    skew: float = 0.0
    dead: bool = False


class Line:
    """The store as one process sees it."""

    kind = "simulated"
    location = "memory"

    def __init__(self, world: World, process: Process) -> None:
        self._world = world
        self._process = process
        self._damaged = ""

    def get(self, key: str) -> bytes:
        return self.get_with_etag(key)[0]

    def get_range(self, key: str, start: int, end: int) -> bytes:
        return self._get(key, lambda: (self._world.far.get_range(key, start, end), ""))[0]

    def get_with_etag(self, key: str) -> tuple[bytes, str]:
        return self._get(key, lambda: self._world.far.get_with_etag(key))

    def _get(self, key: str, get: Callable[[], tuple[bytes, str]]) -> tuple[bytes, str]:
        fault = self._before("get", key)
        content, etag = self._done(fault, get)
        # Not twice in a row: what arrives damaged again is taken to be so, and rightly left out.
        if fault in READS and key != self._damaged:
            content, self._damaged = self._world.spoilt(content, flip=fault is Trouble.FLIPPED), key
        else:
            self._damaged = ""
        return content, etag

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        fault = self._before("put", key, "if absent" if if_absent else f"if {if_match}" if if_match else "")

        def put() -> str:
            etag = self._world.far.put(key, content, if_absent=if_absent, if_match=if_match)
            self._world.pristine[key] = content
            return etag

        etag = self._done(fault, put, lasting=True)
        if fault is Trouble.MISTOLD and (if_absent or if_match):
            raise ObjectExists(key) if if_absent else ObjectChanged(key)
        return etag

    def delete(self, key: str) -> None:
        self._done(self._before("delete", key), lambda: self._world.far.delete(key), lasting=True)

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        fault = self._before("list", prefix)
        found = self._done(fault, lambda: [*self._world.far.list(prefix, start_after)])
        if fault is Trouble.BROKEN:
            yield from found[: self._world.luck.randint(0, len(found))]
            raise StoreUnavailable("the connection was closed in the middle of a listing")
        yield from found

    def _before(self, what: str, key: str, how: str = "") -> Trouble | None:
        """Let others go on, and draw what goes wrong."""
        world = self._world
        world.pause(0.01)
        if self._process.dead:
            raise Died
        fault = world.drawn()
        if what == "put" and key.startswith(manifest.ROOT) and world.is_suspended():
            fault = Trouble.STALLED
        world.tell(self._process.name, what, key, how, fault.name if fault else "")
        if fault is Trouble.SLOW:
            world.pause(60)
        if fault is Trouble.STALLED:
            world.stalls = True
            world.pause(world.luck.choice((700, 1500, 1700, 4000, 20_000)))
        return fault

    def _done(
        self, fault: Trouble | None, operation: Callable[[], Answer], *, lasting: bool = False
    ) -> Answer:
        world = self._world
        if fault is Trouble.DIES_BEFORE:
            self._die()
        if fault is Trouble.LATER and lasting:
            world.later(world.luck.choice((1, 30, 100)), operation)
        if fault in (Trouble.UNDONE, Trouble.LATER):
            raise StoreUnavailable("503 SlowDown: reduce your request rate")
        answer = operation()
        if fault is Trouble.DIES_AFTER:
            self._die()
        if fault is Trouble.UNTOLD:
            raise StoreUnavailable("the store did not answer in time")
        return answer

    def _die(self) -> None:
        self._process.dead = True
        raise Died
