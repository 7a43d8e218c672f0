"""A process's session for the event loop, with the guard around it.

Blocking calls run in threads. After the session's end, and after a crash of the sampler, the guard resumes a
target that was left stopped.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import structlog

from sidelight_model.errors import Reason
from sidelight_sidecar.descriptors import OUT_OF_DESCRIPTORS_HINT
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.discovery.procfs import UNKNOWN_VERSION
from sidelight_sidecar.health import HealthBoard, HealthIssue
from sidelight_sidecar.metrics import SidecarMetrics
from sidelight_sidecar.samplers.attach_limiter import AttachLimiter
from sidelight_sidecar.samplers.guard import Guard, ResumeOutcome, TargetState
from sidelight_sidecar.samplers.sampler import SampleBatch, Sampler, SamplingError, Session
from sidelight_sidecar.sampling.sampler_calls import SamplerCalls

_CRASH_ERRORS = ("watchdog", "no_output", "panic")
_MAX_CLOCK_DIFFERENCE_NS = 10_000_000
"""Most that the wall clocks of two sessions differ: each counts on from the time of its start."""
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger(
    "sidelight_sidecar.sampling.session_handle"
)


class SessionHandle:
    """The session on one process, or none.

    A process can be handed over to a second session without a gap, and back: the first is paused meanwhile.
    """

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
        self._calls = SamplerCalls(proc.pid)
        self._session: Session | None = None
        self._target_state: TargetState | None = None
        self._paused_session: Session | None = None
        self._paused_rate_hz = 0.0

    @property
    def is_handed_over(self) -> bool:
        """Whether another session is paused for the current one."""
        return self._paused_session is not None

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
        """Wait for an attach slot and start a session.

        Raises SamplingError, also if the target is already stopped.
        """
        async with self._attach_limiter.acquire():
            attached = await self._calls.run(
                lambda: self._attach(sampler, rate_hz, window_seconds), undo=lambda late: late[0].stop()
            )
        self._session, self._target_state = attached
        self._metrics.sessions.inc()
        self.clear_stopped()

    async def hand_over(
        self, sampler: Sampler, window_seconds: float, rate_hz: float, choose_rate: Callable[[], float]
    ) -> SampleBatch:
        """Attach a second session, go on with it, and return the rest of the current one.

        The current session samples while the second attaches; then it is paused, and `detach` resumes it at
        `rate_hz`. `choose_rate` returns the rate of the second session, and is called once it is attached.
        Raises SamplingError, and goes on with the current session then. Both samplers must be gapless.
        """
        session = self._require_session()
        async with self._attach_limiter.acquire():
            second, _ = await self._calls.run(
                lambda: self._attach(sampler, 0.0, window_seconds), undo=lambda late: late[0].stop()
            )
        self._session, self._paused_session, self._paused_rate_hz = second, session, rate_hz
        self._metrics.sessions.inc()
        second_rate_hz = choose_rate()
        return await self._run_guarded(
            lambda: (_switch_sessions(session, second, second_rate_hz, session.take), False)
        )

    async def set_rate(self, rate_hz: float) -> None:
        """Sample at another rate from now on."""
        session = self._require_session()
        await self._calls.run(lambda: session.set_rate(rate_hz))

    async def take(self) -> SampleBatch:
        """Return the samples since the last take, and continue."""
        session = self._require_session()
        return await self._run_guarded(lambda: (session.take(), False))

    async def detach(self) -> SampleBatch:
        """End the session, resume one that was paused for it, and return the rest."""
        session, resumed, rate_hz = self._require_session(), self._paused_session, self._paused_rate_hz
        self._session, self._paused_session = resumed, None
        self._calls.run_later(session.stop)  # while a call hangs, the one below is refused

        def stop() -> tuple[SampleBatch, bool]:
            end_reason = session.end_reason or ""
            rest = (
                session.stop()
                if resumed is None
                else _switch_sessions(session, resumed, rate_hz, session.stop)
            )
            return rest, end_reason.startswith("failed")

        try:
            return await self._run_guarded(stop, has_ended=True)
        finally:
            self._metrics.sessions.dec()

    def clear_stopped(self) -> None:
        """Clear the problem of a target left stopped: it runs again, or is gone."""
        self._health.clear(self._health_subject)

    def _require_session(self) -> Session:
        if self._session is None:
            raise SamplingError(f"process {self._proc.pid} is not being sampled")
        return self._session

    def _attach(self, sampler: Sampler, rate_hz: float, window_seconds: float) -> tuple[Session, TargetState]:
        proc = self._proc
        if proc.is_pypy:
            raise SamplingError(
                f"process {proc.pid} runs PyPy, which is not supported",
                reason=Reason.NOT_PYTHON,
                hint="Run the service on CPython.",
            )
        target_state = self._guard.record_state(proc.key)
        if target_state.is_stopped:
            raise SamplingError(
                f"process {proc.pid} is stopped",
                hint=f"It is sampled once it runs again: kill -CONT {proc.pid}.",
            )
        try:
            session = sampler.attach(proc, rate_hz=rate_hz, window_seconds=window_seconds)
        except SamplingError:
            self._guard.resume_if_stopped(target_state, has_crashed=True)
            raise
        if not self._guard.is_same_process(proc.key):
            # The pid may have been reused between the scan and the attach.
            session.stop()
            raise SamplingError(f"process {proc.pid} is gone", reason=Reason.PID_GONE)
        if problem := getattr(session, "names_problem", ""):
            _log.warning("thread names cannot be read", process=proc.pid, problem=problem)
        return session, target_state

    async def _run_guarded(
        self, call: Callable[[], tuple[SampleBatch, bool]], *, has_ended: bool = False
    ) -> SampleBatch:
        """Run a call, and resume a target left stopped.

        `call` returns a batch, and whether the session failed.
        """
        target_state = self._target_state

        def run() -> tuple[SampleBatch, ResumeOutcome]:
            batch, has_failed = call()
            has_crashed = has_failed or any(kind in batch.quality.errors for kind in _CRASH_ERRORS)
            if target_state is None or not (has_ended or has_crashed):
                return batch, ResumeOutcome.NOTHING
            return batch, self._guard.resume_if_stopped(target_state, has_crashed=has_crashed)

        batch, outcome = await self._calls.run(run)
        self._record_resume(outcome)
        return batch

    def _record_resume(self, outcome: ResumeOutcome) -> None:
        if outcome is ResumeOutcome.NOTHING:
            return
        pid = self._proc.pid
        self._metrics.targets_resumed.labels(outcome.value).inc()
        if outcome is ResumeOutcome.RESUMED:
            _log.warning("a target was left stopped by sampling and is resumed", pid=pid)
            return
        if outcome is ResumeOutcome.UNKNOWN:
            hint = f"If process {pid} is stopped (state T), run kill -CONT {pid}. {OUT_OF_DESCRIPTORS_HINT}"
            _log.error("a target may be left stopped: its state cannot be read", pid=pid, hint=hint)
            return
        problem = HealthIssue(
            Reason.PTRACE_DENIED,
            f"process {pid} was left stopped and this sidecar may not resume it",
            f"Run kill -CONT {pid}, and add KILL to the sidecar's capabilities.",
        )
        self._health.report(self._health_subject, problem)
        _log.error("a target is left stopped", pid=pid, hint=problem.hint)


def _switch_sessions(
    old: Session, new: Session, rate_hz: float, finish: Callable[[], SampleBatch]
) -> SampleBatch:
    """Go on with a paused session, and return what `finish` gives of the old one.

    The old one's rest ends exactly where the new one's next batch starts.
    """
    old.set_rate(0.0)
    idle = new.take()
    new.set_rate(rate_hz)
    rest = finish()
    # It sampled nothing since it was paused, some hundred microseconds ago.
    duration_ns = idle.start_ns + idle.duration_ns - rest.start_ns
    if not 0 <= duration_ns <= rest.duration_ns + _MAX_CLOCK_DIFFERENCE_NS:
        # The wall clock was set meanwhile.
        duration_ns = rest.duration_ns
    quality = rest.quality
    return replace(
        rest,
        duration_ns=duration_ns,
        attach_cpu_ns=rest.attach_cpu_ns + idle.attach_cpu_ns,
        quality=replace(quality, sampler_cpu_ns=quality.sampler_cpu_ns + idle.attach_cpu_ns),
    )
