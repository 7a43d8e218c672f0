"""The demo's children together: whoever ends too early ends the demo, and nobody is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

from sidelight_cli.demo.processes.child_process import Child, Command, stop_all
from sidelight_model.errors import SidelightError

T = TypeVar("T")

STOP_SECONDS = 20.0


class Crew:
    """Children in the order in which they depend on each other: each may need those started before it."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._children: list[Child] = []

    async def start(self, command: Command) -> Child:
        """Start one more child; one whose output is read may end when it has done its work."""
        child = await Child.start(command, self._logs)
        self._children.append(child)
        return child

    async def guard(self, work: Coroutine[object, object, T]) -> T:
        """Do some work while every child so far goes on; raises ChildFailed as soon as one ends."""
        try:
            async with asyncio.TaskGroup() as group:
                watches = [
                    group.create_task(_fail_when_ended(child), name=f"watch {child.command.name}")
                    for child in self._children
                    if not child.command.output
                ]
                result = await work
                for watch in watches:
                    watch.cancel()
        except BaseExceptionGroup as errors:
            raise first(errors) from None
        return result

    async def dismiss(self, *children: Child) -> dict[str, int]:
        """End some children and watch them no longer; their exit statuses by name."""
        self._children = [child for child in self._children if child not in children]
        return await stop_all(children, STOP_SECONDS)

    async def end(self) -> None:
        """End everybody who is left, those first on whom nobody depends."""
        while self._children:
            last = self._children[-1]
            role = last.command.name.split()[0]
            await self.dismiss(*(child for child in self._children if child.command.name.split()[0] == role))

    def kill(self) -> None:
        """SIGKILL everybody, without waiting."""
        for child in self._children:
            child.kill()


async def _fail_when_ended(child: Child) -> None:
    raise await child.ended()


def first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error worth telling: an expected failure if there is one among them, else the first."""
    known, _ = errors.split(SidelightError)
    found: BaseException = known or errors
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    return found
