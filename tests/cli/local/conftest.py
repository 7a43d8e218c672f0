"""Real targets for the hand tools, and the tools as processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.processes import Running, eventually, running, sidelight

STORY = Path(__file__).parent / "targets" / "story.py"
Start = Callable[..., Running]
Done = subprocess.CompletedProcess[str]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the story with its arguments, or another command, and waits until the story says ready."""
    with ExitStack() as stack:
        count = iter(range(100))

        def begin(*arguments: str, argv: tuple[str, ...] = ()) -> Running:
            log = tmp_path / f"target-{next(count)}.log"
            command = argv or (sys.executable, str(STORY), *arguments)
            target = stack.enter_context(running(log, *command))
            if not argv:
                eventually("the target runs", lambda: "ready" in target.said())
            return target

        yield begin


@dataclass
class Tool:
    """`sidelight COMMAND …` in a folder of its own."""

    folder: Path
    stack: ExitStack

    def run(self, *argv: str, env: Mapping[str, str] | None = None, wrapper: tuple[str, ...] = ()) -> Done:
        """Run it to its end."""
        return subprocess.run(
            [*wrapper, *sidelight(*argv)],
            capture_output=True,
            text=True,
            timeout=120,
            cwd=self.folder,
            check=False,
            env={**os.environ, **(env or {})},
        )

    def begin(self, *argv: str) -> Running:
        """Start it; returns when it samples, which is when it first says something."""
        log = self.folder / f"{argv[0]}.log"
        log.unlink(missing_ok=True)
        process = self.stack.enter_context(running(log, *sidelight(*argv), cwd=self.folder))
        eventually("it samples", lambda: process.said() or not process.alive())
        return process

    def record(self, target: Running, name: str, *options: str, others: int = 0) -> str:
        """Record until the target (and so many below it) has worked for a while; what was written."""
        recorder = self.begin("record", "--pid", str(target.pid), "--seconds", "0", "-o", name, *options)

        def begun() -> list[str] | None:
            assert recorder.alive(), recorder.said()
            pids = re.findall(r"^(?:recording|and) process ([0-9]+)", recorder.said(), re.MULTILINE)
            return pids if len(pids) == 1 + others else None

        work_on(recorder.pid, *map(int, eventually("all of them are sampled", begun)))
        assert recorder.end(signal.SIGINT, seconds=60) == 0, recorder.said()
        return self.read(name)

    def read(self, name: str) -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def tool(tmp_path: Path) -> Iterator[Tool]:
    folder = tmp_path / "here"
    folder.mkdir()
    with ExitStack() as stack:
        yield Tool(folder, stack)


def cpu_seconds(pid: int) -> float:
    """The CPU time a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def waits(pid: int) -> int:
    """How often the threads of a process have waited: a sampler does once a tick."""
    found = [task.read_text() for task in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(map(int, re.findall(r"^voluntary_ctxt_switches:\t(\d+)", "".join(found), re.MULTILINE)))


def work_on(recorder: int, *pids: int) -> None:
    """Returns when each process has had a fifth of a second of CPU time, and the recorder time to see it."""
    goals, ticks = {pid: cpu_seconds(pid) + 0.2 for pid in pids}, waits(recorder) + 50
    eventually("the targets work", lambda: all(cpu_seconds(pid) > goal for pid, goal in goals.items()))
    eventually("the recorder samples", lambda: waits(recorder) > ticks)


def states(pid: int) -> str:
    """The letters of a process's threads: R, S, T (stopped), t (traced)."""
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return "".join(task.joinpath("stat").read_text().rpartition(")")[2].split()[0] for task in tasks)
