"""A process's session for the event loop: its blocking calls run in threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import structlog

from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.discovery.procfs import UNKNOWN_VERSION
from sidelight_sidecar.health import HealthBoard, HealthIssue
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.samplers.attach_limiter import AttachLimiter
from sidelight_sidecar.samplers.guard import Guard, ResumeOutcome
from sidelight_sidecar.samplers.sampler import SampleBatch, Sampler, SamplingError
from sidelight_sidecar.sampling.guarded_session import GuardedSession

T = TypeVar("T")

_CALL_TIMEOUT_SECONDS = 60.0
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.sampling.session_handle"
)


class SessionHandle:
    """The session on one process, or none."""

    def __init__(
        self,
        proc: Proc,
        guard: Guard,
        attach_limiter: AttachLimiter,
        metrics: SidecarMetrics,
        health: HealthBoard,
    ) -> None:
        self._proc = proc
        self._guard = guard
        self._attach_limiter = attach_limiter
        self._metrics = metrics
        self._health = health
        self._health_subject = f"guard of process {proc.pid}"
        self._session: GuardedSession | None = None

    @property
    def is_open(self) -> bool:
        return self._session is not None

    @property
    def end_reason(self) -> str | None:
        """Why the session ended by itself; None while it samples or there is none."""
        return None if self._session is None else self._session.end_reason

    @property
    def python_version(self) -> str:
        """The version of the process's Python; empty if unknown."""
        return "" if self._proc.python_version in (None, UNKNOWN_VERSION) else str(self._proc.python_version)

    @property
    def mode_and_reader(self) -> tuple[str, str]:
        """The mode and the reader of the session; empty while there is none."""
        return ("", "") if self._session is None else (self._session.mode, self._session.reader)

    async def attach(self, sampler: Sampler, rate_hz: float, window_seconds: float) -> None:
        """Wait for an attach slot and start a session; raises SamplingError."""
        async with self._attach_limiter.acquire():
            self._session = await _run_in_thread(
                lambda: GuardedSession.attach(
                    sampler, self._guard, self._proc, rate_hz=rate_hz, window_seconds=window_seconds
                )
            )
        self._metrics.sessions.inc()
        self.clear_stopped()

    async def set_rate(self, rate_hz: float) -> None:
        """Sample at another rate from now on."""
        session = self._require_session()
        await _run_in_thread(lambda: session.set_rate(rate_hz))

    async def take(self) -> SampleBatch:
        """Return the samples since the last take, and continue."""
        batch, outcome = await _run_in_thread(self._require_session().take)
        self._record_resume(outcome)
        return batch

    async def detach(self) -> SampleBatch:
        """End the session and return the rest."""
        session, self._session = self._require_session(), None
        try:
            batch, outcome = await _run_in_thread(session.close)
        finally:
            self._metrics.sessions.dec()
        self._record_resume(outcome)
        return batch

    def clear_stopped(self) -> None:
        """Clear the problem of a target left stopped: it runs again, or is gone."""
        self._health.clear(self._health_subject)

    def _require_session(self) -> GuardedSession:
        if self._session is None:
            raise SamplingError(f"process {self._proc.pid} is not being sampled")
        return self._session

    def _record_resume(self, outcome: ResumeOutcome) -> None:
        if outcome is ResumeOutcome.NOTHING:
            return
        pid = self._proc.pid
        self._metrics.targets_resumed.labels(outcome.value).inc()
        if outcome is ResumeOutcome.RESUMED:
            _log.warning("a target was left stopped by sampling and is resumed", pid=pid)
            return
        problem = HealthIssue(
            Reason.PTRACE_DENIED,
            f"process {pid} was left stopped and this sidecar may not resume it",
            f"Run kill -CONT {pid}, and add KILL to the sidecar's capabilities.",
        )
        self._health.report(self._health_subject, problem)
        _log.error("a target is left stopped", pid=pid, hint=problem.hint)


async def _run_in_thread(call: Callable[[], T]) -> T:
    try:
        async with asyncio.timeout(_CALL_TIMEOUT_SECONDS):
            return await asyncio.to_thread(call)
    except TimeoutError:
        raise SamplingError(
            f"the sampler did not answer within {_CALL_TIMEOUT_SECONDS:g} seconds", hint="It is tried again."
        ) from None
