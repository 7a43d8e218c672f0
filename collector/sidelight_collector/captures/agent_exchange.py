"""Lists the sidecars of this process in the store, for other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from secrets import token_hex
from typing import Final

from sidelight_collector.captures.agents import AgentRegistry, agents_to_json
from sidelight_collector.captures.capture_repository import CaptureRepository

AGENT_EXCHANGE_SECONDS: Final = 15.0
"""Other processes learn this often which sidecars poll here."""


class AgentExchange:
    """The documents in the store that list polling sidecars.

    Belongs to one event loop.
    """

    def __init__(
        self, repository: CaptureRepository, agents: AgentRegistry, clock: Callable[[], float]
    ) -> None:
        self._repository = repository
        self._agents = agents
        self._clock = clock
        self._instance_id = token_hex(8)
        self._written_at = 0.0

    async def publish(self) -> None:
        """Write the sidecars of this process, unless it did so lately."""
        now = self._clock()
        own = self._agents.list_local(now)
        if now < self._written_at + AGENT_EXCHANGE_SECONDS:
            return
        if own or self._written_at:
            await asyncio.to_thread(self._repository.agents.put, self._instance_id, agents_to_json(own))
            self._written_at = now

    async def load_remote(self) -> None:
        """Read which sidecars poll other processes."""
        now = self._clock()
        documents = await asyncio.to_thread(
            self._repository.agents.list_remote, self._instance_id, now - 4 * AGENT_EXCHANGE_SECONDS
        )
        self._agents.replace_remote(documents, now)

    async def withdraw(self) -> None:
        """Delete the list of this process."""
        if self._written_at:
            await asyncio.to_thread(self._repository.agents.delete, self._instance_id)
