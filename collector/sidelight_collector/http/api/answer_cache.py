"""Finished answers in memory, and equal questions that are asked at once.

An answer follows from its question and from what it stands on: the blocks and segments that count in its
range, in their order, whose content never changes. All of that is its key, so each question is listed anew,
and an answer that is no longer right is not found. One that does without what could not be read is not kept.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import sha256
from typing import Final

import xxhash

from sidelight_collector.http.api.responses import Reply
from sidelight_collector.lru import Lru
from sidelight_collector.query.engine.query_engine import QueryEngine, until_complete
from sidelight_collector.query.query_context import Deadline, Reading
from sidelight_collector.query.query_errors import QueryTimeout
from sidelight_collector.query.windows import (
    Question,
)

OVERHEAD_BYTES: Final = 1024
"""What an answer takes besides its body."""


class Origin(StrEnum):
    """Where an answer comes from: it was made, an equal question was having it made, or it was kept."""

    MADE = "miss"
    SHARED = "coalesced"
    KEPT = "hit"


@dataclass(frozen=True, slots=True)
class Asked:
    """A question: `words` tell it from any other, `sides` say what it reads, `make` makes the answer."""

    words: str
    sides: Sequence[Question]
    make: Callable[[Reading], Reply]


@dataclass(frozen=True, slots=True)
class _Flight:
    """An answer in the making, and the deadline of those who wait for it."""

    deadline: Deadline
    landed: Future[Reply] = field(default_factory=Future)


class Answers:
    """Answers questions of one engine; `told` hears where each answer came from."""

    def __init__(self, engine: QueryEngine, told: Callable[[Origin], None] = lambda _: None) -> None:
        self._engine = engine
        self._told = told
        self._kept: Lru[Reply] = Lru(engine.limits.answer_bytes)
        self._lock = threading.Lock()
        self._flights: dict[str, _Flight] = {}

    async def answer(self, asked: Callable[[], Asked]) -> Reply:
        """The answer, with an etag if nothing is missing from it. Raises what QueryEngine.ask and `asked` do.

        `asked` tells the question, in a query's thread. Who waits for an answer that another question has
        begun waits no longer than that one may take.
        """
        limit = self._engine.limits.timeout_seconds
        try:
            async with asyncio.timeout(limit):
                while True:
                    found = await self._engine.ask(lambda reading: self._found(asked(), reading))
                    if isinstance(found, Reply):
                        return found
                    if shared := await _shared(found):
                        self._told(Origin.SHARED)
                        return shared
        except TimeoutError:
            raise QueryTimeout(limit) from None

    def _found(self, asked: Asked, reading: Reading) -> Reply | _Flight:
        """The answer, kept or made, or the flight that brings it; runs in a query's thread."""
        key = _key(asked, reading)
        own = _Flight(reading.deadline)
        own.landed.set_running_or_notify_cancel()  # so that nobody who waits for it can cancel it
        with self._lock:
            kept = self._kept.peek(key)
            other = self._flights.get(key)
            if kept is None and (other is None or other.deadline.over):
                self._flights[key] = own
                other = None
        if kept is not None:
            self._told(Origin.KEPT)
            return kept
        return other or self._made(asked, reading, key, own)

    def _made(self, asked: Asked, reading: Reading, key: str, own: _Flight) -> Reply:
        try:
            made = until_complete(asked.make, reading)
            if not reading.unreadable and not reading.passing:
                made = replace(made, etag=xxhash.xxh3_128_hexdigest(made.body))
                self._kept.keep(key, made, len(made.body) + OVERHEAD_BYTES)
            self._told(Origin.MADE)
            own.landed.set_result(made)
        except BaseException as error:
            own.landed.set_exception(error)
            raise
        else:
            return made
        finally:
            with self._lock:
                if self._flights.get(key) is own:
                    del self._flights[key]


async def _shared(flight: _Flight) -> Reply | None:
    """What another question brings; None if it has been given up, as nobody waited for it any longer."""
    if flight.landed.done():
        return flight.landed.result()
    if not flight.deadline.join():
        return None
    try:
        return await asyncio.wrap_future(flight.landed)
    finally:
        flight.deadline.abandon()


def _key(asked: Asked, reading: Reading) -> str:
    """A name for a question and all that its answer follows from."""
    digest = sha256(asked.words.encode())
    for side in asked.sides:
        refs = reading.segments(side.from_ns, side.until_ns)
        counting = (f"{ref.key_prefix} {' '.join(sorted(ref.parts))}" for ref in refs)
        digest.update(b"\0" + "\n".join(counting).encode())
    digest.update(b"\0%d" % reading.unreadable)
    return digest.hexdigest()
