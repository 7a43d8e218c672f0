"""At most one session on a process, held from the event loop: the blocking calls run in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import structlog

from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.discovery.procfs import UNKNOWN
from sidelight_sidecar.health import Board, Problem
from sidelight_sidecar.metrics import Metrics
from sidelight_sidecar.samplers.attach_limiter import Turns
from sidelight_sidecar.samplers.guard import Guard, Release
from sidelight_sidecar.samplers.sampler import Sampled, Sampler, SamplingError
from sidelight_sidecar.sampling.guarded_session import Attachment

T = TypeVar("T")

_CALL_SECONDS = 60.0
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.sampling.session_handle"
)


class Hold:
    """The session on one process, or none."""

    def __init__(self, proc: Proc, guard: Guard, turns: Turns, metrics: Metrics, board: Board) -> None:
        self._proc = proc
        self._guard = guard
        self._turns = turns
        self._metrics = metrics
        self._board = board
        self._subject = f"guard of process {proc.pid}"
        self._attachment: Attachment | None = None

    @property
    def held(self) -> bool:
        return self._attachment is not None

    @property
    def ended(self) -> str | None:
        """Why the session ended by itself; None while it samples or there is none."""
        return None if self._attachment is None else self._attachment.ended

    @property
    def python(self) -> str:
        """The version of the process's Python; empty where only a name says that it is one."""
        return "" if self._proc.python in (None, UNKNOWN) else str(self._proc.python)

    @property
    def how(self) -> tuple[str, str]:
        """The mode and the reader of the session; empty while there is none."""
        return ("", "") if self._attachment is None else (self._attachment.mode, self._attachment.reader)

    async def attach(self, sampler: Sampler, rate_hz: float, window_seconds: float) -> None:
        """Begin a session when it is this one's turn; raises SamplingError."""
        async with self._turns.turn():
            self._attachment = await _in_thread(
                lambda: Attachment.open(
                    sampler, self._guard, self._proc, rate_hz=rate_hz, window_seconds=window_seconds
                )
            )
        self._metrics.sessions.inc()
        self.forget()

    async def set_rate(self, rate_hz: float) -> None:
        """Sample at another rate from now on."""
        attachment = self._current()
        await _in_thread(lambda: attachment.set_rate(rate_hz))

    async def take(self) -> Sampled:
        """What was sampled since the last take; the session goes on."""
        sampled, release = await _in_thread(self._current().take)
        self._released(release)
        return sampled

    async def detach(self) -> Sampled:
        """End the session; what was left."""
        attachment, self._attachment = self._current(), None
        try:
            sampled, release = await _in_thread(attachment.close)
        finally:
            self._metrics.sessions.dec()
        self._released(release)
        return sampled

    def forget(self) -> None:
        """Take down what was said of a target left stopped: it runs again, or is gone."""
        self._board.clear(self._subject)

    def _current(self) -> Attachment:
        if self._attachment is None:
            raise SamplingError(f"process {self._proc.pid} is not being sampled")
        return self._attachment

    def _released(self, release: Release) -> None:
        if release is Release.NOTHING:
            return
        pid = self._proc.pid
        self._metrics.targets_resumed.labels(release.value).inc()
        if release is Release.RESUMED:
            _log.warning("a target was left stopped by sampling and is resumed", pid=pid)
            return
        problem = Problem(
            Reason.PTRACE_DENIED,
            f"process {pid} was left stopped and this sidecar may not resume it",
            f"Run kill -CONT {pid}, and add KILL to the sidecar's capabilities.",
        )
        self._board.report(self._subject, problem)
        _log.error("a target is left stopped", pid=pid, hint=problem.hint)


async def _in_thread(call: Callable[[], T]) -> T:
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            return await asyncio.to_thread(call)
    except TimeoutError:
        raise SamplingError(
            f"the sampler did not answer within {_CALL_SECONDS:g} seconds", hint="It is tried again."
        ) from None
