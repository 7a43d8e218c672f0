"""The group of the demo's child processes.

A child that ends too early ends the demo, and no child outlives it.
"""

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
    """Child processes in order of dependency: a child may need those started earlier."""

    def __init__(self, log_directory: Path) -> None:
        self._log_directory = log_directory
        self._children: list[ChildProcess] = []

    async def start(self, command: ChildCommand) -> ChildProcess:
        """Start another child.

        A child with `has_pipes` may end when its work is done; any other must run until it is stopped.
        """
        child = await ChildProcess.start(command, self._log_directory)
        self._children.append(child)
        return child

    async def run_guarded(self, work: Coroutine[object, object, T]) -> T:
        """Run `work` while all children run; returns its result.

        Raises ChildFailed as soon as a child without `has_pipes` ends.
        """
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
        """Stop some children and remove them; returns their exit statuses by name."""
        self._children = [child for child in self._children if child not in children]
        return await stop_children(children, STOP_TIMEOUT_SECONDS)

    async def stop_all(self) -> None:
        """Stop all remaining children, those started last first."""
        while self._children:
            newest = self._children[-1]
            role = newest.command.name.split()[0]
            await self.stop(*(child for child in self._children if child.command.name.split()[0] == role))

    def kill_all(self) -> None:
        """Send SIGKILL to all children, without waiting."""
        for child in self._children:
            child.kill()


async def _raise_when_ended(child: ChildProcess) -> None:
    raise await child.wait_for_failure()


def select_error(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the error to report: the first SidelightError, else the first error."""
    expected, _ = errors.split(SidelightError)
    selected: BaseException = expected or errors
    while isinstance(selected, BaseExceptionGroup):
        selected = selected.exceptions[0]
    return selected
