"""A session with the guard around it: the target runs after the session's end."""

from __future__ import annotations

from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.samplers.guard import Guard, ResumeOutcome, TargetState
from sidelight_sidecar.samplers.sampler import SampleBatch, Sampler, SamplingError, Session

_CRASH_ERRORS = ("watchdog", "no_output", "panic")


class GuardedSession:
    """A session on one process; every call may block."""

    def __init__(self, session: Session, guard: Guard, target_state: TargetState) -> None:
        self._session = session
        self._guard = guard
        self._target_state = target_state

    @classmethod
    def attach(
        cls, sampler: Sampler, guard: Guard, proc: Proc, *, rate_hz: float, window_seconds: float
    ) -> GuardedSession:
        """Attach to a process.

        Raises SamplingError, also if the target is already stopped.
        """
        target_state = guard.record_state(proc.key)
        if target_state.is_stopped:
            raise SamplingError(
                f"process {proc.pid} is stopped",
                hint=f"It is sampled once it runs again: kill -CONT {proc.pid}.",
            )
        try:
            session = sampler.attach(proc, rate_hz=rate_hz, window_seconds=window_seconds)
        except SamplingError:
            guard.resume_if_stopped(target_state, has_crashed=True)
            raise
        if not guard.is_same_process(proc.key):
            # The pid may have been reused between the scan and the attach.
            session.stop()
            raise SamplingError(f"process {proc.pid} is gone", reason=Reason.PID_GONE)
        return cls(session, guard, target_state)

    @property
    def end_reason(self) -> str | None:
        return self._session.end_reason

    @property
    def mode(self) -> str:
        return self._session.mode

    @property
    def reader(self) -> str:
        return self._session.reader

    def set_rate(self, rate_hz: float) -> None:
        """Sample at another rate."""
        self._session.set_rate(rate_hz)

    def take(self) -> tuple[SampleBatch, ResumeOutcome]:
        """Return the samples since the last take, and continue.

        After a crash of the sampler the target is resumed if it was left stopped.
        """
        batch = self._session.take()
        if not _has_crashed(batch):
            return batch, ResumeOutcome.NOTHING
        return batch, self._guard.resume_if_stopped(self._target_state, has_crashed=True)

    def close(self) -> tuple[SampleBatch, ResumeOutcome]:
        """End the session, return the rest, and resume the target if it was left stopped."""
        end_reason = self._session.end_reason or ""
        batch = self._session.stop()
        has_crashed = _has_crashed(batch) or end_reason.startswith("failed")
        return batch, self._guard.resume_if_stopped(self._target_state, has_crashed=has_crashed)


def _has_crashed(batch: SampleBatch) -> bool:
    return any(kind in batch.quality.errors for kind in _CRASH_ERRORS)
