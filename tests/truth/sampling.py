"""Samples a program that tells the truth of itself, window after window."""

from __future__ import annotations

import os
import subprocess
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from sidelight_native import Batch, Engine, Session

from sidelight_model.counts import Counts
from tests.truth import diaries

PROGRAMS = Path(__file__).parent / "programs"
UNREAD = "(unread)"
PROFILER = (
    *("-m", "profiling.sampling", "attach", "--blocking"),
    *("--async-aware", "--async-mode", "all", "--collapsed"),
)
PROFILER_SINCE, PROFILER_SECONDS, PROFILER_TASKS_HZ = 15, 10, 2000
# Of more tasks a random subset of this size is read.
TASKS_MAX = 64


@dataclass(frozen=True, slots=True)
class Row:
    """Samples of one stack: its functions, root first, and how often each state was seen.

    The root of an asyncio task's stack is its state.
    """

    functions: tuple[str, ...]
    counts: Counts

    @property
    def samples(self) -> int:
        return sum(self.counts)

    @property
    def unread(self) -> bool:
        return self.functions[-1] == UNREAD


@dataclass(frozen=True, slots=True)
class Window:
    """One of many independent runs: a part of a session, beginning where the one before ended."""

    start_ns: int
    end_ns: int
    rows: Sequence[Row]
    attempts: int
    failed: int
    batch: Batch


@dataclass(frozen=True, slots=True)
class Sampled:
    """A session, and what the program says of that time: of its threads, or of its tasks.

    `profiled` is one more window: the tasks as CPython's own profiler saw them.
    """

    windows: Sequence[Window]
    told: Mapping[str, diaries.Diary | diaries.TaskDiary]
    python: str
    mode: str
    reader: str
    profiled: Window | None = None

    @property
    def attempts(self) -> int:
        return sum(window.attempts for window in self.windows)

    @property
    def failed(self) -> int:
        return sum(window.failed for window in self.windows)

    @property
    def samples(self) -> int:
        return sum(row.samples for window in self.windows for row in window.rows)

    @property
    def unread(self) -> int:
        return sum(row.samples for window in self.windows for row in window.rows if row.unread)

    @property
    def late_share(self) -> float:
        """The share of the time in which ticks were skipped."""
        seconds = sum(window.end_ns - window.start_ns for window in self.windows)
        return sum(window.batch.late_ns for window in self.windows) / seconds

    @property
    def stopped_ns(self) -> int:
        return sum(window.batch.stopped_ns for window in self.windows)

    @property
    def longest_stop_ns(self) -> int:
        return max(window.batch.longest_stop_ns for window in self.windows)


@dataclass(frozen=True, slots=True)
class Plan:
    """How to sample threads, or asyncio tasks: so many windows of so many expected ticks."""

    windows: int
    ticks: int
    rate_hz: float
    mode: str = "auto"
    is_of_tasks: bool = False


def sample(python: Path, program: str, variant: Sequence[str], plan: Plan) -> Sampled:
    """Run a program under an interpreter, sample it as planned, and let it tell what it did meanwhile."""
    window_seconds = plan.ticks / plan.rate_hz
    most_seconds = 3 * plan.windows * window_seconds + 60
    with TemporaryDirectory() as folder:
        diary = Path(folder, "diary")
        command = [python, PROGRAMS / f"{program}.py", diary, str(most_seconds), *variant]
        with _started(command) as (target, pid):
            engine = Engine()
            tasks_hz = plan.rate_hz if plan.is_of_tasks else 0.0
            session = engine.attach(
                pid, rate_hz=plan.rate_hz, mode=plan.mode, tasks_hz=tasks_hz, tasks_max=TASKS_MAX
            )
            batches = list(_taken(session, plan.windows, window_seconds))
            session.stop()
            engine.close()
            profiled = None
            if plan.is_of_tasks and int(session.python.split(".")[1]) >= PROFILER_SINCE:
                profiled = _profiled(python, pid, Path(folder, "stacks"), batches[-1], int(variant[0]))
            target.terminate()
            output, _ = target.communicate(timeout=60)
            assert target.returncode == 0, output
        told = diaries.read(diary)
    windows = [_window_of_tasks(batch) if plan.is_of_tasks else _window(batch) for batch in batches]
    return Sampled(windows, told, batches[0].python, session.mode, session.reader, profiled)


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
    rows = [Row(_functions(stack), Counts(*states)) for _, stack, *states in batch.counts]
    return Window(
        batch.start_ns,
        batch.start_ns + batch.duration_ns,
        rows,
        batch.attempts,
        sum(batch.errors.values()),
        batch,
    )


def _window_of_tasks(batch: Batch) -> Window:
    """A window with the stacks that were read. Each stands for as many tasks as the others of its reading."""
    tasks, end_ns = batch.tasks, batch.start_ns + batch.duration_ns
    if tasks is None:
        return Window(batch.start_ns, end_ns, [], 0, 0, batch)
    weights: dict[tuple[str, ...], float] = {}
    for stack, state, weight in tasks.rows:
        functions = (state, *_functions(stack))
        weights[functions] = weights.get(functions, 0.0) + weight
    each = max(tasks.tasks / max(tasks.readings, 1) / TASKS_MAX, 1.0)
    rows = [
        Row(functions, Counts(**{functions[0]: max(round(weight / each), 1)}))
        for functions, weight in weights.items()
    ]
    return Window(batch.start_ns, end_ns, rows, tasks.readings + tasks.failed, tasks.failed, batch)


def _profiled(python: Path, pid: int, output: Path, batch: Batch, tasks: int) -> Window:
    """A window of CPython's own profiler, which stops the process to read all tasks."""
    rate_hz = max(PROFILER_TASKS_HZ // tasks, 1)
    command = [python, *PROFILER, "-o", output, "-r", rate_hz, "-d", PROFILER_SECONDS, pid]
    start_ns = time.time_ns()
    subprocess.run(list(map(str, command)), check=True, capture_output=True, timeout=60)
    end_ns = time.time_ns()
    rows = []
    for line in output.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        # A frame is FILE:FUNCTION:LINE, a task's first line <task>:NAME:0.
        functions = tuple(frame.split(":")[1] for frame in stack.split(";"))
        rows.append(Row(functions, Counts(task_waiting=int(count))))
    return Window(start_ns, end_ns, rows, 0, 0, batch)


def _functions(stack: str) -> tuple[str, ...]:
    return tuple(frame.rpartition(" (")[0] or frame for frame in stack.split(";"))
