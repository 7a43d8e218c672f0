"""Sessions on one process and, when asked, on every Python process that descends from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sidelight_cli.local.sampling import record_errors
from sidelight_cli.local.sampling.process_tree import descendants
from sidelight_cli.local.sampling.sampling_engine import Batch, Engine, Session, Timeline
from sidelight_sidecar.discovery.processes import Key, Proc
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.samplers.permissions import own_rights
from sidelight_sidecar.samplers.sampler import SamplingError

_LOOK_SECONDS = 0.2
_LOOK_SHARE = 20
"""A look at /proc rests this many times as long as it took, so that it costs 5 % of a core at most."""
_PAUSE_FIRST, _PAUSE_MOST = 0.02, 2.0
_EXEC_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Plan:
    """How to sample; `timed` is how many of the last samples a session keeps with their times."""

    rate_hz: float
    mode: str = "auto"
    max_depth: int = 1024
    thread_names: bool = False
    timed: int = 0
    follow: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """What one process gave since it was last asked; `session` numbers the sessions from 0."""

    proc: Proc
    batch: Batch
    timeline: Timeline | None = None
    session: int = 0


@dataclass(slots=True)
class _Refused:
    error: SamplingError
    pause: float
    not_before: float


class Watch:
    """What is sampled now. One thread calls it; the engine's own samples."""

    def __init__(
        self,
        engine: Engine,
        procfs: ProcFs,
        plan: Plan,
        pid: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._procfs = procfs
        self._plan = plan
        self._pid = pid
        self._clock = clock
        self._root: Proc | None = None
        self._open: dict[Key, tuple[Proc, Session, int]] = {}
        self._begun = 0
        self._refused: dict[Key, _Refused] = {}
        self._ended: set[Key] = set()
        self._replaced: dict[Key, float] = {}
        self._next_look = 0.0
        self.last: Session | None = None
        self.reasons: list[str] = []
        """How sessions ended that did not end with their process."""

    @property
    def sampling(self) -> int:
        """How many processes are sampled now."""
        return len(self._open)

    @property
    def root(self) -> Proc | None:
        """The process that was named, as it was last seen."""
        return self._root

    @property
    def refusal(self) -> SamplingError:
        """Why nothing is sampled."""
        if self._root is None:
            return record_errors.gone(self._pid)
        return next(iter(self.refused), None) or record_errors.no_python(self._pid)

    @property
    def refused(self) -> list[SamplingError]:
        """Why processes are not sampled that should be, the named one first."""
        return [refused.error for refused in self._refused.values()]

    @property
    def over(self) -> bool:
        """Whether nothing is sampled any more and nothing will be."""
        if self._open:
            return False
        now = self._clock()
        if any(until > now for until in self._replaced.values()):
            return False
        return not (self._plan.follow and self._alive())

    def look(self) -> list[Proc]:
        """Attach to what should be sampled and is not; those that were refused are tried again at times.

        Returns the processes that were attached to.
        """
        now = self._clock()
        if now < self._next_look:
            return []
        self._next_look = now
        if self._root is None or self._alive():
            self._root = self._see() or self._root
        if self._root is None:
            return []
        wanted = [self._root]
        if self._plan.follow:
            below = descendants(self._procfs.processes(), {self._root.pid, *(key.pid for key in self._open)})
            # The named one may be a shell or a supervisor: that of itself is no failure.
            wanted = [proc for proc in (self._root, *below) if proc.python is not None]
            took = self._clock() - now
            # Until something is found every moment that passes is missing from the recording.
            self._next_look = now + (max(_LOOK_SECONDS, _LOOK_SHARE * took) if self._open else 2 * took)
        missing = [proc for proc in wanted if proc.alive and proc.key not in {*self._open, *self._ended}]
        return [proc for proc in missing if self._attach(proc, now)]

    def take(self) -> Iterator[Taken]:
        """What every process gave since the last time; those that have ended give what was left."""
        for key, (proc, session, number) in list(self._open.items()):
            ended = session.ended
            yield Taken(proc, session.take(), self._timeline(session), number)
            if ended is not None:
                session.stop()
                del self._open[key]
                self._over(key, ended)

    def close(self) -> Iterator[Taken]:
        """End every session; gives what was left."""
        for proc, session, number in self._open.values():
            left = session.stop()
            yield Taken(proc, left, self._timeline(session), number)
        self._open.clear()

    def pause(self) -> None:
        """Stop sampling for now: when this returns no target stands still for us."""
        for _, session, _ in self._open.values():
            session.set_rate(0)

    def resume(self) -> None:
        """Go on after a pause; what was not watched meanwhile is not counted as watched."""
        for _, session, _ in self._open.values():
            session.take()
            session.set_rate(self._plan.rate_hz)

    def _timeline(self, session: Session) -> Timeline | None:
        return session.timeline() if self._plan.timed else None

    def _over(self, key: Key, ended: str) -> None:
        self._refused.pop(key, None)
        if ended == "exec":
            # The same process with another program: it may be Python again in a moment.
            self._replaced[key] = self._clock() + _EXEC_SECONDS
            self._next_look = 0.0
            return
        self._ended.add(key)
        if ended != "exited":
            self.reasons.append(f"process {key.pid}: {ended}")

    def _attach(self, proc: Proc, now: float) -> bool:
        before = self._refused.get(proc.key)
        if before and now < before.not_before:
            return False
        try:
            session = self._session(proc)
        except SamplingError as error:
            pause = min(before.pause * 1.5, _PAUSE_MOST) if before else _PAUSE_FIRST
            self._refused[proc.key] = _Refused(error, pause, now + pause)
            return False
        self._refused.pop(proc.key, None)
        self._replaced.pop(proc.key, None)
        self._open[proc.key] = (proc, session, self._begun)
        self._begun += 1
        self.last = session
        return True

    def _session(self, proc: Proc) -> Session:
        plan = self._plan
        if proc.state in "Tt" and not any(tracer for _, tracer in self._procfs.thread_states(proc.pid)):
            raise record_errors.stopped(proc.pid)
        try:
            return self._engine.attach(
                proc.pid,
                rate_hz=plan.rate_hz,
                mode=plan.mode,
                max_depth=plan.max_depth,
                thread_names=plan.thread_names,
                timed=plan.timed,
            )
        except ProcessLookupError as error:
            raise record_errors.gone(proc.pid) from error
        except PermissionError as error:
            tracers = {tracer for _, tracer in self._procfs.thread_states(proc.pid) if tracer}
            raise record_errors.denied(
                proc.pid,
                own_rights(),
                target_uid=self._procfs.uid(proc.pid),
                tracer=min(tracers, default=0),
            ) from error
        except ValueError as error:
            below = descendants(self._procfs.processes(), {proc.pid})
            pythons = [one.pid for one in below if one.python is not None]
            raise record_errors.unreadable(str(error), pythons) from error
        except (OSError, RuntimeError) as error:
            raise record_errors.failed(proc.pid, str(error)) from error

    def _see(self) -> Proc | None:
        proc = self._procfs.process(self._pid)
        return proc if proc is not None and proc.alive else None

    def _alive(self) -> bool:
        """Whether the named process is there, and still the one that was named."""
        seen = self._see()
        return seen is not None and (self._root is None or seen.key == self._root.key)
