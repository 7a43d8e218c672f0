"""Real Python processes to sample, and ways to wait for what sampling gives."""

import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sidelight_native import Batch, Session

from sidelight_model.counts import THREAD_STATES, Counts

TARGETS = Path(__file__).parent / "targets"
DEADLINE_SECONDS = 60.0
PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def installed_pythons() -> dict[str, Path]:
    """The interpreters to be sampled, by version, oldest first: pyenv's, or else the one that runs this."""
    paths = sorted(PYENV.glob("3.*[0-9]/bin/python3"), key=lambda path: int(path.parts[-3].split(".")[1]))
    return {path.parts[-3]: path for path in paths} or {platform.python_version(): Path(sys.executable)}


PYTHONS = installed_pythons()


@dataclass
class Taken:
    """The batches of a session so far, added up."""

    batches: list[Batch] = field(default_factory=list)
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def add(self, batch: Batch) -> None:
        self.batches.append(batch)
        for _, stack, *states in batch.counts:
            before = self.counts.get(stack, (0,) * len(states))
            self.counts[stack] = tuple(map(sum, zip(before, states, strict=True)))

    @property
    def attempts(self) -> int:
        return sum(batch.attempts for batch in self.batches)

    @property
    def samples(self) -> int:
        return sum(batch.samples for batch in self.batches)

    @property
    def failed(self) -> int:
        return sum(sum(batch.errors.values()) for batch in self.batches)

    @property
    def misread(self) -> int:
        """Ticks that failed, but for those in which a thread stopped too late: a crowded machine has many."""
        late = sum(batch.errors.get(kind, 0) for batch in self.batches for kind in ("slow", "unstoppable"))
        return self.failed - late

    def of(self, *functions: str) -> tuple[int, ...]:
        """The samples in each state of the stacks in which any of these functions occurs."""
        wanted = [
            counts
            for stack, counts in self.counts.items()
            if any(frame.split(" (")[0] in functions for frame in stack.split(";"))
        ]
        return tuple(sum(counts[state] for counts in wanted) for state in range(len(THREAD_STATES)))

    def states_of(self, *functions: str) -> Counts:
        """The same, by name."""
        return Counts(*self.of(*functions))


def wait_until(condition: Callable[[], bool]) -> None:
    """Return as soon as the condition holds; fail if it does not within a minute."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def collect(session: Session, samples: int) -> Taken:
    """Take until this many samples were counted, then stop."""
    taken = Taken()

    def enough() -> bool:
        taken.add(session.take())
        return taken.samples >= samples or session.ended is not None

    wait_until(enough)
    taken.add(session.stop())
    assert taken.samples >= samples, f"sampling ended early: {session.ended}"
    return taken


def sampling_threads() -> set[str]:
    """The ids of this process's sampling threads."""
    found = set()
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            if (thread / "comm").read_text() == "sidelight-sampl\n":
                found.add(thread.name)
    return found


def state(pid: int) -> str:
    """The letter the kernel gives the process: R, S, D, T (stopped), t (traced), Z (ended)."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start a target (a name in targets/, or a path) that has said it is ready; it ends with the test.

    Never poll a target while it is sampled from this process: both would wait for the same child.
    """
    with ExitStack() as stack:

        def start(
            name: str | Path, *arguments: object, python: str = sys.executable
        ) -> subprocess.Popen[str]:
            path = name if isinstance(name, Path) else TARGETS / f"{name}.py"
            process = subprocess.Popen(
                [python, str(path), *map(str, arguments)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            return process

        yield start


@contextmanager
def not_python() -> Iterator[int]:
    """The process of a program that is no Python, and runs already: `Popen` returns once it does."""
    with subprocess.Popen(["sleep", "30"]) as process:
        try:
            yield process.pid
        finally:
            process.kill()


@contextmanager
def apart(pid: int) -> Iterator[int]:
    """Threads started meanwhile and the process have no CPU in common, if there are two; its own is given.

    A sampler that takes the CPU from its target need not stop it.
    """
    cpus = sorted(os.sched_getaffinity(0))
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {cpus[-1]})
    os.sched_setaffinity(0, {cpus[0]})
    try:
        yield cpus[-1]
    finally:
        os.sched_setaffinity(0, cpus)


@pytest.fixture(name="collect")
def collect_fixture() -> Callable[[Session, int], Taken]:
    return collect


@pytest.fixture(name="wait_until")
def wait_until_fixture() -> Callable[[Callable[[], bool]], None]:
    return wait_until


@pytest.fixture(name="state")
def state_fixture() -> Callable[[int], str]:
    return state
