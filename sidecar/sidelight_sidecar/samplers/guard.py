"""Never leaves a target stopped.

Blocking sampling stops the target for each tick. A sampler that dies in the middle may leave it
in state T with nobody to resume it. After a session has ended the guard looks at the target's
threads and sends SIGCONT if any of them is stopped and nobody traces it.

One whom somebody stopped before the sidecar attached (`kill -STOP`, a shell's job control) is left
as it was found. Between attaching and the session's end the two cannot be told apart, and a
resumed target is the lesser harm. A pidfd is opened and the start time compared after, so that
the signal cannot reach another process that has got the same pid.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sidelight_sidecar.discovery.processes import Key
from sidelight_sidecar.discovery.procfs import ProcFs

_LOOKS_AFTER_SECONDS = (0.0, 0.05, 0.2)


class Release(StrEnum):
    """What the guard had to do."""

    NOTHING = "nothing"
    RESUMED = "resumed"
    DENIED = "denied"


@dataclass(frozen=True, slots=True)
class Found:
    """A target as it was before the sampler attached."""

    key: Key
    stopped: bool


def stuck(threads: Sequence[tuple[str, int]]) -> bool:
    """Whether a thread (state letter, tracer's pid) is stopped and nobody is there to resume it."""
    return any(state in ("T", "t") and tracer == 0 for state, tracer in threads)


class Guard:
    """Looks at a target before and after it is sampled. Calls may block for a quarter of a second."""

    def __init__(self, procfs: ProcFs, sleep: Callable[[float], None] = time.sleep) -> None:
        self._procfs = procfs
        self._sleep = sleep

    def there(self, key: Key) -> bool:
        """Whether the process is still that one."""
        stat = self._procfs.stat(key.pid)
        return stat is not None and stat.start_ticks == key.start_ticks

    def before(self, key: Key) -> Found:
        """Remember whether the target was stopped already."""
        return Found(key, stuck(self._procfs.thread_states(key.pid)))

    def after(self, found: Found, *, died: bool) -> Release:
        """Resume the target if it was left stopped; `died` when the sampler did not end in order."""
        if found.stopped:
            return Release.NOTHING
        seen = False
        for pause in _LOOKS_AFTER_SECONDS:
            self._sleep(pause)
            if not stuck(self._procfs.thread_states(found.key.pid)):
                if not died:
                    return Release.NOTHING
                seen = False
            elif seen:
                return self._resume(found.key)
            else:
                # A target on its way out of a stop looks the same for an instant.
                seen = True
        return self._resume(found.key) if seen else Release.NOTHING

    def _resume(self, key: Key) -> Release:
        try:
            descriptor = os.pidfd_open(key.pid)
        except OSError:
            return Release.NOTHING
        try:
            if not self.there(key):
                return Release.NOTHING
            signal.pidfd_send_signal(descriptor, signal.SIGCONT)
        except ProcessLookupError:
            return Release.NOTHING
        except PermissionError:
            return Release.DENIED
        finally:
            os.close(descriptor)
        return Release.RESUMED
