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

from sidelight_collector.metrics import Metrics, keep_numbers_in
from sidelight_collector.runtime.http_server import Sockets, announce, bind, close, port_of
from sidelight_collector.runtime.supervisor import Deaths, Job, supervise
from sidelight_collector.settings.collector import Settings

MEMORY: Final = Path("/dev/shm")  # noqa: S108 - what is made there has a name that nobody guesses
MEMORY_BYTES: Final = 32 << 20
"""What must be free there: who writes into a mapped file and finds no room is killed."""
STORE_REQUESTS: Final = 10
"""So many may come one after the other in a worker that ends: three objects, three attempts each."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What one process of several is given: its name, the directory they share, and where it listens."""

    name: str
    shared: Path
    sockets: Sockets

    def leave(self) -> None:
        """Remove what was shared; those who still have it open are not disturbed."""
        shutil.rmtree(self.shared, ignore_errors=True)


def run(settings: Settings, work: Callable[[Settings, Seat], Job]) -> None:
    """Serve with several processes until SIGTERM or SIGINT; `work` says what one with these settings does.

    Besides `settings.workers` that serve there is one that compacts, if the role is all. Raises PortInUse and
    WorkersDie.
    """
    with _shared() as shared:
        keep_numbers_in(shared, "supervisor")
        sockets = bind(settings.address, settings.workers)
        seats = [Seat(str(number), shared, mine) for number, mine in enumerate(sockets, 1)]
        serving = replace(settings, role="serve", workers=1)
        jobs = {seat.name: work(serving, seat) for seat in seats}
        if settings.role == "all":
            seat = Seat("compactor", shared, ())
            jobs[seat.name] = work(replace(settings, role="compactor", workers=1), seat)
        supervise(
            jobs,
            Deaths(settings.max_worker_restarts, settings.worker_restart_window_seconds),
            _Audience(settings, Metrics(shared), jobs, seats),
            stop_seconds=settings.shutdown_timeout_seconds + STORE_REQUESTS * settings.store_timeout_seconds,
        )


class _Audience:
    """Counts workers, says where the collector listens once all work, and closes that when they end."""

    def __init__(
        self, settings: Settings, metrics: Metrics, jobs: Mapping[str, Job], seats: Sequence[Seat]
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._expected = set(jobs)
        self._seats = seats

    def working(self, names: Collection[str]) -> None:
        self._metrics.workers.set(sum(seat.name in names for seat in self._seats))
        if self._expected and self._expected <= set(names):
            self._expected.clear()
            announce(self._settings, port_of(self._seats[0].sockets))

    def died(self) -> None:
        self._metrics.worker_restarts.inc()

    def ending(self) -> None:
        for seat in self._seats:
            close(seat.sockets)


@contextmanager
def _shared() -> Iterator[Path]:
    """A directory for as long as this process lives, in memory where that can be had."""
    made = Path(tempfile.mkdtemp(prefix="sidelight-", dir=MEMORY if _has_room(MEMORY) else None))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _has_room(place: Path) -> bool:
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    return found.f_bavail * found.f_frsize >= MEMORY_BYTES and os.access(place, os.W_OK)
