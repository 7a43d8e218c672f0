"""Samples of a stack by the state of its thread, or of its asyncio task.

The fields of `Counts` are the only list of states. The window, the store, exports and answers derive theirs
from it, so a new state is a new field at its end.
"""

from __future__ import annotations

from enum import StrEnum
from operator import add
from typing import Final, NamedTuple


class ProfileType(StrEnum):
    """The kind of time in a profile.

    wall: all time; cpu: time on a CPU; gil: time on a CPU holding the GIL; gil_wait: time waiting for the
    GIL; off_cpu: time waiting for something other than a CPU or the GIL; tasks: time of asyncio tasks,
    running or waiting. All but tasks are time of threads.
    """

    WALL = "wall"
    CPU = "cpu"
    GIL = "gil"
    GIL_WAIT = "gil_wait"
    OFF_CPU = "off_cpu"
    TASKS = "tasks"

    @property
    def is_cpu_time(self) -> bool:
        """Whether its rate is in cores; other rates are in threads or tasks."""
        return self in (ProfileType.CPU, ProfileType.GIL)


class Counts(NamedTuple):
    """Samples of one stack by state; also used for nanoseconds.

    The states of threads partition the samples of threads, those of tasks the samples of tasks.

    idle: the thread waited for an unknown reason; running: it was on a CPU without a sign that it held the
    GIL; gil: it held the GIL; cpu_wait: it was runnable and had no CPU, whether it held the GIL or not;
    gil_wait: it slept until it gets the GIL; lock: until it gets another lock, also of processes or files;
    poll: until any of some descriptors is ready; io: until bytes of a socket, pipe or file are transferred;
    sleep: until a point in time.

    task_running: the task ran; task_ready: it waited until its event loop runs it; task_waiting: it awaited
    something.
    """

    idle: int = 0
    running: int = 0
    gil: int = 0
    cpu_wait: int = 0
    gil_wait: int = 0
    lock: int = 0
    poll: int = 0
    io: int = 0
    sleep: int = 0
    task_running: int = 0
    task_ready: int = 0
    task_waiting: int = 0

    @property
    def wall(self) -> int:
        return self.for_type(ProfileType.WALL)

    @property
    def cpu(self) -> int:
        return self.running + self.gil

    @property
    def off_cpu(self) -> int:
        return self.for_type(ProfileType.OFF_CPU)

    def for_type(self, kind: ProfileType) -> int:
        """Return the count that belongs to a profile of type `kind`."""
        return sum(getattr(self, state) for state in STATES_BY_TYPE[kind])

    def plus(self, other: Counts) -> Counts:
        return Counts(*map(add, self, other))

    def times(self, factor: int) -> Counts:
        return Counts(*(count * factor for count in self))


ZERO = Counts()

STATES: Final = Counts._fields
"""The states in the order of their numbers in recordings."""
THREAD_STATES: Final = STATES[:-3]
TASK_STATES: Final = STATES[-3:]
FURTHER_STATES: Final = THREAD_STATES[3:]
"""States of threads that windows of format 1 and older files do not have."""
ON_CPU_STATES: Final = ("running", "gil")
OFF_CPU_STATES: Final = ("idle", "lock", "poll", "io", "sleep")
"""States of threads that wait for something other than a CPU or the GIL."""
WAIT_REASONS: Final = OFF_CPU_STATES[1:]
"""States of waiting threads that count as idle where the reason of a wait is unknown."""
STATES_BY_TYPE: Final = {
    ProfileType.WALL: THREAD_STATES,
    ProfileType.CPU: ON_CPU_STATES,
    ProfileType.GIL: ("gil",),
    ProfileType.GIL_WAIT: ("gil_wait",),
    ProfileType.OFF_CPU: OFF_CPU_STATES,
    ProfileType.TASKS: TASK_STATES,
}
STATE_FRAMES: Final = tuple("" if state == "running" else f"[{state}]" for state in STATES)
"""The pseudo-frame of each state in folded text; running has none."""
