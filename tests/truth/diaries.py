"""What a program says it did between two moments (`programs/telling.py` writes it)."""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

FIELDS = 5
# A row that took longer was interrupted.
LONGEST_ROW_NS = 100_000


@dataclass(frozen=True, slots=True)
class Spent:
    """Nanoseconds of a thread's time: in all, of these on a CPU, and in the queue for one."""

    wall: float = 0.0
    cpu: float = 0.0
    queued: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.wall + other.wall, self.cpu + other.cpu, self.queued + other.queued)


class Diary:
    """One thread's phases. What it took to tell of them belongs to none."""

    def __init__(self, thread: str, phases: list[str], rows: list[int]) -> None:
        self.thread = thread
        self.phases = phases
        self.begun = rows[0::FIELDS]
        self.done = rows[1::FIELDS]
        self.cpu = rows[2::FIELDS]
        self.queued = rows[3::FIELDS]
        self.phase = rows[4::FIELDS]

    def spent(self, start_ns: int, end_ns: int) -> dict[str, Spent]:
        """What each phase took of [start_ns, end_ns). Of a phase that a border cuts, the share inside."""
        assert self.done[0] <= start_ns, f"the diary of {self.thread} begins too late"
        assert end_ns <= self.begun[-1], f"the diary of {self.thread} ends too early"
        spent = dict.fromkeys(self.phases, Spent())
        row = bisect_right(self.done, start_ns) - 1
        while row + 1 < len(self.done) and self.done[row] < end_ns:
            begun, ended = self.done[row], self.begun[row + 1]
            wall = min(ended, end_ns) - max(begun, start_ns)
            if wall > 0:
                # The thread never sleeps while it tells, and what that took is in the next row's counts: on
                # a CPU, unless it was interrupted before the last try.
                telling = self.done[row + 1] - ended
                cpu = self.cpu[row + 1] - self.cpu[row]
                queued = self.queued[row + 1] - self.queued[row]
                off = max(telling - LONGEST_ROW_NS, 0)
                share = wall / (ended - begun)
                spent[self.phases[self.phase[row]]] += Spent(
                    wall, max(cpu - (telling - off), 0) * share, max(queued - off, 0) * share
                )
            row += 1
        return spent


class TaskDiary:
    """When asyncio tasks entered and left each phase, in ascending order."""

    def __init__(
        self, thread: str, entered: Mapping[str, Sequence[int]], left: Mapping[str, Sequence[int]]
    ) -> None:
        self.thread = thread
        self.entered = {phase: (moments, [0, *accumulate(moments)]) for phase, moments in entered.items()}
        self.left = {phase: (moments, [0, *accumulate(moments)]) for phase, moments in left.items()}
        self.end_ns = max(moments[-1] for moments in left.values())

    def spent(self, start_ns: int, end_ns: int) -> dict[str, Spent]:
        """What all tasks together took of [start_ns, end_ns) in each phase."""
        assert end_ns <= self.end_ns, "the diary of the tasks ends too early"
        return {
            phase: Spent(self._until(phase, end_ns) - self._until(phase, start_ns)) for phase in self.entered
        }

    def _until(self, phase: str, moment: int) -> int:
        return _since(*self.entered[phase], moment) - _since(*self.left[phase], moment)


def _since(moments: Sequence[int], sums: Sequence[int], until: int) -> int:
    """The sum of the times from each of the earlier moments until this one."""
    count = bisect_left(moments, until)
    return count * until - sums[count]


def read(path: Path) -> Mapping[str, Diary | TaskDiary]:
    """The diaries of a program, by thread."""
    told = [
        TaskDiary(**diary) if "entered" in diary else Diary(**diary) for diary in json.loads(path.read_text())
    ]
    return {diary.thread: diary for diary in told}
