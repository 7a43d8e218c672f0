"""Samples of a stack by the state of its thread."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class ProfileType(StrEnum):
    """The kind of time in a profile.

    wall: all time; cpu: time on a CPU, or ready to run on one; gil: time holding the GIL.
    """

    WALL = "wall"
    CPU = "cpu"
    GIL = "gil"


class Counts(NamedTuple):
    """Samples of one stack, partitioned by state; also used for nanoseconds.

    idle: the thread waited; running: it was on a CPU without a sign that it held the GIL; gil: it held the
    GIL.
    """

    idle: int = 0
    running: int = 0
    gil: int = 0

    @property
    def wall(self) -> int:
        return self.idle + self.running + self.gil

    @property
    def cpu(self) -> int:
        return self.running + self.gil

    def for_type(self, kind: ProfileType) -> int:
        """Return the count that belongs to a profile of type `kind`."""
        if kind is ProfileType.WALL:
            return self.wall
        return self.cpu if kind is ProfileType.CPU else self.gil

    def plus(self, other: Counts) -> Counts:
        return Counts(self.idle + other.idle, self.running + other.running, self.gil + other.gil)

    def times(self, factor: int) -> Counts:
        return Counts(self.idle * factor, self.running * factor, self.gil * factor)


ZERO = Counts()
