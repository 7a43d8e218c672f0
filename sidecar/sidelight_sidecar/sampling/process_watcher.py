"""Follows the processes to watch: a loop for each that appears, an end for each that is gone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import structlog

from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.processes import Choice, Key, Proc, Watched, alone, watched
from sidelight_sidecar.discovery.procfs import ProcFs, Used
from sidelight_sidecar.health import Board, Problem
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.samplers.permissions import Lack
from sidelight_sidecar.sampling.capture_job import Order, Part
from sidelight_sidecar.sampling.process_sampler import Watch

_SHARE_OF_ONE_CORE = 0.05
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.sampling.process_watcher"
)


class Fleet:
    """One Watch per watched process, at most `most` of them."""

    def __init__(
        self,
        procfs: ProcFs,
        choice: Choice,
        *,
        own_pid: int,
        most: int,
        scan_seconds: float,
        make_watch: Callable[[Watched], Watch],
        metrics: Metrics,
        board: Board,
        done_seconds: float | None = None,
    ) -> None:
        """`done_seconds`: `when_done` is called once none of what was watched has been left for so long."""
        self._procfs = procfs
        self._choice = choice
        self._own_pid = own_pid
        self._most = most
        self._scan_seconds = scan_seconds
        self._make_watch = make_watch
        self._metrics = metrics
        self._board = board
        self._watches: dict[Key, Watch] = {}
        self._roles: dict[Key, str] = {}
        self._looked: Sequence[Proc] = ()
        self._settled = False
        self._pause = scan_seconds
        self._ending = threading.Event()
        self._done_seconds = done_seconds
        self._alone_since: float | None = None
        self.when_done: Callable[[], None] = lambda: None
        self._stopping = asyncio.Event()
        board.report("watching", Problem(Reason.NOTHING_TO_WATCH, "no process has been looked at yet"))

    @property
    def watches(self) -> list[Watch]:
        """What is watched now, by pid."""
        return [self._watches[key] for key in sorted(self._watches)]

    @property
    def used(self) -> Mapping[Key, Used]:
        """What Python processes had taken at the last look."""
        return self._procfs.used

    def stop(self) -> None:
        """Let `run` return once every session is closed and its window kept."""
        self._ending.set()
        self._stopping.set()

    def capture(self, order: Order, parts: Sequence[tuple[Watch, Part]]) -> None:
        """Hand a capture to the watches it is for."""
        for watch, part in parts:
            watch.capture(order, part)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            while not self._stopping.is_set():
                try:
                    procs = await asyncio.to_thread(self._look)
                except asyncio.CancelledError:
                    self._ending.set()
                    raise
                self._follow(procs, group)
                self._see_whether_done()
                await self._rest(self._pause)
            for watch in self._watches.values():
                watch.stop()

    def _look(self) -> list[Proc]:
        """Look until something has changed, or the end; runs in a thread of its own for as long.

        Beside processes that stay as they are the event loop is not woken for it.
        """
        while True:
            began = time.thread_time()
            procs = self._procfs.processes()
            took = time.thread_time() - began
            self._metrics.scan_cpu_seconds.set(took)
            # A machine with thousands of processes is looked at less often, not with a whole core.
            self._pause = max(self._scan_seconds, took / _SHARE_OF_ONE_CORE)
            counting = self._done_seconds is not None and not self._watches
            if counting or not self._settled or procs != self._looked or self._ending.wait(self._pause):
                return procs

    def _follow(self, procs: Sequence[Proc], group: asyncio.TaskGroup) -> None:
        found = watched(procs, self._choice, own_pid=self._own_pid, until_now=self._roles)
        for key in self._watches.keys() - found.keys():
            self._watches.pop(key).stop()
        for key, watch in self._watches.items():
            watch.role = found[key].role
        room = self._most - len(self._watches)
        for key in [key for key in found if key not in self._watches][: max(0, room)]:
            watch = self._make_watch(found[key])
            self._watches[key] = watch
            group.create_task(watch.run(), name=f"watch process {key.pid}")
            _log.info(
                "a process is watched", pid=key.pid, command=" ".join(found[key].proc.command_line)[:200]
            )
        roles = {key: found[key].role for key in self._watches}
        # A role may depend on the one before: only when it stays, equal processes give equal answers.
        self._looked, self._settled, self._roles = procs, roles == self._roles, roles
        self._metrics.processes.set(len(self._watches))
        self._tell(found, procs)

    def _see_whether_done(self) -> None:
        now = asyncio.get_running_loop().time()
        if self._watches:
            # From here on, an end is one: before, nothing has begun.
            self._alone_since = now
            return
        since, wait = self._alone_since, self._done_seconds
        if since is not None and wait is not None and now - since >= wait:
            self.when_done()

    def _tell(self, found: dict[Key, Watched], procs: Sequence[Proc]) -> None:
        if found:
            self._board.clear("watching")
        else:
            self._board.report("watching", nothing(self._choice, procs, self._own_pid))
        if len(found) > self._most:
            problem = Problem(
                Reason.OVERLOADED,
                f"{len(found)} processes are to be watched, and {self._most} are",
                "Raise --max-processes, or choose fewer.",
            )
            if self._board.report("processes", problem):
                _log.warning("not every process is watched", problem=problem.message, hint=problem.hint)
        else:
            self._board.clear("processes")

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._stopping.wait()
        except TimeoutError:
            return


def nothing(choice: Choice, procs: Sequence[Proc], own_pid: int) -> Problem:
    """Why there is nothing to watch, as far as it can be told."""
    if not choice.pids and alone(procs, own_pid):
        return Problem(
            Reason.NOTHING_TO_WATCH,
            "this sidecar sees no process but its own",
            "Set shareProcessNamespace: true on the pod, or no other container can be seen.",
            Lack.SHARED_PROCESSES,
        )
    others = [proc for proc in procs if proc.python is not None and proc.pid != own_pid]
    nested = [proc.pid for proc in others if proc.nested]
    if choice.pids:
        message = f"none of the processes {', '.join(map(str, sorted(choice.pids)))} runs Python now"
    elif choice.pattern is not None:
        message = f"no Python process has a command line that {choice.pattern.pattern!r} finds"
    else:
        message = "there is no Python process but this one"
    if others and not choice.every:
        hint = f"There are {len(others)} other Python processes: check --match or --pid."
    elif nested:
        hint = f"Process {nested[0]} runs Python in a PID namespace below: name it with --match or --pid."
    else:
        hint = (
            "The service has not started, or is not Python. If it runs in a container of this pod, set "
            "shareProcessNamespace: true on the pod, or no other container can be seen."
        )
    return Problem(Reason.NOTHING_TO_WATCH, message, hint)
