"""The guard: never leaves a target stopped.

Blocking sampling stops the target for each tick. A sampler that dies in the middle may leave the target in
state T, and nobody resumes it. After a session has ended, the guard checks the target's threads and sends
SIGCONT if any of them is stopped and nobody traces it.

A target that was stopped before the sidecar attached (`kill -STOP`, a shell's job control) stays stopped.
Between attach and the session's end the two cases cannot be distinguished, and a resumed target is the
lesser harm. The guard opens a pidfd and then compares the start time, so that the signal cannot reach
another process that has got the same pid.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sidelight_sidecar.descriptors import is_out_of_descriptors, reraise_if_out_of_descriptors
from sidelight_sidecar.discovery.processes import ProcessKey
from sidelight_sidecar.discovery.procfs import ProcFs

_CHECK_DELAYS_SECONDS = (0.0, 0.05, 0.2)


class ResumeOutcome(StrEnum):
    """Result of the guard's check."""

    NOTHING = "nothing"
    RESUMED = "resumed"
    DENIED = "denied"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TargetState:
    """The state of a target before the sampler attached."""

    key: ProcessKey
    is_stopped: bool


def has_stopped_thread(threads: Sequence[tuple[str, int]]) -> bool:
    """Return whether a thread is stopped and no tracer is there to resume it.

    `threads` are state letters and tracers' pids.
    """
    return any(state in ("T", "t") and tracer == 0 for state, tracer in threads)


class Guard:
    """Checks a target before and after it is sampled.

    Calls may block for a quarter of a second.
    """

    def __init__(self, procfs: ProcFs, sleep: Callable[[float], None] = time.sleep) -> None:
        self._procfs = procfs
        self._sleep = sleep

    def is_same_process(self, key: ProcessKey) -> bool:
        """Return whether the pid still belongs to this process."""
        stat = self._procfs.read_stat(key.pid)
        return stat is not None and stat.start_ticks == key.start_ticks

    def record_state(self, key: ProcessKey) -> TargetState:
        """Record whether the target is stopped already."""
        return TargetState(key, has_stopped_thread(self._procfs.read_thread_states(key.pid)))

    def resume_if_stopped(self, target_state: TargetState, *, has_crashed: bool) -> ResumeOutcome:
        """Resume the target if sampling left it stopped.

        `has_crashed` is true if the sampler did not end in order. The outcome is
        UNKNOWN if no file can be opened.
        """
        try:
            return self._resume_if_stopped(target_state, has_crashed=has_crashed)
        except OSError as error:
            if not is_out_of_descriptors(error):
                raise
            return ResumeOutcome.UNKNOWN

    def _resume_if_stopped(self, target_state: TargetState, *, has_crashed: bool) -> ResumeOutcome:
        if target_state.is_stopped:
            return ResumeOutcome.NOTHING
        was_stopped = False
        for pause in _CHECK_DELAYS_SECONDS:
            self._sleep(pause)
            if not has_stopped_thread(self._procfs.read_thread_states(target_state.key.pid)):
                if not has_crashed:
                    return ResumeOutcome.NOTHING
                was_stopped = False
            elif was_stopped:
                return self._resume(target_state.key)
            else:
                # A target that is about to leave a stop looks the same for an instant.
                was_stopped = True
        return self._resume(target_state.key) if was_stopped else ResumeOutcome.NOTHING

    def _resume(self, key: ProcessKey) -> ResumeOutcome:
        try:
            descriptor = os.pidfd_open(key.pid)
        except OSError as error:
            reraise_if_out_of_descriptors(error)
            return ResumeOutcome.NOTHING
        try:
            if not self.is_same_process(key):
                return ResumeOutcome.NOTHING
            signal.pidfd_send_signal(descriptor, signal.SIGCONT)
        except ProcessLookupError:
            return ResumeOutcome.NOTHING
        except PermissionError:
            return ResumeOutcome.DENIED
        finally:
            os.close(descriptor)
        return ResumeOutcome.RESUMED
