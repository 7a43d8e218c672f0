"""The program that notices what is done to it, started, and what it has noticed."""

from __future__ import annotations

import atexit
import ctypes
import errno
import functools
import mmap
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

TARGETS = Path(__file__).parent / "targets"
KINDS = ("epoll_wait", "poll", "recv", "nanosleep")
# Who waits: threads that Python does not know; threads that stay in C; threads that come back each time.
FLAVOURS = ("c", "inside", "again")
# The shared file: rounds of the main thread; waits by flavour and kind; a byte for each signal's value.
FLAVOURS_AT, WAITS, SIGNALS_AT = 64, struct.Struct("qqq"), 4096
MOST_SIGNALS = 16 << 20
DEADLINE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Waits:
    """Calls that returned, those of them with EINTR, and those with an error that nobody expects."""

    calls: int = 0
    interrupted: int = 0
    failed: int = 0

    def __sub__(self, other: Waits) -> Waits:
        return Waits(
            self.calls - other.calls, self.interrupted - other.interrupted, self.failed - other.failed
        )


@dataclass
class Victim:
    """A running victim. Signals are sent by `signal`, each with a value of its own."""

    pid: int
    shared: mmap.mmap
    library: ctypes.CDLL
    sent: int = 0
    tids: list[int] = field(default_factory=list)

    def rounds(self) -> int:
        return int.from_bytes(self.shared[:8], "little")

    def waits(self) -> Mapping[tuple[str, str], Waits]:
        """By flavour and kind."""
        names = [(flavour, kind) for flavour in FLAVOURS for kind in KINDS]
        end = FLAVOURS_AT + WAITS.size * len(names)
        counted = WAITS.iter_unpack(self.shared[FLAVOURS_AT:end])
        return {name: Waits(*counts) for name, counts in zip(names, counted, strict=True)}

    def signal(self, tid: int = 0) -> None:
        """Queue one real-time signal for the process, or for one of its threads."""
        assert self.sent < MOST_SIGNALS, "there is no room to count more signals"
        number = signal.SIGRTMIN + self.sent % 8
        while (error := self.library.queue_signal(self.pid, tid, number, self.sent)) == errno.EAGAIN:
            time.sleep(0.001)
        if error:
            raise OSError(error, f"signal to {self.pid}")
        self.sent += 1

    def arrived(self) -> bytes:
        """For each signal sent, how often it was handled: all 1 is right."""
        return self.shared[SIGNALS_AT : SIGNALS_AT + self.sent]

    def all_arrived(self) -> bool:
        return self.arrived() == b"\1" * self.sent

    def threads(self) -> list[int]:
        return [int(path.name) for path in Path(f"/proc/{self.pid}/task").iterdir()]

    def standing(self) -> dict[int, str]:
        """The threads that are stopped (T) or in a tracer's hands (t), by id."""
        states = {tid: thread_state(self.pid, tid) for tid in self.threads()}
        return {tid: state for tid, state in states.items() if state in "Tt"}


def thread_state(pid: int, tid: int) -> str:
    """The letter the kernel gives a thread; X if there is none."""
    try:
        return Path(f"/proc/{pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def until(what: str, condition: Callable[[], object]) -> None:
    """Return as soon as the condition holds; fail if it does not within a minute."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {DEADLINE_SECONDS:.0f} s: {what}"
        time.sleep(0.002)


@functools.cache
def library() -> Path:
    """The victim's part in C, compiled once by each process that needs it."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "victim.so")
    command = [
        "cc",
        "-shared",
        "-fPIC",
        "-O2",
        "-pthread",
        "-Wall",
        "-Werror",
        "-o",
        path,
        TARGETS / "victim.c",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"these tests need a C compiler (`make tools` installs it): {done.stderr}"
    return path


@contextmanager
def victim(python: Path, seconds: float = 300) -> Iterator[Victim]:
    """A victim under this Python. It is killed at the end, and ends by itself after `seconds`."""
    with TemporaryDirectory() as folder:
        compiled = library()
        shared = Path(folder, "shared")
        shared.touch()
        os.truncate(shared, SIGNALS_AT + MOST_SIGNALS)
        command = [python, TARGETS / "victim.py", shared, compiled, str(seconds)]
        with (
            shared.open("r+b") as file,
            mmap.mmap(file.fileno(), 0) as memory,
            subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, text=True) as process,
        ):
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == "ready\n"
                yield Victim(process.pid, memory, ctypes.CDLL(str(compiled)))
            finally:
                process.kill()
