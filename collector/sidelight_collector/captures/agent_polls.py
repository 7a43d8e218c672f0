"""Long polls: the questions of sidecars that one process holds until there is an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sidelight_collector.metrics import Metrics
from sidelight_model.errors import Reason, SidelightError


class CaptureLimitReached(SidelightError):
    """There are as many captures or held polls as there may be."""

    reason = Reason.OVERLOADED


@dataclass(slots=True)
class _PendingPoll:
    """A held poll, and whether its sidecar has closed the connection."""

    event: asyncio.Event
    is_disconnected: Callable[[], bool]


class PendingPolls:
    """The polls that wait, one for each sidecar and at most `most`; for one event loop."""

    def __init__(self, max_polls: int, metrics: Metrics) -> None:
        self._max_polls = max_polls
        self._metrics = metrics
        self._pending: dict[str, _PendingPoll] = {}

    async def wait(self, agent: str, timeout_seconds: float, is_disconnected: Callable[[], bool]) -> None:
        """Wait until the poll of this sidecar is woken, or `timeout_seconds` have passed. Raises TooMany."""
        if agent not in self._pending and len(self._pending) >= self._max_polls:
            raise CaptureLimitReached(
                f"{len(self._pending)} sidecars wait here for work already",
                hint="Ask again later; start more collectors or raise --capture-max-polls.",
            )
        poll = self._pending[agent] = _PendingPoll(asyncio.Event(), is_disconnected)
        self._metrics.pending_polls.set(len(self._pending))
        try:
            async with asyncio.timeout(timeout_seconds):
                await poll.event.wait()
        except TimeoutError:
            pass
        finally:
            if self._pending.get(agent) is poll:
                del self._pending[agent]
            self._metrics.pending_polls.set(len(self._pending))

    def wake(self, agents: Iterable[str]) -> None:
        """Let the polls of these sidecars look for an answer."""
        for agent in list(agents):
            if poll := self._pending.get(agent):
                poll.event.set()

    def wake_all(self) -> None:
        """Let all polls look for an answer."""
        self.wake(self._pending)

    def is_disconnected(self, agent: str) -> bool:
        """Whether this sidecar's poll waits, and its connection is closed."""
        poll = self._pending.get(agent)
        return poll is not None and poll.is_disconnected()
