"""A session with the guard around it: what begins here ends with a target that runs."""

from __future__ import annotations

from sidelight_model.errors import Reason
from sidelight_sidecar.discovery.processes import Proc
from sidelight_sidecar.samplers.guard import Found, Guard, Release
from sidelight_sidecar.samplers.sampler import Sampled, Sampler, SamplingError, Session

_SIGNS_OF_DEATH = ("watchdog", "no_output", "panic")


class Attachment:
    """One session on one process. Every call may block."""

    def __init__(self, session: Session, guard: Guard, found: Found) -> None:
        self._session = session
        self._guard = guard
        self._found = found

    @classmethod
    def open(
        cls, sampler: Sampler, guard: Guard, proc: Proc, *, rate_hz: float, window_seconds: float
    ) -> Attachment:
        """Attach; raises SamplingError, also for a target that somebody has stopped."""
        found = guard.before(proc.key)
        if found.stopped:
            raise SamplingError(
                f"process {proc.pid} is stopped",
                hint=f"It is sampled once it runs again: kill -CONT {proc.pid}.",
            )
        try:
            session = sampler.attach(proc, rate_hz=rate_hz, window_seconds=window_seconds)
        except SamplingError:
            guard.after(found, died=True)
            raise
        if not guard.there(proc.key):
            # Between being found and being attached to, its pid may have become another process's.
            session.stop()
            raise SamplingError(f"process {proc.pid} is gone", reason=Reason.PID_GONE)
        return cls(session, guard, found)

    @property
    def ended(self) -> str | None:
        return self._session.ended

    @property
    def mode(self) -> str:
        return self._session.mode

    @property
    def reader(self) -> str:
        return self._session.reader

    def set_rate(self, rate_hz: float) -> None:
        """Sample at another rate."""
        self._session.set_rate(rate_hz)

    def take(self) -> tuple[Sampled, Release]:
        """What was sampled since the last take; sampling goes on."""
        sampled = self._session.take()
        if not _died(sampled):
            return sampled, Release.NOTHING
        return sampled, self._guard.after(self._found, died=True)

    def close(self) -> tuple[Sampled, Release]:
        """What was left, with the target seen to run."""
        ended = self._session.ended or ""
        sampled = self._session.stop()
        died = _died(sampled) or ended.startswith("failed")
        return sampled, self._guard.after(self._found, died=died)


def _died(sampled: Sampled) -> bool:
    return any(kind in sampled.quality.errors for kind in _SIGNS_OF_DEATH)
