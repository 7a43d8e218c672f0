"""Supervision of worker processes: starts, watches, restarts and stops them.

The supervisor process does nothing else: it serves no requests and reads no store. A window or query that
crashes or blocks a process therefore only affects a worker, which is replaced.
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
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from typing import Final, Protocol

import structlog

from sidelight_collector.runtime.heartbeat import READY, HeartbeatMonitor
from sidelight_collector.runtime.stack_dump import read_stacks, register_stack_dump, request_stacks
from sidelight_model.errors import SidelightError

Job = Callable[[Connection], None]
"""The work of a worker process.

It sends READY through the pipe once it is ready, and heartbeats. It ends on SIGTERM. It starts with SIGNALS
blocked, and unblocks them once it can shut down cleanly.
"""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
CPU_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
MIN_DUMP_SECONDS: Final = 1.0
"""How long a worker that hangs may write its stacks before it is killed."""
MAX_DUMP_SECONDS: Final = 5.0
"""How long the supervisor waits for a worker that writes nothing."""
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

    def on_hang(self) -> None:
        """Called when a worker hangs and will be killed; its death follows."""

    def on_death(self) -> None:
        """Called when a worker has ended by itself."""

    def on_shutdown(self) -> None:
        """Called before all workers are terminated."""


def supervise(
    jobs: Mapping[str, Job],
    crash_loop_guard: CrashLoopGuard,
    events: WorkerEvents,
    monitor: HeartbeatMonitor,
    stacks_dir: Path,
    *,
    stop_seconds: float,
) -> None:
    """Run each job in its own process until SIGTERM or SIGINT, then stop them all.

    A worker that hangs writes its stacks to `stacks_dir`; the supervisor logs them, and replaces the worker.

    Raises CrashLoop if workers die too often, after the others have been stopped. Also raises it if a
    worker did not shut down cleanly, or was killed because it took longer than `stop_seconds`.
    """
    workers = _WorkerProcesses(jobs, monitor, stacks_dir)
    with _open_signal_socket() as signalled:
        try:
            for name in jobs:
                workers.start(name)
            while not workers.wait(signalled):
                for _ in workers.kill_hung(time.monotonic()):
                    events.on_hang()
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
    """Worker processes by name, whether they are ready, and which of them hang."""

    def __init__(self, jobs: Mapping[str, Job], monitor: HeartbeatMonitor, stacks_dir: Path) -> None:
        self._jobs = jobs
        self._monitor = monitor
        self._stacks_dir = stacks_dir
        self._processes: dict[str, SpawnProcess] = {}
        self._pipes: dict[str, Connection] = {}
        self._dumping_since: dict[str, float] = {}
        self.running: set[str] = set()
        ensure_running()  # otherwise `start` would start it, which unblocks signals there

    def start(self, name: str) -> None:
        here, there = _spawn.Pipe(duplex=False)
        path = self._stacks_path(name)
        path.unlink(missing_ok=True)
        arguments = (self._jobs[name], there, path)
        process = _spawn.Process(target=_run_job, args=arguments, name=name, daemon=True)
        previous_mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous_mask)
        there.close()
        self._processes[name], self._pipes[name] = process, here
        self._monitor.start(name)

    def wait(self, signalled: socket.socket) -> bool:
        """Wait for a message, the end of a worker, a signal, or the next check.

        Returns whether a signal came.
        """
        sentinels = [process.sentinel for process in self._processes.values()]
        seconds = self._monitor.interval_seconds or None
        ready = wait([signalled, *sentinels, *self._pipes.values()], seconds)
        for name in [name for name, pipe in self._pipes.items() if pipe in ready]:
            try:
                message = self._pipes[name].recv_bytes()
            except (EOFError, OSError):  # the worker died, which its sentinel reports too
                self._pipes.pop(name).close()
                continue
            self._monitor.record_message(name)
            if message == READY:
                self.running.add(name)
        return signalled in ready

    def kill_hung(self, now: float) -> list[str]:
        """Let workers that hang write their stacks, then log these and kill the workers.

        `now` is on the monotonic clock. Returns the names of the workers that were found to hang.
        """
        hung = [name for name in self._monitor.check(now) if name not in self._dumping_since]
        for name in hung:
            _log.error(
                "worker hangs: its event loop sends no heartbeat",
                worker=name,
                seconds=self._monitor.timeout_seconds,
            )
            self._dumping_since[name] = now
            if pid := self._processes[name].pid:
                request_stacks(pid, self._stacks_path(name))
        for name, since in list(self._dumping_since.items()):
            stacks = read_stacks(self._stacks_path(name))
            if now - since >= (MIN_DUMP_SECONDS if stacks else MAX_DUMP_SECONDS):
                _log.error("hung worker killed", worker=name, stack=stacks or "no stacks were written")
                self._processes[name].kill()
                self._monitor.remove(name)
                del self._dumping_since[name]
        return hung

    def reap(self) -> dict[str, int | None]:
        """Remove ended workers and return their exit codes by name."""
        dead = {name: process.exitcode for name, process in self._processes.items() if not process.is_alive()}
        for name in dead:
            del self._processes[name]
            self.running.discard(name)
            self._monitor.remove(name)
            self._dumping_since.pop(name, None)
            if pipe := self._pipes.pop(name, None):
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

    def _stacks_path(self, name: str) -> Path:
        return self._stacks_dir / f"stacks-{name}.txt"


def _run_job(job: Job, pipe: Connection, stacks: Path) -> None:
    register_stack_dump(stacks)
    job(pipe)


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
