"""An engine whose samples are written down, and processes that are a list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from sidelight_sidecar.discovery.processes import Proc, ProcessKey

MS = 1_000_000


@dataclass(frozen=True)
class FakeBatch:
    counts: Sequence[tuple[str, str, int, int, int]] = ()
    duration_ns: int = 1000 * MS
    attempts: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    late_ns: int = 0
    threads: int = 1
    truncated: int = 0
    other: int = 0
    stops: int = 0
    stopped_ns: int = 0
    longest_stop_ns: int = 0
    sampler_cpu_ns: int = 0

    @property
    def samples(self) -> int:
        return sum(sum(row[2:]) for row in self.counts)


def batch(text: str = "", thread: str = "main", **numbers: object) -> FakeBatch:
    """`a;b 3 2 1 | c 0 0 4` is stacks with their idle, running and gil samples."""
    rows = []
    for line in filter(None, (part.strip() for part in text.split("|"))):
        stack, *states = line.rsplit(" ", 3)
        rows.append((thread, stack, *map(int, states)))
    attempts = sum(sum(row[2:]) for row in rows)
    return FakeBatch(tuple(rows), **{"attempts": attempts, **numbers})  # type: ignore[arg-type]


@dataclass(frozen=True)
class FakeTimeline:
    start_ns: int = 0
    threads: Sequence[str] = ()
    stacks: Sequence[str] = ()
    samples: Sequence[tuple[int, int, int, int]] = ()
    dropped: int = 0
    monotonic_ns: int = 0


@dataclass
class FakeSession:
    pid: int
    rate_hz: float
    mode: str = "gil"
    reader: str = "own"
    python: str = "3.11.7"
    ended: str | None = None
    names_problem: str | None = None
    waiting: list[FakeBatch] = field(default_factory=list)
    shown: FakeTimeline = field(default_factory=FakeTimeline)
    calls: list[str] = field(default_factory=list)

    def take(self) -> FakeBatch:
        self.calls.append("take")
        return self.waiting.pop(0) if self.waiting else FakeBatch(duration_ns=0)

    def stop(self) -> FakeBatch:
        self.calls.append("stop")
        return self.waiting.pop(0) if self.waiting else FakeBatch(duration_ns=0)

    def set_rate(self, rate_hz: float) -> None:
        self.calls.append(f"rate {rate_hz:g}")

    def timeline(self, seconds: float | None = None) -> FakeTimeline:
        return self.shown


@dataclass
class FakeEngine:
    """Attaches to anything but what `refuse` names; a session's batches come from `gives`."""

    refuse: dict[int, Exception] = field(default_factory=dict)
    gives: Callable[[int], Iterable[FakeBatch]] = lambda pid: ()
    sessions: dict[int, FakeSession] = field(default_factory=dict)
    asked: list[int] = field(default_factory=list)
    cpu_ns: int = 0

    def attach(self, pid: int, *, rate_hz: float, **options: object) -> FakeSession:
        self.asked.append(pid)
        if pid in self.refuse:
            raise self.refuse[pid]
        session = self.sessions[pid] = FakeSession(pid, rate_hz, waiting=list(self.gives(pid)))
        return session

    def close(self) -> None:
        pass


@dataclass
class FakeProcFs:
    """A process table; `stopped` are those whose threads stand in state T."""

    table: list[Proc] = field(default_factory=list)
    tracer: int = 0

    def list_processes(self) -> list[Proc]:
        return list(self.table)

    def read_process(self, pid: int) -> Proc | None:
        return next((proc for proc in self.table if proc.pid == pid), None)

    def read_thread_states(self, pid: int) -> list[tuple[str, int]]:
        return [("t" if self.tracer else "S", self.tracer)]

    def read_uid(self, pid: int) -> int | None:
        return 1000

    def end(self, pid: int) -> None:
        self.table = [proc for proc in self.table if proc.pid != pid]

    def change(self, pid: int, **fields: object) -> None:
        self.table = [
            replace(proc, **fields) if proc.pid == pid else proc  # type: ignore[arg-type]
            for proc in self.table
        ]


def proc(pid: int, ppid: int = 1, *command_line: str, python: str | None = "3.11", start: int = 1) -> Proc:
    words = command_line or ("/usr/bin/python3", "-u", "/srv/app.py", "--password", "secret")
    return Proc(ProcessKey(pid, start), ppid, "S", words, words[0], python)
