"""Read the samples of a pprof profile (profile.proto).

The fields are defined in https://github.com/google/pprof/blob/main/proto/profile.proto, the wire format in
https://protobuf.dev/programming-guides/encoding. A sample has a value for each sample type:

- The value of a type `samples` in the unit `count` is a number of samples.
- Without one, a type in units of time is divided by the period, which is the time of one sample.
- Others (bytes, objects) hold no samples and are refused.

The label `state` (idle, gil) is a thread's state, as sidelight writes it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from sidelight_cli.compare.inputs.sample_weights import (
    UnknownSampleWeight,
    WeightedStack,
    count_weighted_samples,
)
from sidelight_cli.compare.inputs.speedscope_input import ProfileTypeMismatch
from sidelight_model.counts import STATE_FRAMES, STATES, Counts, ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.folded import Stack, join_frames
from sidelight_model.frames import Frame, escape_frame

NS_PER_TIME_UNIT: Final = {
    **dict.fromkeys(("nanoseconds", "nanosecond", "ns"), 1.0),
    **dict.fromkeys(("microseconds", "microsecond", "us", "\u03bcs", "\u00b5s"), 1e3),
    **dict.fromkeys(("milliseconds", "millisecond", "ms"), 1e6),
    **dict.fromkeys(("seconds", "second", "s"), 1e9),
}
_STATES: Final = dict(zip(STATES, STATE_FRAMES, strict=True))
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES: Final = 10
_MAX_TYPE_LENGTH: Final = 8


class BadPprof(SidelightError):
    """A binary file is no pprof profile with samples."""

    reason = Reason.BAD_FOLDED

    def __init__(self, file_name: str, problem: str) -> None:
        super().__init__(
            f"{file_name} is binary, and no pprof profile of samples: {problem}",
            hint="Record a profile of CPU or wall time, or give folded text or speedscope's JSON.",
        )


@dataclass(frozen=True, slots=True)
class _ValueType:
    """A sample type: its name and unit."""

    name: str
    unit: str

    @property
    def is_sample_count(self) -> bool:
        return self.unit == "count" and self.name.endswith(("sample", "samples"))


@dataclass(slots=True)
class _Profile:
    """The encoded messages of a profile."""

    strings: list[str] = field(default_factory=list)
    sample_types: list[memoryview] = field(default_factory=list)
    samples: list[memoryview] = field(default_factory=list)
    locations: list[memoryview] = field(default_factory=list)
    functions: list[memoryview] = field(default_factory=list)
    period: int = 0
    period_type: memoryview = field(default_factory=lambda: memoryview(b""))


def is_pprof(content: bytes) -> bool:
    """Return whether content begins with a sample type, the first field of a profile.

    As text it would begin with an empty line and a control character.
    """
    return len(content) > 1 and content[0] == (1 << 3 | _BYTES) and content[1] <= _MAX_TYPE_LENGTH


def parse_pprof(
    file_name: str, content: bytes, kind: ProfileType, sample_weight: float | None
) -> Mapping[Stack, Counts]:
    """Parse the samples of an unpacked profile, as counts by stack.

    `sample_weight` replaces a missing period, in the unit of the values. Raises BadPprof,
    UnknownSampleWeight, or ProfileTypeMismatch if the profile holds another type than `kind`.
    """
    try:
        profile = _read_profile(memoryview(content))
        types = [_read_value_type(profile, message) for message in profile.sample_types]
        at, size = _choose_values(file_name, profile, types, kind, sample_weight)
        entries = list(_iter_stacks(profile, at))
        has_states = any(entry.state for entry in entries)
        declared = {value_type.name for value_type in types} & {member.value for member in ProfileType}
        if declared and kind.value not in declared and not (has_states and "wall" in declared):
            raise ProfileTypeMismatch(file_name, min(declared), kind.value)
        return count_weighted_samples(entries, size)
    except (IndexError, KeyError, TypeError, ValueError) as error:
        raise BadPprof(file_name, f"it is cut or damaged ({error})") from error


def _choose_values(
    file_name: str,
    profile: _Profile,
    types: Sequence[_ValueType],
    kind: ProfileType,
    sample_weight: float | None,
) -> tuple[int, float]:
    """Return the index of the values to read, and the value of one sample."""
    preferred = sorted(range(len(types)), key=lambda at: (not types[at].name.startswith(kind.value), at))
    for at in preferred:
        if types[at].is_sample_count:
            return at, 1.0
    for at in preferred:
        if types[at].unit not in NS_PER_TIME_UNIT:
            continue
        period_type = _read_value_type(profile, profile.period_type)
        if profile.period > 0 and period_type.unit in NS_PER_TIME_UNIT:
            scale = NS_PER_TIME_UNIT[period_type.unit] / NS_PER_TIME_UNIT[types[at].unit]
            return at, profile.period * scale
        if sample_weight:
            return at, sample_weight
        raise UnknownSampleWeight(file_name, f"they are {types[at].unit}, and the profile has no period")
    names = ", ".join(f"{value_type.name} in {value_type.unit}" for value_type in types)[:80]
    raise BadPprof(file_name, f"it holds {names or 'nothing'}")


def _iter_stacks(profile: _Profile, at: int) -> Iterator[WeightedStack]:
    """Yield the stacks with a value; location numbers begin with the innermost."""
    functions: dict[int, tuple[str, str]] = {}
    for message in profile.functions:
        values = dict(_iter_fields(message))
        functions[values.get(1, 0)] = (profile.strings[values.get(2, 0)], profile.strings[values.get(4, 0)])
    frames = dict(_read_location(message, functions) for message in profile.locations)
    for message in profile.samples:
        ids: list[int] = []
        values_of_types: list[int] = []
        state = ""
        for number, value in _iter_fields(message):
            if number == 1:
                ids += _read_integers(value)
            elif number == 2:
                values_of_types += _read_integers(value)
            elif number == 3:
                label = dict(_iter_fields(value))
                if profile.strings[label.get(1, 0)] == "state":
                    state = _STATES.get(profile.strings[label.get(2, 0)], "")
        weight = values_of_types[at]
        if weight > 0 and ids:
            stack = join_frames(frame for number in reversed(ids) for frame in frames[number])
            yield WeightedStack(stack, state, weight)


def _read_location(message: memoryview, functions: Mapping[int, tuple[str, str]]) -> tuple[int, list[str]]:
    """Return the number of a location and its escaped frames, the outermost first."""
    number, address, frames = 0, 0, []
    for field_number, value in _iter_fields(message):
        if field_number == 1:
            number = value
        elif field_number == 3:
            address = value
        elif field_number == 4:
            line = dict(_iter_fields(value))
            name, file = functions[line.get(1, 0)]
            at_line = line.get(2, 0) if line.get(2, 0) < 1 << 31 else 0
            frames.append(escape_frame(Frame(name or "(no name)", file, at_line).text))
    return number, frames[::-1] or [f"0x{address:x}"]


def _read_profile(content: memoryview) -> _Profile:
    profile = _Profile()
    lists = {
        1: profile.sample_types,
        2: profile.samples,
        4: profile.locations,
        5: profile.functions,
    }
    for number, value in _iter_fields(content):
        if number in lists:
            lists[number].append(value)
        elif number == 6:
            if isinstance(value, int):
                raise ValueError("a string is a number")
            profile.strings.append(bytes(value).decode(errors="replace"))
        elif number == 11:
            profile.period_type = value
        elif number == 12:
            profile.period = value
    return profile


def _read_value_type(profile: _Profile, message: memoryview) -> _ValueType:
    values = dict(_iter_fields(message))
    return _ValueType(*(profile.strings[values[at]] if values.get(at) else "" for at in (1, 2)))


def _read_integers(value: int | memoryview) -> list[int]:
    """Read a repeated integer: one, or several packed."""
    if isinstance(value, int):
        return [value]
    integers, at = [], 0
    while at < len(value):
        integer, at = _read_varint(value, at)
        integers.append(integer)
    return integers


def _iter_fields(content: memoryview) -> Iterator[tuple[int, Any]]:
    """Yield the number and value of each field: an integer, or bytes.

    Raises IndexError or ValueError where the content ends early or has an unknown wire type.
    """
    at = 0
    while at < len(content):
        tag, at = _read_varint(content, at)
        wire_type = tag & 7
        if wire_type == _VARINT:
            integer, at = _read_varint(content, at)
            yield tag >> 3, integer
            continue
        if wire_type not in (_BYTES, _FIXED64, _FIXED32):
            raise ValueError(f"wire type {wire_type}")
        if wire_type == _BYTES:
            length, at = _read_varint(content, at)
        else:
            length = 8 if wire_type == _FIXED64 else 4
        if not 0 <= length <= len(content) - at:
            raise ValueError("a field ends beyond the file")
        yield tag >> 3, content[at : at + length]
        at += length


def _read_varint(content: memoryview, at: int) -> tuple[int, int]:
    """Return a signed 64-bit integer and the position after it."""
    result = 0
    for shift in range(_MAX_VARINT_BYTES):
        byte = content[at + shift]
        result |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            result &= (1 << 64) - 1
            return result - (1 << 64) if result >> 63 else result, at + shift + 1
    raise ValueError("an integer of more than 64 bits")
