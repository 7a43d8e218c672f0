"""A sidecar that was attached to a pod for one capture: it takes that one, tells how it went, and ends.

Its container can never be removed from the pod, so the process in it must not stay. Its token says all:
which capture, and what this sidecar is called in it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import structlog

_IDLE_SECONDS = 300.0
_SLACK_SECONDS = 600.0
_LOOK_SECONDS = 0.5
_FIND_SECONDS, _FIND_TIMES = 0.2, 50
_TICKET = re.compile(r"slat_(c_[0-9A-HJKMNP-TV-Z]{26})\.([0-9A-HJKMNP-TV-Z]{26})\.[A-Za-z0-9_-]{43}")
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar")


@dataclass(frozen=True, slots=True)
class Ticket:
    """A one-time token, the capture that it is for, and the name of this sidecar."""

    token: str
    capture: str
    agent: str

    def __bool__(self) -> bool:
        return bool(self.token)

    def __str__(self) -> str:
        return "***" if self.token else ""


NO_TICKET = Ticket("", "", "")


def ticket(text: str) -> Ticket:
    """Read a one-time token; raises ValueError, which does not quote it."""
    found = _TICKET.fullmatch(text)
    if found is None:
        raise ValueError("it is not a one-time token of a capture")
    return Ticket(text, found[1], found[2])


class Taken(Protocol):
    """What is asked of the loop that asks for orders."""

    def begun(self, capture: str) -> bool: ...

    def told(self, capture: str) -> bool: ...


class Errand:
    """Says when there is no more to do: `over` is called once, in any case."""

    def __init__(
        self, ticket: Ticket, seconds: float, over: Callable[[], None], clock: Callable[[], float]
    ) -> None:
        self._ticket = ticket
        self._seconds = seconds
        self._over = over
        self._clock = clock

    async def ready(self, found: Callable[[], bool]) -> None:
        """Wait until a process is found, so that a capture that is ordered at once has what to sample."""
        for _ in range(_FIND_TIMES):
            if found():
                return
            await asyncio.sleep(_FIND_SECONDS)

    async def run(self, taken: Taken) -> None:
        """Look at how far it is until it is over."""
        began, capture = self._clock(), self._ticket.capture
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            passed = self._clock() - began
            if taken.told(capture):
                _log.info("the capture that this sidecar was attached for is over", capture=capture)
            elif not taken.begun(capture) and passed > _IDLE_SECONDS:
                _log.warning("no order came: the capture may have ended", capture=capture, waited=passed)
            elif passed > self._seconds + _IDLE_SECONDS + _SLACK_SECONDS:
                _log.warning("the capture does not end: this sidecar does", capture=capture)
            else:
                continue
            self._over()
            return
