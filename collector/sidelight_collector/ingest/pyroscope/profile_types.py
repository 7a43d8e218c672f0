"""The values of a profile that are time, and the kind of the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sidelight_collector.ingest.pyroscope.profile_sums import SampleValues
from sidelight_model.counts import STATES, ProfileType
from sidelight_model.import_formats.pprof_profile import NS_PER_TIME_UNIT, PprofHeader, ValueType

MAX_PERIOD_NS: Final = 10**10


class NotStored(StrEnum):
    """The kind of a profile that Sidelight accepts and does not store."""

    MEMORY = "memory"
    MUTEX = "mutex"
    BLOCK = "block"
    LOCK = "lock"
    GOROUTINE = "goroutine"
    EXCEPTION = "exception"
    OTHER = "other"


_KIND_WORDS: Final = {
    "alloc": NotStored.MEMORY,
    "inuse": NotStored.MEMORY,
    "memory": NotStored.MEMORY,
    "heap": NotStored.MEMORY,
    "live": NotStored.MEMORY,
    "bytes": NotStored.MEMORY,
    "objects": NotStored.MEMORY,
    "space": NotStored.MEMORY,
    "mutex": NotStored.MUTEX,
    "block": NotStored.BLOCK,
    "lock": NotStored.LOCK,
    "goroutine": NotStored.GOROUTINE,
    "exception": NotStored.EXCEPTION,
}
TIME_TYPES: Final = {
    "cpu": ProfileType.CPU,
    "itimer": ProfileType.CPU,
    "wall": ProfileType.WALL,
    "off_cpu": ProfileType.OFF_CPU,
    "gil": ProfileType.GIL,
}
"""Value types in units of time that are the time of threads. The delay of a mutex is none."""
STATE_OF_TYPE: Final = {
    ProfileType.CPU: STATES.index("running"),
    ProfileType.WALL: STATES.index("idle"),
    ProfileType.GIL: STATES.index("gil"),
    ProfileType.OFF_CPU: STATES.index("idle"),
}
"""The state in which the time of a profile type counts. Wall time counts as waiting: it is no CPU time."""


@dataclass(frozen=True, slots=True)
class ProfileMeaning:
    """The values of a profile to store, if any, and the kinds of the others."""

    values: SampleValues | None
    not_stored: frozenset[NotStored]

    @property
    def states(self) -> frozenset[int]:
        """The states that the values fill."""
        if self.values is None:
            return frozenset()
        pairs = (*self.values.states, *((self.values.whole,) if self.values.whole else ()))
        return frozenset(state for _, state in pairs)


def choose_values(header: PprofHeader, metric: str, default_period_ns: int) -> ProfileMeaning:
    """Choose the values to store of a pprof profile.

    `metric` is the label `__name__` of its series. `default_period_ns` replaces a missing period.
    """
    types = header.value_types
    times = {
        TIME_TYPES[one.name]: at
        for at, one in enumerate(types)
        if one.name in TIME_TYPES and one.unit in NS_PER_TIME_UNIT
    }
    counts = [at for at, one in enumerate(types) if one.is_sample_count]
    period_ns = _read_period(header, default_period_ns)
    values = None
    if times:
        values = _join_times(types, times, counts[0] if counts else None, period_ns)
    elif counts and (kind := find_time_type(header.period_type.name, metric)):
        values = SampleValues(((counts[0], STATE_OF_TYPE[kind]),), None, None, period_ns, period_ns)
    used = {*times.values(), *(counts if values else ())}
    others = frozenset(
        classify_type(metric if values is None else "", one.name)
        for at, one in enumerate(types)
        if at not in used
    )
    return ProfileMeaning(values, others)


def find_time_type(*names: str) -> ProfileType | None:
    """Return the profile type of the first known name, such as `process_cpu`."""
    for name in names:
        if kind := TIME_TYPES.get(name.removeprefix("process_")):
            return kind
    return None


def classify_type(*names: str) -> NotStored:
    """Return the kind of values with these names, such as `alloc_space`."""
    for name in names:
        for word, kind in _KIND_WORDS.items():
            if word in name:
                return kind
    return NotStored.OTHER


def _join_times(
    types: Sequence[ValueType], times: Mapping[ProfileType, int], count: int | None, period_ns: int
) -> SampleValues:
    """Combine the times of a profile.

    CPU time is a part of wall time, and not of off-CPU time.
    """
    cpu, wall, off_cpu = (
        times.get(kind) for kind in (ProfileType.CPU, ProfileType.WALL, ProfileType.OFF_CPU)
    )
    whole = None
    if cpu is not None and wall is not None and types[cpu].unit == types[wall].unit:
        states = [(cpu, STATE_OF_TYPE[ProfileType.CPU])]
        whole = (wall, STATE_OF_TYPE[ProfileType.WALL])
    elif cpu is not None and off_cpu is not None and types[cpu].unit == types[off_cpu].unit:
        states = [(cpu, STATE_OF_TYPE[ProfileType.CPU]), (off_cpu, STATE_OF_TYPE[ProfileType.OFF_CPU])]
    else:
        kind = next(kind for kind in ProfileType if kind in times)
        states = [(times[kind], STATE_OF_TYPE[kind])]
    return SampleValues(tuple(states), whole, count, NS_PER_TIME_UNIT[types[states[0][0]].unit], period_ns)


def _read_period(header: PprofHeader, default_ns: int) -> int:
    """Return the period in nanoseconds; a period without a unit is in nanoseconds."""
    unit_ns = NS_PER_TIME_UNIT.get(header.period_type.unit, 0 if header.period_type.unit else 1)
    period_ns = header.period * unit_ns
    return min(period_ns, MAX_PERIOD_NS) if period_ns > 0 else default_ns
