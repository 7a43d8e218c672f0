"""A program that is started to be recorded.

It is not our own child: a tracer that is also the parent would find the stops of its target in its
`wait`, and might reap it in the middle of a sample. A small Python process stands in between, waits for
the program and ends as it ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
from collections.abc import Sequence

from sidelight_model.errors import Reason, SidelightError

_NOT_FOUND_ERRNOS = (errno.ENOENT, errno.ENOTDIR)
_INTERMEDIATE_SCRIPT = """
import os, signal, sys
say, argv = int(sys.argv[1]), sys.argv[2:]
os.set_inheritable(say, False)
pid = os.fork()
if pid == 0:
    for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
        if number != signal.SIGINT or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        os.write(say, b"errno %d\\n" % error.errno)
    os._exit(127)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
    signal.signal(number, lambda *_: None)
os.write(say, b"pid %d\\n" % pid)
os.close(say)
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
os._exit(code if code >= 0 else 128 - code)
"""


class ProgramNotStarted(SidelightError):
    """The program to be recorded cannot be started."""

    reason = Reason.BAD_REQUEST


class LaunchedProgram:
    """A running program; `pid` is its own."""

    def __init__(self, intermediate: subprocess.Popen[bytes], pid: int) -> None:
        self._intermediate = intermediate
        self.pid = pid

    @classmethod
    def start(cls, argv: Sequence[str], *, discard_output: bool = False) -> LaunchedProgram:
        """Start it with our standard files, or with none at all. Raises NotStarted."""
        reading, writing = os.pipe()
        standard_file = subprocess.DEVNULL if discard_output else None
        try:
            intermediate = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _INTERMEDIATE_SCRIPT, str(writing), *argv],
                pass_fds=[writing],
                stdin=standard_file,
                stdout=standard_file,
                stderr=standard_file,
            )
        finally:
            os.close(writing)
        with os.fdopen(reading, encoding="ascii") as said:
            words = dict(line.split() for line in said)  # up to the moment the program itself runs
        if "errno" in words or "pid" not in words:
            intermediate.wait()
            number = int(words.get("errno", errno.EIO))
            missing = number in _NOT_FOUND_ERRNOS
            raise ProgramNotStarted(
                f"cannot start {argv[0]}: {os.strerror(number)}",
                hint="Is it spelled as it is found on PATH?" if missing else "Check that it may be executed.",
            )
        return cls(intermediate, int(words["pid"]))

    def poll_exit_code(self) -> int | None:
        """Its exit code once it has ended (128 and the signal's number if a signal ended it), else None."""
        return self._intermediate.poll()

    def send_signal(self, number: signal.Signals) -> None:
        """Send it a signal; nothing if it has ended."""
        if self.poll_exit_code() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self, seconds: float) -> None:
        """End it, by force where it does not end in time."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.send_signal(number)
            try:
                self._intermediate.wait(seconds)
                return
            except subprocess.TimeoutExpired:
                continue
