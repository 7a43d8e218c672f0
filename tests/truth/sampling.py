"""Samples a program that tells the truth of itself, window after window."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from sidelight_native import Batch, Engine, Session

from sidelight_model.counts import Counts
from tests.truth import diaries

PROGRAMS = Path(__file__).parent / "programs"
UNREAD = "(unread)"


@dataclass(frozen=True, slots=True)
class Row:
    """Samples of one stack: its functions, root first, and how often each state was seen."""

    functions: tuple[str, ...]
    counts: Counts

    @property
    def samples(self) -> int:
        return self.counts.wall

    @property
    def unread(self) -> bool:
        return self.functions[-1] == UNREAD


@dataclass(frozen=True, slots=True)
class Window:
    """One of many independent runs: a part of a session, beginning where the one before ended."""

    start_ns: int
    end_ns: int
    rows: Sequence[Row]
    batch: Batch


@dataclass(frozen=True, slots=True)
class Sampled:
    """A session, and what the program says of that time."""

    windows: Sequence[Window]
    told: Mapping[str, diaries.Diary]
    python: str
    mode: str
    reader: str
    errors: Counter[str] = field(default_factory=Counter)

    @property
    def attempts(self) -> int:
        return sum(window.batch.attempts for window in self.windows)

    @property
    def samples(self) -> int:
        return sum(window.batch.samples for window in self.windows)

    @property
    def unread(self) -> int:
        return sum(row.samples for window in self.windows for row in window.rows if row.unread)

    @property
    def late_share(self) -> float:
        """The share of the time in which ticks were skipped."""
        seconds = sum(window.end_ns - window.start_ns for window in self.windows)
        return sum(window.batch.late_ns for window in self.windows) / seconds

    @property
    def longest_stop_ns(self) -> int:
        return max(window.batch.longest_stop_ns for window in self.windows)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to sample: so many windows of so many expected ticks."""

    windows: int
    ticks: int
    rate_hz: float
    mode: str = "auto"


def sample(python: Path, program: str, variant: Sequence[str], plan: Plan) -> Sampled:
    """Run a program under an interpreter, sample it as planned, and let it tell what it did meanwhile."""
    window_seconds = plan.ticks / plan.rate_hz
    most_seconds = 3 * plan.windows * window_seconds + 60
    with TemporaryDirectory() as folder:
        diary = Path(folder, "diary")
        command = [python, PROGRAMS / f"{program}.py", diary, str(most_seconds), *variant]
        with _started(command) as (target, pid):
            engine = Engine()
            session = engine.attach(pid, rate_hz=plan.rate_hz, mode=plan.mode)
            batches = list(_taken(session, plan.windows, window_seconds))
            session.stop()
            engine.close()
            target.terminate()
            output, _ = target.communicate(timeout=60)
            assert target.returncode == 0, output
        told = diaries.read(diary)
    windows = [_window(batch) for batch in batches]
    errors = Counter[str]()
    for batch in batches:
        errors.update(batch.errors)
    return Sampled(windows, told, batches[0].python, session.mode, session.reader, errors)


@contextmanager
def _started(command: Sequence[Path | str]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """The program, and the process that it wants to be sampled."""
    env = {**os.environ, "PACKAGES": sysconfig.get_path("purelib")}
    with subprocess.Popen(list(map(str, command)), env=env, stdout=subprocess.PIPE, text=True) as target:
        try:
            assert target.stdout is not None
            ready, pid = target.stdout.readline().split()
            assert ready == "ready"
            yield target, int(pid)
        finally:
            target.kill()


def _taken(session: Session, windows: int, seconds: float) -> Iterator[Batch]:
    session.take()
    for _ in range(windows):
        time.sleep(seconds)
        yield session.take()
        assert session.ended is None, session.ended


def _window(batch: Batch) -> Window:
    rows = [
        Row(tuple(frame.rpartition(" (")[0] or frame for frame in stack.split(";")), Counts(*states))
        for _, stack, *states in batch.counts
    ]
    return Window(batch.start_ns, batch.start_ns + batch.duration_ns, rows, batch)
