"""Several processes as one collector: they are started, watched, started anew when they die, and ended.

The process that does so does nothing else: it takes no requests and reads no store, so that whatever a window
or a query can do to a process, it does to one that is replaced.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Final, Protocol

import structlog

from sidelight_model.errors import SidelightError

Job = Callable[[Connection], None]
"""What a worker does in its process: it says one word once it works, and ends when told to by SIGTERM.

It begins with SIGNALS blocked, and lets them come once it can end well.
"""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
CPU_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_spawn = multiprocessing.get_context("spawn")
_log = structlog.get_logger()


class CrashLoop(SidelightError):
    """Workers died more often than may be put up with, or did not end well."""


class CrashLoopGuard:
    """Decides when it is enough: more than `most` deaths in less than `seconds`."""

    def __init__(self, max_deaths: int, seconds: float) -> None:
        self.max_deaths = max_deaths
        self.seconds = seconds
        self._death_times: deque[float] = deque(maxlen=max_deaths + 1)

    def record_death(self, now: float) -> bool:
        """One more died, `now` on a clock of any origin; whether that is too many."""
        self._death_times.append(now)
        return len(self._death_times) > self.max_deaths and now - self._death_times[0] < self.seconds


class WorkerEvents(Protocol):
    """Who is told what becomes of workers."""

    def on_running(self, names: Collection[str]) -> None:
        """These work at the moment."""

    def on_death(self) -> None:
        """One more has ended by itself."""

    def on_shutdown(self) -> None:
        """All of them are about to be told to end."""


def supervise(
    jobs: Mapping[str, Job], crash_loop_guard: CrashLoopGuard, events: WorkerEvents, *, stop_seconds: float
) -> None:
    """Do each job in a process of its own until SIGTERM or SIGINT, then end them all.

    Raises WorkersDie when one after the other dies, once the others are ended, or if one did not end well or
    was killed because it took longer than `stop_seconds`.
    """
    workers = _WorkerProcesses(jobs)
    with _open_signal_socket() as signalled:
        try:
            for name in jobs:
                workers.start(name)
            while not workers.wait(signalled):
                for name, status in workers.reap().items():
                    events.on_death()
                    _log.warning("worker died", worker=name, status=status)
                    if crash_loop_guard.record_death(time.monotonic()):
                        raise CrashLoop(
                            f"workers died {crash_loop_guard.max_deaths + 1} times within "
                            f"{crash_loop_guard.seconds:g} s, "
                            f"the last, {name}, with status {status}",
                            hint="The log above says why; status -9 without a word is mostly want of memory.",
                        )
                    workers.start(name)
                events.on_running(workers.running)
            _log.info("stopping")
        finally:
            events.on_shutdown()
            unwell = workers.terminate(stop_seconds)
    if unwell:
        told = ", ".join(f"{name} with status {status}" for name, status in unwell.items())
        raise CrashLoop(f"workers did not end well: {told}", hint="The log above says why.")


class _WorkerProcesses:
    """Processes by name, which of them work, and the pipes of those that have not said so yet."""

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs
        self._processes: dict[str, SpawnProcess] = {}
        self._startup_pipes: dict[str, Connection] = {}
        self.running: set[str] = set()
        ensure_running()  # or it would be started below, and let signals come there

    def start(self, name: str) -> None:
        here, there = _spawn.Pipe(duplex=False)
        process = _spawn.Process(target=self._jobs[name], args=(there,), name=name, daemon=True)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        there.close()
        self._processes[name], self._startup_pipes[name] = process, here

    def wait(self, signalled: socket.socket) -> bool:
        """Until something happens; whether that is a signal."""
        sentinels = [process.sentinel for process in self._processes.values()]
        happened = wait([signalled, *sentinels, *self._startup_pipes.values()])
        for name in [name for name, pipe in self._startup_pipes.items() if pipe in happened]:
            pipe = self._startup_pipes.pop(name)
            with pipe, suppress(EOFError):  # it died, which its sentinel says too
                pipe.recv()
                self.running.add(name)
        return signalled in happened

    def reap(self) -> dict[str, int | None]:
        """Those that have ended, with how."""
        dead = {name: one.exitcode for name, one in self._processes.items() if not one.is_alive()}
        for name in dead:
            del self._processes[name]
            self.running.discard(name)
            if pipe := self._startup_pipes.pop(name, None):
                pipe.close()
        return dead

    def terminate(self, seconds: float) -> dict[str, int | None]:
        """Tell all to end and wait for it; those that did not end well, with how."""
        for process in self._processes.values():
            process.terminate()
        until = time.monotonic() + seconds
        for name, process in self._processes.items():
            process.join(max(0.0, until - time.monotonic()))
            if process.is_alive():
                _log.error("worker killed: it did not end in time", worker=name, seconds=seconds)
                process.kill()
                process.join()
        return {name: status for name, status in self.reap().items() if status}


@contextmanager
def _open_signal_socket() -> Iterator[socket.socket]:
    """What can be read from once one of SIGNALS has come."""
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    handlers = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    try:
        yield reader
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        reader.close()
        writer.close()


def usable_cores(quota: Path = CPU_QUOTA) -> int:
    """Cores that this process may use: those it may run on, and no more than its control group's quota."""
    cores = len(os.sched_getaffinity(0))
    try:
        allowed, period = quota.read_text().split()
        return min(cores, max(1, math.ceil(int(allowed) / int(period))))
    except (OSError, ValueError):
        return cores  # there is no quota, or no group
