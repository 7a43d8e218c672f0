"""Read pprof profiles (profile.proto).

Go, Pyroscope's clients and `sidelight export` write them. The fields are defined in
https://github.com/google/pprof/blob/main/proto/profile.proto. A sample has a value for each of the profile's
value types, and labels. Its locations begin with the innermost frame. `native/src/collector/pprof.rs` is the
same in Rust for the collector.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from sidelight_model.folded import Stack, join_frames
from sidelight_model.frames import NO_FRAMES, Frame, escape_frame
from sidelight_model.import_formats.protobuf_wire import (
    DamagedMessage,
    iter_fields,
    read_bytes,
    read_integer,
    read_integers,
    read_numbers,
    read_text,
)

NS_PER_TIME_UNIT: Final = {
    **dict.fromkeys(("nanoseconds", "nanosecond", "ns"), 1),
    **dict.fromkeys(("microseconds", "microsecond", "us", "\u03bcs", "\u00b5s"), 10**3),
    **dict.fromkeys(("milliseconds", "millisecond", "ms"), 10**6),
    **dict.fromkeys(("seconds", "second", "s"), 10**9),
}
STATE_LABEL: Final = "state"
"""The label of a sample's state, as `sidelight export` writes it."""
_MAX_LINE: Final = 1 << 31
_UINT64_MASK: Final = (1 << 64) - 1
_MAX_TYPE_LENGTH: Final = 8
_TYPE_TAG: Final = 1 << 3 | 2
_FIRST_TAGS: Final = (b"\x12", b"\x48", b"\x50")
"""The tags of samples, of the time and of the duration."""
_NUMBER_FIELDS: Final = frozenset({7, 8, 9, 10, 12, 13, 14, 15})
_MESSAGE_FIELDS: Final = frozenset({1, 2, 3, 4, 5, 6, 11, 13})
_CHECKED_FIELDS: Final = 64
_MIN_FIELDS: Final = 4


class TooManyEntries(ValueError):
    """A profile has more fields than allowed."""


class ValueType(NamedTuple):
    """The name and the unit of a value, such as `cpu` in `nanoseconds`."""

    name: str
    unit: str

    @property
    def is_sample_count(self) -> bool:
        return self.unit == "count" and self.name.endswith(("sample", "samples"))


@dataclass(frozen=True, slots=True)
class PprofHeader:
    """The properties of a profile without its samples; zero or empty means unknown.

    `period` is in the unit of `period_type`. The times are in nanoseconds.
    """

    value_types: Sequence[ValueType]
    period_type: ValueType
    period: int
    time_ns: int
    duration_ns: int


@dataclass(frozen=True, slots=True)
class PprofSample:
    """A sample: the numbers of its locations, its values, and its labels.

    A label with a number instead of a text has the text "".
    """

    locations: tuple[int, ...]
    values: Sequence[int]
    labels: Sequence[tuple[str, str]]


def is_pprof(content: bytes) -> bool:
    """Return whether content is a profile, by its first fields.

    Most begin with a value type: as text that would be an empty line and a control character. Go begins with
    the time, which could be the letter H.
    """
    if len(content) > 1 and content[0] == _TYPE_TAG and content[1] <= _MAX_TYPE_LENGTH:
        return True
    return content[:1] in _FIRST_TAGS and _has_fields(content)


def _has_fields(content: bytes) -> bool:
    """Return whether the first fields are those of a profile, with the right types."""
    numbers = set()
    try:
        for number, value in islice(iter_fields(memoryview(content)), _CHECKED_FIELDS):
            if number not in (_NUMBER_FIELDS if isinstance(value, int) else _MESSAGE_FIELDS):
                return False
            numbers.add(number)
    except DamagedMessage:
        return False
    return {1, 2} <= numbers or len(numbers) > _MIN_FIELDS


