"""The demo's children together: whoever ends too early ends the demo, and nobody is left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import TypeVar

from sidelight_cli.demo.processes.child_process import ChildCommand, ChildProcess, stop_children
from sidelight_model.errors import SidelightError

T = TypeVar("T")

STOP_TIMEOUT_SECONDS = 20.0


class ProcessGroup:
    """Children in the order in which they depend on each other: each may need those started before it."""

    def __init__(self, log_directory: Path) -> None:
        self._log_directory = log_directory
        self._children: list[ChildProcess] = []

    async def start(self, command: ChildCommand) -> ChildProcess:
        """Start one more child; one whose output is read may end when it has done its work."""
        child = await ChildProcess.start(command, self._log_directory)
        self._children.append(child)
        return child

    async def run_guarded(self, work: Coroutine[object, object, T]) -> T:
        """Do some work while every child so far goes on; raises ChildFailed as soon as one ends."""
        try:
            async with asyncio.TaskGroup() as group:
                watches = [
                    group.create_task(_raise_when_ended(child), name=f"watch {child.command.name}")
                    for child in self._children
                    if not child.command.has_pipes
                ]
                result = await work
                for watch in watches:
                    watch.cancel()
        except BaseExceptionGroup as errors:
            raise select_error(errors) from None
        return result

    async def stop(self, *children: ChildProcess) -> dict[str, int]:
        """End some children and watch them no longer; their exit statuses by name."""
        self._children = [child for child in self._children if child not in children]
        return await stop_children(children, STOP_TIMEOUT_SECONDS)

    async def stop_all(self) -> None:
        """End everybody who is left, those first on whom nobody depends."""
        while self._children:
            newest = self._children[-1]
            role = newest.command.name.split()[0]
            await self.stop(*(child for child in self._children if child.command.name.split()[0] == role))

    def kill_all(self) -> None:
        """SIGKILL everybody, without waiting."""
        for child in self._children:
            child.kill()


async def _raise_when_ended(child: ChildProcess) -> None:
    raise await child.wait_for_failure()


def select_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """The error worth telling: an expected failure if there is one among them, else the first."""
    expected, _ = errors.split(SidelightError)
    selected: BaseException = expected or errors
    while isinstance(selected, BaseExceptionGroup):
        selected = selected.exceptions[0]
    return selected
