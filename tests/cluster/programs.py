"""Programs of a cluster: started in a folder, known there by pid and start time, ended by who holds it.

Whoever started them may die without a word, so the folder alone says what is to be ended, and `guarded` has a
process of its own that ends it when its starter is gone.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
ROOT = Path(__file__).resolve().parents[2]


def eventually(what: str, check: Callable[[], T | None], seconds: float = 60.0, pause: float = 0.05) -> T:
    """Wait until `check` returns something true; fails after `seconds` saying what was awaited."""
    deadline = time.monotonic() + seconds
    while True:
        if found := check():
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds:.0f} s")
        time.sleep(pause)


def started_at(pid: int) -> str | None:
    """When a process started, in ticks since boot; None when it has ended. A pid taken anew has another."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if state in "ZX" else fields[18]


class Programs:
    """The programs that run in a folder, `<name>.log` each; what is known of them is in the folder alone."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pids = folder / "pids"
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self.pids.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, *argv: str | Path, env: Mapping[str, str] | None = None) -> int:
        """Start a program in a session of its own: a Ctrl-C at the terminal leaves its end to us."""
        with self.log(name).open("ab") as log:
            child = subprocess.Popen(
                [str(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **(env or {})},
                start_new_session=True,
            )
        self._children[child.pid] = child
        known = {"pid": child.pid, "started": started_at(child.pid), "order": time.monotonic_ns()}
        (self.pids / name).write_text(json.dumps(known))
        return child.pid

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def names(self) -> list[str]:
        """Those that were started and not ended by us, the latest first."""
        found = [(json.loads(path.read_text())["order"], path.name) for path in self.pids.iterdir()]
        return [name for _, name in sorted(found, reverse=True)]

    def pid(self, name: str) -> int | None:
        """The pid of a program that runs."""
        try:
            known = json.loads((self.pids / name).read_text())
        except (FileNotFoundError, ValueError):
            return None
        if child := self._children.get(known["pid"]):
            child.poll()
        alive = known["started"] is not None and started_at(known["pid"]) == known["started"]
        return int(known["pid"]) if alive else None

    def must_run(self, name: str) -> None:
        assert self.pid(name), f"{name} has ended:\n" + "\n".join(self.said(name).splitlines()[-15:])

    def said(self, name: str) -> str:
        return self.log(name).read_text(errors="replace")

    def signal(self, name: str, number: int) -> None:
        if pid := self.pid(name):
            os.kill(pid, number)

    def end(self, name: str, seconds: float = 3.0) -> None:
        """SIGTERM, and SIGKILL when that does not end it in time, or at once when there is no time."""
        for number, patience in ((signal.SIGTERM, seconds), (signal.SIGKILL, 10.0)):
            if self.pid(name) is None:
                break
            if not patience:
                continue
            self.signal(name, number)
            deadline = time.monotonic() + patience
            while self.pid(name) is not None and time.monotonic() < deadline:
                time.sleep(0.02)
        (self.pids / name).unlink(missing_ok=True)

    def end_all(self) -> None:
        """SIGKILL for all of them, the latest first: nothing that they would put in order is kept."""
        for name in self.names():
            self.end(name, 0)


def remove(folder: Path) -> None:
    """End what runs in a folder, and delete it."""
    if folder.exists():
        Programs(folder).end_all()
        shutil.rmtree(folder)


@contextmanager
def guarded(folder: Path, ending: str = "tests.cluster.programs") -> Iterator[Path]:
    """A folder whose programs end with this process, however it ends: a guard waits for a pipe to close.

    `ending` is the module that is run with the folder to end it all.
    """
    folder.mkdir(parents=True)
    guard = subprocess.Popen(
        [sys.executable, "-m", ending, str(folder)], stdin=subprocess.PIPE, cwd=ROOT, start_new_session=True
    )
    assert guard.stdin
    try:
        yield folder
    finally:
        guard.stdin.close()
        guard.wait()


def main(argv: Sequence[str], end: Callable[[Path], None] = remove) -> None:
    """The guard: reads until the other end of the pipe is closed, then ends what is in the folder."""
    [folder] = argv
    sys.stdin.buffer.read()
    end(Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
