"""What a program runs to take captures from the collector."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from sidelight_model.labels import Labels
from sidelight_sidecar.captures.capture_poller import CapturePoller
from sidelight_sidecar.sampling.process_watcher import SampledProcesses


class CaptureTask(Protocol):
    """A root task that polls the collector for capture jobs."""

    async def run(self) -> None: ...

    def drain(self) -> None: ...


class MakePoller(Protocol):
    """Makes the poller of one agent, as the collector calls whoever samples a pod."""

    def __call__(
        self,
        agent: str,
        labels: Labels,
        processes: SampledProcesses,
        *,
        is_one_shot: bool = False,
        is_for_node: bool = False,
        only_capture: str = "",
    ) -> CapturePoller: ...


@dataclass(frozen=True, slots=True)
class CaptureTasks:
    """The poller for capture jobs, and tasks beside it.

    `done` ends the program.
    """

    poller: CaptureTask
    periodic_tasks: Sequence[Callable[[], Coroutine[None, None, None]]] = ()
    done: asyncio.Event = field(default_factory=asyncio.Event)
