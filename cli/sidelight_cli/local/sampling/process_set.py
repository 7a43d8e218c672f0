"""Sample one process and, optionally, all Python processes that descend from it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sidelight_cli.local.sampling import record_errors
from sidelight_cli.local.sampling.process_tree import find_descendants
from sidelight_cli.local.sampling.sampling_engine import (
    EngineBatch,
    EngineSession,
    SamplingEngine,
)
from sidelight_sidecar.discovery.processes import Proc, ProcessKey
from sidelight_sidecar.discovery.procfs import ProcFs
from sidelight_sidecar.samplers.permissions import read_own_rights
from sidelight_sidecar.samplers.sampler import SamplingError
from sidelight_sidecar.samplers.timed_samples import TimelineBuffer

_SCAN_SECONDS = 0.2
_SCAN_REST_FACTOR = 20
"""Pause after a scan of /proc as a multiple of its duration: scans take at most 5 % of a core."""
_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.02, 2.0
_EXEC_GRACE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RecordPlan:
    """How to sample.

    `timeline_samples` is the number of recent samples that a session keeps in time order. `tasks_hz` is how
    often asyncio tasks are read; 0 for never.
    """

    rate_hz: float
    mode: str = "auto"
    max_depth: int = 1024
    thread_names: bool = False
    timeline_samples: int = 0
    include_children: bool = False
    tasks_hz: float = 0.0


@dataclass(frozen=True, slots=True)
class ProcessBatch:
    """The samples of one process since the last batch.

    `session_number` counts the sessions of a process set from 0.
    """

    proc: Proc
    batch: EngineBatch
    timeline: TimelineBuffer | None = None
    session_number: int = 0


@dataclass(slots=True)
class _AttachFailure:
    error: SamplingError
    retry_seconds: float
    retry_at: float


class ProcessSet:
    """The processes that are sampled now.

    It must be used from one thread; the engine samples in a thread of its own.
    """

    def __init__(
        self,
        engine: SamplingEngine,
        procfs: ProcFs,
        plan: RecordPlan,
        pid: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._engine = engine
        self._procfs = procfs
        self._plan = plan
        self._pid = pid
        self._clock = clock
        self._root: Proc | None = None
        self._sessions: dict[ProcessKey, tuple[Proc, EngineSession, int]] = {}
        self._session_count = 0
        self._failures: dict[ProcessKey, _AttachFailure] = {}
        self._ended_keys: set[ProcessKey] = set()
        self._exec_deadlines: dict[ProcessKey, float] = {}
        self._next_scan_at = 0.0
        self._scan_error: SamplingError | None = None
        self.last_session: EngineSession | None = None
        self.end_reasons: list[str] = []
        """Why sessions ended before their process did."""

    @property
    def sampled_count(self) -> int:
        """Number of processes that are sampled now."""
        return len(self._sessions)

    @property
    def root(self) -> Proc | None:
        """The process with the requested pid, as last seen; None if it never existed."""
        return self._root

    @property
    def attach_error(self) -> SamplingError:
        """The reason why no process is sampled."""
        if self._scan_error is not None:
            return self._scan_error
        if self._root is None:
            return record_errors.make_not_found_error(self._pid)
        return next(iter(self.attach_errors), None) or record_errors.make_no_python_error(self._pid)

    @property
    def attach_errors(self) -> list[SamplingError]:
        """The reasons why processes could not be attached to, the root's first."""
        scan_errors = [] if self._scan_error is None else [self._scan_error]
        return scan_errors + [failure.error for failure in self._failures.values()]

    @property
    def has_ended(self) -> bool:
        """Whether no process is sampled and none will be."""
        if self._sessions:
            return False
        now = self._clock()
        if any(until > now for until in self._exec_deadlines.values()):
            return False
        return not (self._plan.include_children and self._is_root_alive())

    def attach_new(self) -> list[Proc]:
        """Attach to processes that should be sampled and are not yet.

        Failed attempts are repeated at growing intervals. Returns the newly attached processes.
        """
        try:
            attached = self._attach_new()
        except OSError as error:
            self._next_scan_at = self._clock() + _SCAN_SECONDS
            self._scan_error = record_errors.make_scan_error(self._pid, error)
            return []
        self._scan_error = None
        return attached

    def _attach_new(self) -> list[Proc]:
        now = self._clock()
        if now < self._next_scan_at:
            return []
        self._next_scan_at = now
        if self._root is None or self._is_root_alive():
            self._root = self._find_root() or self._root
        if self._root is None:
            return []
        targets = [self._root]
        if self._plan.include_children:
            below = find_descendants(
                self._procfs.list_processes(), {self._root.pid, *(key.pid for key in self._sessions)}
            )
            # The root may be a shell or a supervisor, which is no failure.
            targets = [proc for proc in (self._root, *below) if proc.python_version is not None]
            scan_seconds = self._clock() - now
            # Scan more often until the first session: the time before it is missing in the recording.
            self._next_scan_at = now + (
                max(_SCAN_SECONDS, _SCAN_REST_FACTOR * scan_seconds) if self._sessions else 2 * scan_seconds
            )
        missing = [
            proc for proc in targets if proc.is_alive and proc.key not in {*self._sessions, *self._ended_keys}
        ]
        return [proc for proc in missing if self._attach(proc, now)]

    def take(self) -> Iterator[ProcessBatch]:
        """Yield a batch for each process, including the last batch of ended processes."""
        for key, (proc, session, number) in list(self._sessions.items()):
            ended = session.ended
            yield ProcessBatch(proc, session.take(), self._timeline(session), number)
            if ended is not None:
                session.stop()
                del self._sessions[key]
                self._handle_end(key, ended)

    def close(self) -> Iterator[ProcessBatch]:
        """End every session and yield its last batch."""
        for proc, session, number in self._sessions.values():
            batch = session.stop()
            yield ProcessBatch(proc, batch, self._timeline(session), number)
        self._sessions.clear()

    def pause(self) -> None:
        """Pause sampling; when this returns, no target is stopped for a sample."""
        for _, session, _ in self._sessions.values():
            session.set_rate(0)

    def resume(self) -> None:
        """Resume sampling; the pause does not count as observed time."""
        for _, session, _ in self._sessions.values():
            session.take()
            session.set_rate(self._plan.rate_hz)

    def _timeline(self, session: EngineSession) -> TimelineBuffer | None:
        return session.timeline() if self._plan.timeline_samples else None

    def _handle_end(self, key: ProcessKey, ended: str) -> None:
        self._failures.pop(key, None)
        if ended == "exec":
            # The process runs another program, which may be Python again after its start-up.
            self._exec_deadlines[key] = self._clock() + _EXEC_GRACE_SECONDS
            self._next_scan_at = 0.0
            return
        self._ended_keys.add(key)
        if ended != "exited":
            self.end_reasons.append(f"process {key.pid}: {ended}")

    def _attach(self, proc: Proc, now: float) -> bool:
        previous = self._failures.get(proc.key)
        if previous and now < previous.retry_at:
            return False
        try:
            session = self._open_session(proc)
        except SamplingError as error:
            pause = (
                min(previous.retry_seconds * 1.5, _MAX_RETRY_SECONDS) if previous else _FIRST_RETRY_SECONDS
            )
            self._failures[proc.key] = _AttachFailure(error, pause, now + pause)
            return False
        self._failures.pop(proc.key, None)
        self._exec_deadlines.pop(proc.key, None)
        self._sessions[proc.key] = (proc, session, self._session_count)
        self._session_count += 1
        self.last_session = session
        return True

    def _open_session(self, proc: Proc) -> EngineSession:
        plan = self._plan
        if proc.state in "Tt" and not any(tracer for _, tracer in self._procfs.read_thread_states(proc.pid)):
            raise record_errors.make_stopped_error(proc.pid)
        try:
            return self._engine.attach(
                proc.pid,
                rate_hz=plan.rate_hz,
                mode=plan.mode,
                max_depth=plan.max_depth,
                thread_names=plan.thread_names,
                timed=plan.timeline_samples,
                tasks_hz=plan.tasks_hz,
            )
        except ProcessLookupError as error:
            raise record_errors.make_not_found_error(proc.pid) from error
        except PermissionError as error:
            tracers = {tracer for _, tracer in self._procfs.read_thread_states(proc.pid) if tracer}
            raise record_errors.make_denied_error(
                proc.pid,
                read_own_rights(),
                target_uid=self._procfs.read_uid(proc.pid),
                tracer=min(tracers, default=0),
            ) from error
        except ValueError as error:
            children = find_descendants(self._procfs.list_processes(), {proc.pid})
            python_children = [child.pid for child in children if child.python_version is not None]
            raise record_errors.make_unreadable_error(str(error), python_children) from error
        except (MemoryError, OSError, RuntimeError) as error:
            problem = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise record_errors.make_failed_error(proc.pid, problem) from error

    def _find_root(self) -> Proc | None:
        proc = self._procfs.read_process(self._pid)
        return proc if proc is not None and proc.is_alive else None

    def _is_root_alive(self) -> bool:
        """Whether the root process is alive and its pid has not been reused."""
        try:
            proc = self._find_root()
        except OSError:
            return True  # unknown: no file can be opened
        return proc is not None and (self._root is None or proc.key == self._root.key)
