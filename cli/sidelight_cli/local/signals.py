"""Wait for a timeout, signals and files in one call.

The signal handlers only record the signal.
"""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Iterable
from types import FrameType, TracebackType

END_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class SignalWaiter:
    """Collects signals as a context manager, instead of letting them interrupt.

    Signals that the process ignores stay ignored.
    """

    def __init__(self, *handled: signal.Signals) -> None:
        self._handled = handled
        self._previous_handlers: dict[signal.Signals, object] = {}
        self._arrived: list[signal.Signals] = []

    def __enter__(self) -> SignalWaiter:
        self._out, self._in = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._previous_wakeup_fd = signal.set_wakeup_fd(self._in, warn_on_full_buffer=False)
        for number in self._handled:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup, or a shell's background job
                self._previous_handlers[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous_handlers.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
        signal.set_wakeup_fd(self._previous_wakeup_fd)
        os.close(self._out)
        os.close(self._in)

    def wait(self, seconds: float, *files: int) -> tuple[list[signal.Signals], bool]:
        """Wait for signals or readable files, for at most `seconds`.

        Returns the signals that arrived, and whether one of `files` is readable.
        """
        until = time.monotonic() + max(0.0, seconds)
        while True:
            if self._arrived:
                return self._take_arrived(), False
            left = max(0.0, until - time.monotonic())
            readable, _, _ = select.select([self._out, *files], [], [], left)
            if self._out in readable:
                self._drain()
            ready = any(file in readable for file in files)
            if self._arrived or ready or (not readable and time.monotonic() >= until):
                return self._take_arrived(), ready

    def pending(self) -> list[signal.Signals]:
        """Return the signals that arrived since the last call, without waiting."""
        return self.wait(0)[0]

    def _record(self, number: int, frame: FrameType | None) -> None:
        self._arrived.append(signal.Signals(number))

    def _drain(self) -> None:
        try:
            while os.read(self._out, 512):
                pass
        except BlockingIOError:
            pass

    def _take_arrived(self) -> list[signal.Signals]:
        arrived, self._arrived = self._arrived, []
        return arrived


def find_end_signal(arrived: Iterable[signal.Signals]) -> signal.Signals | None:
    """Return the first signal that requests the process to end, or None."""
    return next((number for number in arrived if number in END_SIGNALS), None)


def stop_self() -> None:
    """Stop this process as Ctrl-Z would; returns when it continues (`fg`).

    Call it only while no target is stopped for a sample.
    """
    os.kill(os.getpid(), signal.SIGSTOP)