class PprofProfile:
    """An unpacked profile. All methods raise DamagedMessage.

    The constructor raises TooManyEntries for more than `max_entries` fields.
    """

    def __init__(self, content: bytes, max_entries: int | None = None) -> None:
        self._strings: list[str] = []
        self._value_types: list[memoryview] = []
        self._samples: list[memoryview] = []
        self._location_messages: list[memoryview] = []
        self._function_messages: list[memoryview] = []
        self._locations: dict[int, memoryview] = {}
        self._functions: dict[int, memoryview] = {}
        self._frames: dict[int, str] = {}
        self._numbers = dict.fromkeys((9, 10, 12), 0)
        self._period_type = memoryview(b"")
        for entries, (number, value) in enumerate(iter_fields(memoryview(content))):
            if max_entries is not None and entries >= max_entries:
                raise TooManyEntries(f"the profile has more than {max_entries} fields")
            self._add_field(number, value)

    def _add_field(self, number: int, value: int | memoryview) -> None:
        if number == 1:
            self._value_types.append(read_bytes(value))
        elif number == 2:
            self._samples.append(read_bytes(value))
        elif number == 4:
            self._location_messages.append(read_bytes(value))
        elif number == 5:
            self._function_messages.append(read_bytes(value))
        elif number == 6:
            self._strings.append(read_text(value))
        elif number == 11:
            self._period_type = read_bytes(value)
        elif number in self._numbers:
            self._numbers[number] = read_integer(value)

    @property
    def header(self) -> PprofHeader:
        """The properties of the profile without its samples."""
        return PprofHeader(
            [self._read_value_type(message) for message in self._value_types],
            self._read_value_type(self._period_type),
            period=self._numbers[12],
            time_ns=self._numbers[9],
            duration_ns=self._numbers[10],
        )

    def iter_samples(self) -> Iterator[PprofSample]:
        """Yield the samples in their order."""
        for messages, table in (
            (self._location_messages, self._locations),
            (self._function_messages, self._functions),
        ):
            table.update((read_numbers(message, 1)[0], message) for message in messages)
        for message in self._samples:
            locations: list[int] = []
            values: list[int] = []
            labels: list[tuple[str, str]] = []
            for number, value in iter_fields(message):
                if number == 1:
                    locations += read_integers(value)
                elif number == 2:
                    values += read_integers(value)
                elif number == 3:
                    name, text, _ = read_numbers(read_bytes(value), 1, 2, 3)
                    labels.append((self._get_string(name), self._get_string(text)))
            yield PprofSample(tuple(locations), values, labels)

    def join_stack(self, locations: Sequence[int]) -> Stack:
        """Join the escaped frames of the locations of a sample, the root first."""
        if not locations:
            return Stack(NO_FRAMES)
        return join_frames(map(self._get_frames, reversed(locations)))

    def _get_frames(self, location: int) -> str:
        """Return the escaped frames of a location, joined by `;`."""
        frames = self._frames.get(location)
        if frames is None:
            if location not in self._locations:
                raise DamagedMessage("a location is missing")
            frames = self._frames[location] = self._build_frames(self._locations[location])
        return frames

    def _build_frames(self, location: memoryview) -> str:
        frames: list[str] = []
        for number, value in iter_fields(location):
            if number != 4:
                continue
            function, line = read_numbers(read_bytes(value), 1, 2)
            if function not in self._functions:
                raise DamagedMessage("a function is missing")
            name, file = map(self._get_string, read_numbers(self._functions[function], 2, 4))
            frame = Frame(name or "(no name)", file, line if 0 < line < _MAX_LINE else 0)
            frames.append(escape_frame(frame.text))
        if not frames:
            return f"0x{read_numbers(location, 3)[0] & _UINT64_MASK:x}"
        return join_frames(reversed(frames))

    def _get_string(self, number: int) -> str:
        if 0 <= number < len(self._strings):
            return self._strings[number]
        if number == 0:
            return ""  # an empty profile may have no strings
        raise DamagedMessage("a string is missing")

    def _read_value_type(self, message: memoryview) -> ValueType:
        return ValueType(*map(self._get_string, read_numbers(message, 1, 2)))
