"""A collector of several processes: what each of them is given, and what they share."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from sidelight_collector.metrics import Metrics, enable_multiprocess_metrics
from sidelight_collector.runtime.http_server import (
    Sockets,
    announce_address,
    bind_sockets,
    close_sockets,
    port_of,
)
from sidelight_collector.runtime.supervisor import CrashLoopGuard, Job, supervise
from sidelight_collector.settings.collector import Settings

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - what is made there has a name that nobody guesses
MIN_FREE_SHARED_MEMORY_BYTES: Final = 32 << 20
"""What must be free there: who writes into a mapped file and finds no room is killed."""
SHUTDOWN_STORE_REQUESTS: Final = 10
"""So many may come one after the other in a worker that ends: three objects, three attempts each."""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """What one process of several is given: its name, the directory they share, and where it listens."""

    name: str
    shared_dir: Path
    sockets: Sockets

    def remove_shared_dir(self) -> None:
        """Remove what was shared; those who still have it open are not disturbed."""
        shutil.rmtree(self.shared_dir, ignore_errors=True)


def run_workers(settings: Settings, build_job: Callable[[Settings, WorkerContext], Job]) -> None:
    """Serve with several processes until SIGTERM or SIGINT; `build_job` says what one with these settings
    does.

    Besides `settings.workers` that serve there is one that compacts, if the role is all. Raises PortInUse and
    WorkersDie.
    """
    with _create_shared_dir() as shared:
        enable_multiprocess_metrics(shared, "supervisor")
        sockets = bind_sockets(settings.address, settings.workers)
        seats = [WorkerContext(str(number), shared, mine) for number, mine in enumerate(sockets, 1)]
        serving = replace(settings, role="serve", workers=1)
        jobs = {seat.name: build_job(serving, seat) for seat in seats}
        if settings.role == "all":
            seat = WorkerContext("compactor", shared, ())
            jobs[seat.name] = build_job(replace(settings, role="compactor", workers=1), seat)
        supervise(
            jobs,
            CrashLoopGuard(settings.max_worker_restarts, settings.worker_restart_window_seconds),
            _CollectorWorkerEvents(settings, Metrics(shared), jobs, seats),
            stop_seconds=settings.shutdown_timeout_seconds
            + SHUTDOWN_STORE_REQUESTS * settings.store_timeout_seconds,
        )


class _CollectorWorkerEvents:
    """Counts workers, says where the collector listens once all work, and closes that when they end."""

    def __init__(
        self, settings: Settings, metrics: Metrics, jobs: Mapping[str, Job], contexts: Sequence[WorkerContext]
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._starting = set(jobs)
        self._contexts = contexts

    def on_running(self, names: Collection[str]) -> None:
        self._metrics.workers.set(sum(seat.name in names for seat in self._contexts))
        if self._starting and self._starting <= set(names):
            self._starting.clear()
            announce_address(self._settings, port_of(self._contexts[0].sockets))

    def on_death(self) -> None:
        self._metrics.worker_restarts.inc()

    def on_shutdown(self) -> None:
        for seat in self._contexts:
            close_sockets(seat.sockets)


@contextmanager
def _create_shared_dir() -> Iterator[Path]:
    """A directory for as long as this process lives, in memory where that can be had."""
    made = Path(
        tempfile.mkdtemp(prefix="sidelight-", dir=SHARED_MEMORY if _has_free_space(SHARED_MEMORY) else None)
    )
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _has_free_space(directory: Path) -> bool:
    try:
        found = os.statvfs(directory)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= MIN_FREE_SHARED_MEMORY_BYTES and os.access(directory, os.W_OK)
