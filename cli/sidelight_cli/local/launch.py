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

_NOT_FOUND = (errno.ENOENT, errno.ENOTDIR)
_BETWEEN = """
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


class NotStarted(SidelightError):
    """The program to be recorded cannot be started."""

    reason = Reason.BAD_REQUEST


class Program:
    """A running program; `pid` is its own."""

    def __init__(self, between: subprocess.Popen[bytes], pid: int) -> None:
        self._between = between
        self.pid = pid

    @classmethod
    def start(cls, argv: Sequence[str], *, quiet: bool = False) -> Program:
        """Start it with our standard files, or with none at all. Raises NotStarted."""
        reading, writing = os.pipe()
        nowhere = subprocess.DEVNULL if quiet else None
        try:
            between = subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", _BETWEEN, str(writing), *argv],
                pass_fds=[writing],
                stdin=nowhere,
                stdout=nowhere,
                stderr=nowhere,
            )
        finally:
            os.close(writing)
        with os.fdopen(reading, encoding="ascii") as said:
            words = dict(line.split() for line in said)  # up to the moment the program itself runs
        if "errno" in words or "pid" not in words:
            between.wait()
            number = int(words.get("errno", errno.EIO))
            missing = number in _NOT_FOUND
            raise NotStarted(
                f"cannot start {argv[0]}: {os.strerror(number)}",
                hint="Is it spelled as it is found on PATH?" if missing else "Check that it may be executed.",
            )
        return cls(between, int(words["pid"]))

    def code(self) -> int | None:
        """Its exit code once it has ended (128 and the signal's number if a signal ended it), else None."""
        return self._between.poll()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal; nothing if it has ended."""
        if self.code() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def end(self, seconds: float) -> None:
        """End it, by force where it does not end in time."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.send(number)
            try:
                self._between.wait(seconds)
                return
            except subprocess.TimeoutExpired:
                continue
