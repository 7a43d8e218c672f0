"""Supervision of worker processes: starts, watches, restarts and stops them.

The supervisor process does nothing else: it serves no requests and reads no store. A window or query that
crashes a process therefore only crashes a worker, which is restarted.
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
"""The work of a worker process.

It sends one message through the pipe once it is ready, and ends on SIGTERM. It starts with SIGNALS blocked,
and unblocks them once it can shut down cleanly.
"""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
CPU_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
_spawn = multiprocessing.get_context("spawn")
_log = structlog.get_logger()


class CrashLoop(SidelightError):
    """Workers died too often, or did not shut down cleanly."""


class CrashLoopGuard:
    """Detects a crash loop: more than `max_deaths` deaths in less than `seconds`."""

    def __init__(self, max_deaths: int, seconds: float) -> None:
        self.max_deaths = max_deaths
        self.seconds = seconds
        self._death_times: deque[float] = deque(maxlen=max_deaths + 1)

    def record_death(self, now: float) -> bool:
        """Record the death of a worker; returns whether there were too many.

        `now` is in seconds on a clock of any origin.
        """
        self._death_times.append(now)
        return len(self._death_times) > self.max_deaths and now - self._death_times[0] < self.seconds


class WorkerEvents(Protocol):
    """Callbacks for changes of workers."""

    def on_running(self, names: Collection[str]) -> None:
        """Called with the names of the workers that are ready."""

    def on_death(self) -> None:
        """Called when a worker has ended by itself."""

    def on_shutdown(self) -> None:
        """Called before all workers are terminated."""


def supervise(
    jobs: Mapping[str, Job], crash_loop_guard: CrashLoopGuard, events: WorkerEvents, *, stop_seconds: float
) -> None:
    """Run each job in its own process until SIGTERM or SIGINT, then stop them all.

    Raises CrashLoop if workers die too often, after the others have been stopped. Also raises it if a
    worker did not shut down cleanly, or was killed because it took longer than `stop_seconds`.
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
            failed_workers = workers.terminate(stop_seconds)
    if failed_workers:
        statuses = ", ".join(f"{name} with status {status}" for name, status in failed_workers.items())
        raise CrashLoop(f"workers did not end well: {statuses}", hint="The log above says why.")


class _WorkerProcesses:
    """Worker processes by name, and whether they are ready.

    Workers that are not ready yet have a startup pipe.
    """

    def __init__(self, jobs: Mapping[str, Job]) -> None:
        self._jobs = jobs
        self._processes: dict[str, SpawnProcess] = {}
        self._startup_pipes: dict[str, Connection] = {}
        self.running: set[str] = set()
        ensure_running()  # otherwise `start` would start it, which unblocks signals there

    def start(self, name: str) -> None:
        here, there = _spawn.Pipe(duplex=False)
        process = _spawn.Process(target=self._jobs[name], args=(there,), name=name, daemon=True)
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        there.close()
        self._processes[name], self._startup_pipes[name] = process, here

    def wait(self, signalled: socket.socket) -> bool:
        """Wait for a worker's start or end, or a signal; returns whether a signal came."""
        sentinels = [process.sentinel for process in self._processes.values()]
        ready = wait([signalled, *sentinels, *self._startup_pipes.values()])
        for name in [name for name, pipe in self._startup_pipes.items() if pipe in ready]:
            pipe = self._startup_pipes.pop(name)
            with pipe, suppress(EOFError):  # the worker died, which its sentinel reports too
                pipe.recv()
                self.running.add(name)
        return signalled in ready

    def reap(self) -> dict[str, int | None]:
        """Remove ended workers and return their exit codes by name."""
        dead = {name: process.exitcode for name, process in self._processes.items() if not process.is_alive()}
        for name in dead:
            del self._processes[name]
            self.running.discard(name)
            if pipe := self._startup_pipes.pop(name, None):
                pipe.close()
        return dead

    def terminate(self, seconds: float) -> dict[str, int | None]:
        """Terminate all workers and wait for them, `seconds` at most.

        Returns the nonzero exit codes by name.
        """
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
    """Open a socket that becomes readable when one of SIGNALS arrives."""
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
    """Return the cores that this process may use.

    These are the cores of its CPU affinity, limited by the quota of its control group.
    """
    cores = len(os.sched_getaffinity(0))
    try:
        allowed, period = quota.read_text().split()
        return min(cores, max(1, math.ceil(int(allowed) / int(period))))
    except (OSError, ValueError):
        return cores  # no quota, or no control group
