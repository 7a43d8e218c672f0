"""Long polls: the questions of sidecars that one process holds until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sidelight_collector.metrics import Metrics
from sidelight_model.errors import Reason, SidelightError


class TooMany(SidelightError):
    """There are as many captures or held polls as there may be."""

    reason = Reason.OVERLOADED


@dataclass(slots=True)
class _Poll:
    """A held poll, and whether its sidecar has closed the connection."""

    event: asyncio.Event
    gone: Callable[[], bool]


class Polls:
    """The polls that wait, one for each sidecar and at most `most`; for one event loop."""

    def __init__(self, most: int, metrics: Metrics) -> None:
        self._most = most
        self._metrics = metrics
        self._waiting: dict[str, _Poll] = {}

    async def wait(self, agent: str, seconds: float, gone: Callable[[], bool]) -> None:
        """Wait until the poll of this sidecar is woken, or `seconds` have passed. Raises TooMany."""
        if agent not in self._waiting and len(self._waiting) >= self._most:
            raise TooMany(
                f"{len(self._waiting)} sidecars wait here for work already",
                hint="Ask again later; start more collectors or raise --capture-max-polls.",
            )
        poll = self._waiting[agent] = _Poll(asyncio.Event(), gone)
        self._metrics.pending_polls.set(len(self._waiting))
        try:
            async with asyncio.timeout(seconds):
                await poll.event.wait()
        except TimeoutError:
            pass
        finally:
            if self._waiting.get(agent) is poll:
                del self._waiting[agent]
            self._metrics.pending_polls.set(len(self._waiting))

    def wake(self, agents: Iterable[str]) -> None:
        """Let the polls of these sidecars look for an answer."""
        for agent in list(agents):
            if poll := self._waiting.get(agent):
                poll.event.set()

    def wake_all(self) -> None:
        """Let all polls look for an answer."""
        self.wake(self._waiting)

    def is_gone(self, agent: str) -> bool:
        """Whether this sidecar's poll waits, and its connection is closed."""
        poll = self._waiting.get(agent)
        return poll is not None and poll.gone()
