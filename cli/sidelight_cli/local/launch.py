"""Start a program to be recorded.

The program is not a direct child of this process. A tracer that is also the parent would receive the stops of
its target in `wait`, and might reap it in the middle of a sample. A small Python process in between waits for
the program and exits with its exit code.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Sequence

from sidelight_model.errors import Reason, SidelightError

_NOT_FOUND_ERRNOS = (errno.ENOENT, errno.ENOTDIR)
_OPEN_FILES, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
"""The soft limit before the sampler raised it: the program gets it."""
_INTERMEDIATE_SCRIPT = """
import os, resource, signal, sys
say, argv = int(sys.argv[1]), sys.argv[3:]
resource.setrlimit(resource.RLIMIT_NOFILE, (int(sys.argv[2]), resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
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
    """A running program; `pid` is the program's, not the intermediate process's."""

    def __init__(self, intermediate: subprocess.Popen[bytes], pid: int) -> None:
        self._intermediate = intermediate
        self.pid = pid

    @classmethod
    def start(cls, argv: Sequence[str], *, discard_output: bool = False) -> LaunchedProgram:
        """Start a program with this process's standard streams.

        With `discard_output`, all three are /dev/null. Raises ProgramNotStarted.
        """
        reading, writing = os.pipe()
        standard_file = subprocess.DEVNULL if discard_output else None
        try:
            intermediate = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    "-c",
                    _INTERMEDIATE_SCRIPT,
                    str(writing),
                    str(_OPEN_FILES),
                    *argv,
                ],
                pass_fds=[writing],
                stdin=standard_file,
                stdout=standard_file,
                stderr=standard_file,
            )
        finally:
            os.close(writing)
        with os.fdopen(reading, encoding="ascii") as status_lines:
            words = dict(line.split() for line in status_lines)  # the pipe is closed by the program's exec
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
        """Return the exit code, or None while the program runs.

        It is 128 plus the signal number if a signal ended the program.
        """
        return self._intermediate.poll()

    def send_signal(self, number: signal.Signals) -> None:
        """Send the program a signal, unless it has ended."""
        if self.poll_exit_code() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self, seconds: float) -> None:
        """End the program with SIGTERM, and with SIGKILL after `seconds`."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.send_signal(number)
            try:
                self._intermediate.wait(seconds)
                return
            except subprocess.TimeoutExpired:
                continue
