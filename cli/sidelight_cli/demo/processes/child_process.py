"""Child processes that never outlive the demo.

Each child leads its own process group, so that Ctrl-C in a terminal reaches only the demo. The demo then ends
its children in order: SIGTERM, a bounded wait, and SIGKILL for the rest of the group. If the demo itself is
killed, the kernel sends its children SIGTERM (`PR_SET_PDEATHSIG`, prctl(2)).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sidelight_model.errors import Reason, SidelightError

PR_SET_PDEATHSIG = 1
PR_SET_PTRACER = 0x59616D61
PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)
MAX_LOG_LINES = 12
_LIBC = ctypes.CDLL(None, use_errno=True)


class ChildFailed(SidelightError):
    """A child process ended, or did not start to work in time.

    The message ends with the last lines of its log.
    """

    reason = Reason.INTERNAL

    def __init__(self, name: str, event: str, log: Path, hint: str) -> None:
        lines = read_last_lines(log)
        excerpt = "\n".join(f"    {line}" for line in lines) if lines else "    (it wrote nothing)"
        super().__init__(f"the {name} {event}; its last output:\n{excerpt}", hint=hint)


@dataclass(frozen=True, slots=True)
class ChildCommand:
    """How to start a child: name in messages, arguments, and the hint for its failure.

    With `allows_ptrace`, any process of the same user can read the child, which sidecars need. With
    `has_pipes`, its standard input and output are pipes to the demo. Otherwise its output goes to the log and
    it has no input.
    """

    name: str
    arguments: tuple[str, ...]
    hint: str
    allows_ptrace: bool = False
    has_pipes: bool = False


class ChildProcess:
    """A running child process; `log` is the file with its standard error."""

    def __init__(self, command: ChildCommand, process: Process, log: Path) -> None:
        self.command = command
        self.process = process
        self.log = log

    @classmethod
    async def start(cls, command: ChildCommand, directory: Path) -> ChildProcess:
        """Start a command with its log in `directory`."""
        log = directory / f"{command.name.replace(' ', '-')}.log"
        parent = os.getpid()
        with log.open("ab") as file:
            process = await asyncio.create_subprocess_exec(
                *command.arguments,
                stdin=PIPE if command.has_pipes else DEVNULL,
                stdout=PIPE if command.has_pipes else file,
                stderr=file,
                env=build_clean_environment(os.environ),
                process_group=0,
                preexec_fn=lambda: _prepare_child(parent, allows_ptrace=command.allows_ptrace),
            )
        return cls(command, process, log)

    def make_failure(self, event: str) -> ChildFailed:
        """Build the error for an event of this child, with its last log lines."""
        return ChildFailed(self.command.name, event, self.log, self.command.hint)

    async def wait_for_failure(self) -> ChildFailed:
        """Wait until the process has ended; returns an error with its exit status."""
        return self.make_failure(describe_exit(await self.process.wait()))

    async def read_line(self, within_seconds: float) -> bytes:
        """Read the next line of the child's standard output.

        Raises ChildFailed if the child ends or writes nothing for `within_seconds`.
        """
        assert self.process.stdout is not None  # noqa: S101 - the command has `has_pipes`
        try:
            async with asyncio.timeout(within_seconds):
                if line := await self.process.stdout.readline():
                    return line
                raise await self.wait_for_failure()
        except TimeoutError:
            raise self.make_failure(f"wrote nothing for {within_seconds:g} s") from None

    def write_line(self, line: str) -> None:
        """Write a short line to the child's standard input; no effect if it has ended."""
        assert self.process.stdin is not None  # noqa: S101 - the command has `has_pipes`
        self.process.stdin.write(f"{line}\n".encode())

    async def wait_for_port(self, file: Path, within_seconds: float) -> int:
        """Wait until the child has written its port to `file`; returns the port.

        Raises ChildFailed if the child ends or needs longer than `within_seconds`.
        """
        try:
            async with asyncio.timeout(within_seconds):
                while (port := _read_port(file)) is None:
                    if self.process.returncode is not None:
                        raise await self.wait_for_failure()
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise self.make_failure(f"did not open its port within {within_seconds:g} s") from None
        return port

    async def stop(self, within_seconds: float) -> int:
        """End the process and its group; returns its exit status.

        A negative status is the number of the signal that ended the process. The group is killed after
        `within_seconds`.
        """
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            async with asyncio.timeout(within_seconds):
                return await self.process.wait()
        except TimeoutError:
            return -signal.SIGKILL
        finally:
            self.kill()
            await self.process.wait()

    def kill(self) -> None:
        """Send SIGKILL to the remaining processes of the group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)


async def stop_children(children: Iterable[ChildProcess], within_seconds: float) -> dict[str, int]:
    """End children at the same time; returns their exit statuses by name."""
    async with asyncio.TaskGroup() as group:
        stops = {
            child.command.name: group.create_task(
                child.stop(within_seconds), name=f"stop {child.command.name}"
            )
            for child in children
        }
    return {name: stop.result() for name, stop in stops.items()}


def _prepare_child(parent: int, *, allows_ptrace: bool) -> None:
    """Prepare a child between fork and exec.

    The kernel will send it SIGTERM when the parent ends. With `allows_ptrace`, sidecars may read it.

    Yama can restrict ptrace to a process's ancestors (kernel.yama.ptrace_scope=1). PR_SET_PTRACER lifts this
    for the child and persists across exec. Without Yama the call fails and is not needed.
    """
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if allows_ptrace:
        _LIBC.prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def _read_port(file: Path) -> int | None:
    """Read a port from a file; None while the file is missing or incomplete."""
    try:
        text = file.read_text()
    except FileNotFoundError:
        return None
    return int(text) if text.strip().isdigit() else None


def build_clean_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Build the children's environment, without `SIDELIGHT_*` variables.

    The demo's own settings have other meanings in its children.
    """
    inherited = {name: value for name, value in environ.items() if not name.startswith("SIDELIGHT_")}
    return {**inherited, "PYTHONUNBUFFERED": "1"}


def build_python_command(*arguments: str) -> tuple[str, ...]:
    """Build a command line for the current Python interpreter."""
    return (sys.executable, *arguments)


def describe_exit(status: int) -> str:
    """Describe an exit status in words."""
    if status >= 0:
        return f"ended with exit status {status}"
    return f"was ended by {signal.Signals(-status).name}"


def read_last_lines(log: Path, count: int = MAX_LOG_LINES) -> Sequence[str]:
    """Return the last `count` lines of a log that are not blank; empty without a log."""
    try:
        text = log.read_bytes()[-65536:].decode(errors="replace")
    except FileNotFoundError:
        return []
    return [line for line in text.splitlines() if line.strip()][-count:]
