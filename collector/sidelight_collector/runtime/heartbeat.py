"""Heartbeats of worker processes: sent by workers, judged by the supervisor.

A worker sends a beat from its event loop, so a loop that is blocked or a process that is stopped sends none.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection
from multiprocessing.connection import Connection
from typing import Final

READY: Final = b"ready"
BEAT: Final = b"beat"
MAX_INTERVAL_SECONDS: Final = 1.0
BEATS_PER_TIMEOUT: Final = 5
STARTUP_SECONDS: Final = 300.0
"""How long a worker may take until its first message: it imports modules and opens the store."""
MAX_CHECK_INTERVALS: Final = 2
"""How many intervals one check may add to the silence of a worker."""


def compute_interval(timeout_seconds: float) -> float:
    """Return the seconds between beats, and between checks, for this timeout."""
    return min(MAX_INTERVAL_SECONDS, timeout_seconds / BEATS_PER_TIMEOUT)


class Heartbeat:
    """The worker's end of the pipe to the supervisor.

    It never blocks: while the supervisor is stopped and the pipe is full, messages are dropped.
    """

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def send_ready(self) -> None:
        """Tell the supervisor that the worker serves."""
        self._pipe.send_bytes(READY)

    async def run(self, interval_seconds: float) -> None:
        """Send a beat at every interval until cancelled."""
        os.set_blocking(self._pipe.fileno(), False)
        while True:
            try:
                self._pipe.send_bytes(BEAT)
            except BlockingIOError:
                pass  # a message is shorter than PIPE_BUF, so the pipe takes all of it or nothing
            except BrokenPipeError:
                return  # the supervisor is gone, which the worker notices elsewhere
            await asyncio.sleep(interval_seconds)


class HeartbeatMonitor:
    """Decides which workers hang: those silent for `timeout_seconds`; 0: none ever.

    Only time in which the supervisor itself ran counts. A check that comes late, because the supervisor was
    stopped or had no CPU, adds at most two intervals to the silence of a worker.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self.timeout_seconds = timeout_seconds
        self.interval_seconds = compute_interval(timeout_seconds)
        self._checked_at: float | None = None
        self._silences: dict[str, float] = {}
        self._limits: dict[str, float] = {}

    def start(self, name: str) -> None:
        """Watch a worker that has been started."""
        self._silences[name] = 0.0
        self._limits[name] = max(self.timeout_seconds, STARTUP_SECONDS)

    def remove(self, name: str) -> None:
        """Stop watching a worker."""
        self._silences.pop(name, None)
        self._limits.pop(name, None)

    def record_message(self, name: str) -> None:
        """Record a message from a worker."""
        if name in self._silences:
            self._silences[name] = 0.0
            self._limits[name] = self.timeout_seconds

    def check(self, now: float) -> Collection[str]:
        """Return the workers that hang; `now` is in monotonic seconds of any origin.

        Messages that have arrived must be recorded before.
        """
        elapsed = 0.0 if self._checked_at is None else now - self._checked_at
        self._checked_at = now
        if not self.timeout_seconds:
            return ()
        observed = min(elapsed, MAX_CHECK_INTERVALS * self.interval_seconds)
        for name in self._silences:
            self._silences[name] += observed
        return [name for name, silence in self._silences.items() if silence > self._limits[name]]
