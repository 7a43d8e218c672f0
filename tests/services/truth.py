"""What the kernel says of a service: its processes, their CPU time, and how long they waited for a CPU."""

from __future__ import annotations

import os
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

_TICKS = os.sysconf("SC_CLK_TCK")
_AIDS = ("resource_tracker", "semaphore_tracker", "forkserver import main")


@dataclass(slots=True)
class Account:
    """One process over time: moments in nanoseconds since 1970, and seconds up to each."""

    aid: bool
    moments: list[int] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    ran: list[float] = field(default_factory=list)
    waited: list[float] = field(default_factory=list)
    threads: dict[str, tuple[float, float]] = field(default_factory=dict)

    def cores(self, start_ns: int, until_ns: int) -> tuple[float, float]:
        """CPU seconds per second in between, and the same of threads that could have run and did not."""
        seconds = (until_ns - start_ns) / 1e9
        cpu, ran, waited = (
            (_at(self.moments, values, until_ns) - _at(self.moments, values, start_ns)) / seconds
            for values in (self.cpu, self.ran, self.waited)
        )
        # Threads that came and went between two looks are in the process's CPU time alone: they are taken
        # to have waited as those did that were seen.
        return cpu, waited * max(1.0, cpu / ran) if ran else waited

    def add(self, moment: int, cpu: float, threads: dict[str, tuple[float, float]]) -> None:
        """What the process has taken by now, and what each of its threads ran and waited."""
        ran, waited = (self.ran[-1], self.waited[-1]) if self.ran else (0.0, 0.0)
        for thread, (ran_now, waited_now) in threads.items():
            ran_before, waited_before = self.threads.get(thread, (0.0, 0.0))
            ran += max(0.0, ran_now - ran_before)
            waited += max(0.0, waited_now - waited_before)
        self.threads = threads
        self.moments.append(moment)
        self.cpu.append(cpu)
        self.ran.append(ran)
        self.waited.append(waited)


class Watcher:
    """Reads the accounts of a process and its descendants, four times a second."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self.accounts: dict[int, Account] = {}

    def alive(self) -> list[int]:
        """The processes that run now, the service's own children included."""
        try:
            root = psutil.Process(self._pid)
            return [root.pid, *(child.pid for child in root.children(recursive=True))]
        except psutil.NoSuchProcess:
            return []

    def run(self) -> None:
        while not self._stop.wait(0.25):
            for pid in self.alive():
                self._read(pid)

    def stop(self) -> None:
        self._stop.set()

    def _read(self, pid: int) -> None:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            threads = {}
            for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
                ran, waited, _ = path.read_text().split()
                threads[path.parts[-2]] = (int(ran) / 1e9, int(waited) / 1e9)
        except (OSError, IndexError, ValueError):
            return
        if pid not in self.accounts:
            self.accounts[pid] = Account(any(aid in words for aid in _AIDS))
        cpu = (int(fields[11]) + int(fields[12])) / _TICKS
        self.accounts[pid].add(time.time_ns(), cpu, threads)


@contextmanager
def watching(pid: int) -> Iterator[Watcher]:
    """A Watcher that reads in a thread of its own."""
    watcher = Watcher(pid)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    try:
        yield watcher
    finally:
        watcher.stop()
        thread.join()


def _at(moments: list[int], values: list[float], moment: int) -> float:
    after = bisect_left(moments, moment)
    if after == 0:
        return values[0]
    if after == len(moments):
        return values[-1]
    share = (moment - moments[after - 1]) / (moments[after] - moments[after - 1])
    return values[after - 1] + share * (values[after] - values[after - 1])
