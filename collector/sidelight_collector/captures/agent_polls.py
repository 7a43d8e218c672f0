"""Long polls of sidecars, held by one process until there is a response."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from sidelight.waiting import wait_for_event
from sidelight_collector.auth.write_identity import get_pod_suffix
from sidelight_collector.metrics import Metrics
from sidelight_model.errors import Reason, SidelightError


class CaptureLimitReached(SidelightError):
    """The limit of running captures or pending polls is reached."""

    reason = Reason.OVERLOADED


@dataclass(slots=True, eq=False)
class _PendingPoll:
    """A pending poll, and whether its sidecar has closed the connection."""

    event: asyncio.Event
    is_disconnected: Callable[[], bool]


class PendingPolls:
    """The pending polls of one process: one per sidecar, at most `max_polls`.

    Belongs to one event loop.
    """

    def __init__(self, max_polls: int, metrics: Metrics) -> None:
        self._max_polls = max_polls
        self._metrics = metrics
        self._pending: dict[str, _PendingPoll] = {}
        # With polls that their sidecars abandoned for another one.
        self._waiting: set[_PendingPoll] = set()

    def __len__(self) -> int:
        return len(self._pending)

    async def wait(self, agent: str, timeout_seconds: float, is_disconnected: Callable[[], bool]) -> None:
        """Wait until this sidecar's poll is woken, or `timeout_seconds` have passed.

        Raises CaptureLimitReached if `max_polls` other sidecars wait already.
        """
        if agent not in self._pending and len(self._pending) >= self._max_polls:
            raise CaptureLimitReached(
                f"{len(self._pending)} sidecars wait here for work already",
                hint="Ask again later; start more collectors or raise --capture-max-polls.",
            )
        poll = self._pending[agent] = _PendingPoll(asyncio.Event(), is_disconnected)
        self._waiting.add(poll)
        self._metrics.pending_polls.set(len(self._pending))
        try:
            await wait_for_event(poll.event, timeout_seconds)
        finally:
            self._waiting.discard(poll)
            if self._pending.get(agent) is poll:
                del self._pending[agent]
            self._metrics.pending_polls.set(len(self._pending))

    def wake(self, agents: Iterable[str]) -> None:
        """Wake the polls of these sidecars, so that they check for a response.

        Also those of node agents for whose pods they poll.
        """
        for agent in list(agents):
            for name in (agent, get_pod_suffix(agent)):
                if poll := self._pending.get(name):
                    poll.event.set()

    def wake_all(self) -> None:
        """Wake all polls, also those that their sidecars abandoned for another one."""
        for poll in self._waiting:
            poll.event.set()

    def is_waiting(self, agent: str) -> bool:
        """Return whether this sidecar's poll is pending and its connection is open."""
        poll = self._pending.get(agent)
        return poll is not None and not poll.is_disconnected()

    def is_disconnected(self, agent: str) -> bool:
        """Return whether this sidecar's poll is pending and its connection is closed."""
        poll = self._pending.get(agent)
        return poll is not None and poll.is_disconnected()
