"""A collector of several worker processes, and the resources that they share."""

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
from sidelight_collector.runtime.heartbeat import HeartbeatMonitor
from sidelight_collector.runtime.http_server import (
    Sockets,
    announce_address,
    bind_sockets,
    close_sockets,
    port_of,
)
from sidelight_collector.runtime.supervisor import CrashLoopGuard, Job, supervise
from sidelight_collector.settings.collector import Settings

SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - mkdtemp creates unpredictable names there
MIN_FREE_SHARED_MEMORY_BYTES: Final = 32 << 20
"""Minimum free space there.

A process is killed when it writes to a mapped file and no space is left.
"""
SHUTDOWN_STORE_REQUESTS: Final = 10
"""Upper bound of consecutive store requests of a worker that shuts down.

It writes three objects, two of them at once, with four attempts each.
"""


@dataclass(frozen=True, slots=True)
class WorkerContext:
    """The name of a worker, the shared directory, and the sockets it listens on."""

    name: str
    shared_dir: Path
    sockets: Sockets

    def remove_shared_dir(self) -> None:
        """Remove the shared directory; processes may still use files that they have open."""
        shutil.rmtree(self.shared_dir, ignore_errors=True)


def run_workers(settings: Settings, build_job: Callable[[Settings, WorkerContext], Job]) -> None:
    """Serve with several processes until SIGTERM or SIGINT.

    `build_job` returns the job of a worker with these settings. There are `settings.workers` serving
    workers and, if the role is `all`, one that compacts. Raises PortInUse and CrashLoop.
    """
    with _create_shared_dir() as shared:
        enable_multiprocess_metrics(shared, "supervisor")
        sockets = bind_sockets(settings.address, settings.workers)
        contexts = [
            WorkerContext(str(number), shared, own_sockets) for number, own_sockets in enumerate(sockets, 1)
        ]
        serve_settings = replace(settings, role="serve", workers=1)
        jobs = {context.name: build_job(serve_settings, context) for context in contexts}
        if settings.role == "all":
            context = WorkerContext("compactor", shared, ())
            jobs[context.name] = build_job(replace(settings, role="compactor", workers=1), context)
        supervise(
            jobs,
            CrashLoopGuard(settings.max_worker_restarts, settings.worker_restart_window_seconds),
            _CollectorWorkerEvents(settings, Metrics(shared), jobs, contexts),
            HeartbeatMonitor(settings.worker_heartbeat_timeout_seconds),
            shared,
            stop_seconds=settings.shutdown_timeout_seconds
            + SHUTDOWN_STORE_REQUESTS * settings.store_timeout_seconds,
        )


class _CollectorWorkerEvents:
    """Counts workers, and announces the address once all are ready.

    It closes the sockets when the workers shut down.
    """

    def __init__(
        self, settings: Settings, metrics: Metrics, jobs: Mapping[str, Job], contexts: Sequence[WorkerContext]
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._starting = set(jobs)
        self._contexts = contexts

    def on_running(self, names: Collection[str]) -> None:
        self._metrics.workers.set(sum(context.name in names for context in self._contexts))
        if self._starting and self._starting <= set(names):
            self._starting.clear()
            announce_address(self._settings, port_of(self._contexts[0].sockets))

    def on_hang(self) -> None:
        self._metrics.worker_hangs.inc()

    def on_death(self) -> None:
        self._metrics.worker_restarts.inc()

    def on_shutdown(self) -> None:
        for context in self._contexts:
            close_sockets(context.sockets)


@contextmanager
def _create_shared_dir() -> Iterator[Path]:
    """Create a temporary directory, in shared memory if it has enough space."""
    shared_dir = Path(
        tempfile.mkdtemp(prefix="sidelight-", dir=SHARED_MEMORY if _has_free_space(SHARED_MEMORY) else None)
    )
    try:
        yield shared_dir
    finally:
        shutil.rmtree(shared_dir, ignore_errors=True)


def _has_free_space(directory: Path) -> bool:
    try:
        status = os.statvfs(directory)
    except OSError:
        return False
    return status.f_bavail * status.f_frsize >= MIN_FREE_SHARED_MEMORY_BYTES and os.access(directory, os.W_OK)
