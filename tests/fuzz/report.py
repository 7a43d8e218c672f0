"""Bounds on one input and on a run, and the files of failing inputs."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FAILURES: Final = ROOT / ".tools" / "fuzz"
MAX_CPU_SECONDS: Final = 5.0
"""CPU time of one input, which takes microseconds to milliseconds."""
MAX_GROWTH_BYTES: Final = 96 << 20
"""Growth of resident memory from the first tenth of the inputs to the last."""


class Hang(Exception):
    """An input took more CPU time than any may."""


class MemoryGrowth(Exception):
    """Memory grew from input to input."""


@dataclass(frozen=True, slots=True)
class Failure:
    """An input that failed, how, and the file that has it."""

    target: str
    problem: str
    file: Path

    def __str__(self) -> str:
        return f"{self.problem}\n  python -m tests.fuzz --only {self.target} --reproduce {self.file}"


@dataclass(slots=True)
class Summary:
    """A run of a target: inputs tried, inputs with a new outcome, and failures."""

    target: str
    engine: str
    inputs: int = 0
    new_outcomes: int = 0
    growth_bytes: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"| {self.target} | {self.engine} | {self.inputs:,} | {self.new_outcomes:,} | "
            f"{self.growth_bytes / 2**20:.0f} | {self.seconds:.0f} | {len(self.failures)} |"
        )


HEADER: Final = (
    "| target | engine | inputs | new outcomes | growth (MiB) | seconds | failures |\n" + "|---" * 7 + "|"
)


@contextmanager
def limit_cpu(seconds: float = MAX_CPU_SECONDS) -> Iterator[None]:
    """Raise Hang in the main thread after `seconds` of CPU time of this process; elsewhere do nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(_: int, frame: FrameType | None) -> None:
        raise Hang(f"more than {seconds:g} s of CPU time: {''.join(traceback.format_stack(frame)[-3:])}")

    previous = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, previous)


def save_failure(target: str, data: bytes, problem: str, folder: Path = FAILURES) -> Failure:
    """Write a failing input to a file named after its target and its hash."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{target}-{sha256(data).hexdigest()[:16]}"
    file.write_bytes(data)
    return Failure(target, problem, file)


def resident_bytes() -> int:
    """The resident memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
