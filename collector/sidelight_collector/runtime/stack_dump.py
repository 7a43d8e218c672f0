"""Stacks of a process that hangs, written by itself when it gets a signal.

The handler is faulthandler's. It runs without the GIL, so it works while Python or C code holds the GIL, and
while the main thread is blocked in a system call.
"""

from __future__ import annotations

import faulthandler
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Final

SIGNAL: Final = signal.SIGUSR1
MAX_STACK_BYTES: Final = 64 << 10


def register_stack_dump(path: Path) -> None:
    """Write the stacks of all threads to `path` whenever this process gets SIGUSR1."""
    faulthandler.register(SIGNAL, file=path.open("wb"), all_threads=True)


def request_stacks(pid: int, path: Path) -> None:
    """Let a child write its stacks to `path`; a stopped one continues for that.

    Does nothing if the process has not registered yet, because the signal would end it.
    """
    if path.exists():
        with suppress(ProcessLookupError):
            os.kill(pid, SIGNAL)
            os.kill(pid, signal.SIGCONT)


def read_stacks(path: Path) -> str:
    """Return the end of the stacks in `path`; empty while there are none."""
    with suppress(OSError), path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - MAX_STACK_BYTES))
        return file.read().decode(errors="replace").strip()
    return ""
