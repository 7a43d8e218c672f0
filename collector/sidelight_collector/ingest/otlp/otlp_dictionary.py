"""The tables of an OTLP request, checked, and its profiles as pprof.

The messages are those of `opentelemetry/proto/profiles/v1development` in opentelemetry-proto 1.45. Older
versions have other layouts under the same path. What tells them apart: the type of each field, the numbers
of values and timestamps, empty first strings and links, and indexes within the tables. Other tables should
begin with a zero value too, but OpenTelemetry's SDK for Python (0.63b4) begins with its first entry.

A profile becomes a pprof profile of the table entries that it uses. Stacks of both begin with the innermost
frame, so the numbers of their locations are copied as they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sidelight_collector.decompress import build_too_large_error
from sidelight_collector.ingest.pyroscope.profile_sums import BadProfile, ProfileLimits
from sidelight_model.errors import LimitExceeded
from sidelight_model.export_formats.protobuf_writer import encode_message, encode_number, encode_varint
from sidelight_model.import_formats.protobuf_wire import (
    FieldValue,
    iter_fields,
    read_bytes,
    read_integer,
    read_numbers,
    read_text,
)

LAYOUT_HINT: Final = (
    "Send the layout of opentelemetry-proto 1.45, as the OpenTelemetry Collector does from version 0.161 on."
)
_TABLES: Final = {
    1: "mapping_table",
    2: "location_table",
    3: "function_table",
    4: "link_table",
    5: "string_table",
    6: "attribute_table",
    7: "stack_table",
}
_LOCATIONS, _FUNCTIONS, _LINKS, _STRINGS, _ATTRIBUTES, _STACKS = 2, 3, 4, 5, 6, 7
_MAX_INDEX_BYTES: Final = 5
_CHUNK_BYTES: Final = 1 << 20
"""Packed numbers that are decoded at once, in 50 times as much memory."""
_MAX_READS: Final = 8
"""How often the bytes of a largest request may be read, on average."""


class OtherLayout(BadProfile):
    """A request does not have the layout of opentelemetry-proto 1.45."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem, LAYOUT_HINT)


class OtlpDictionary:
    """The tables that all profiles of a request share.

    The constructor raises OtherLayout, DamagedMessage, and LimitExceeded for more entries than a profile may
    have. `encoded_bytes` counts the profiles that were made of the tables.
    """

    def __init__(self, message: memoryview, limits: ProfileLimits, max_bytes: int) -> None:
        self._tables: dict[int, list[memoryview]] = {number: [] for number in _TABLES}
        for at, (number, value) in enumerate(iter_fields(message)):
            if at >= limits.entries:
                raise LimitExceeded(
                    f"the dictionary has more than {limits.entries} entries",
                    hint="Send fewer profiles at once, or raise the collector's --max-body-bytes.",
                )
            if number in _TABLES:
                self._tables[number].append(read_bytes(value))
        strings, links = self._tables[_STRINGS], self._tables[_LINKS]
        if (strings and len(strings[0])) or (links and not _is_zero(links[0])):
            raise OtherLayout("index 0 of string_table or of link_table is not the zero value")
        self._max_bytes = max_bytes
        self._read_bytes = 0
        self.encoded_bytes = 0

    def get_text(self, index: int) -> str:
        """Return a text of the string table. Raises OtherLayout."""
        return read_text(self._get(_STRINGS, index)) if index else ""

    def get_attribute(self, index: int) -> memoryview:
        """Return the message of an attribute. Raises OtherLayout."""
        return self._get(_ATTRIBUTES, index)

    def check_link(self, index: int) -> None:
        """Raise OtherLayout if there is no such link."""
        if index:
            self._get(_LINKS, index)

    def read_stack(self, index: int) -> bytes:
        """Return the packed locations of a stack. Raises OtherLayout, DamagedMessage."""
        packed = bytearray()
        for number, value in iter_fields(self._get(_STACKS, index)):
            if number == 1:
                packed += encode_varint(value) if isinstance(value, int) else value
        return bytes(packed)

    def count_read(self, size_bytes: int) -> None:
        """Count bytes that several profiles read again.

        Raises LimitExceeded, so that a small request cannot take minutes.
        """
        self._read_bytes += size_bytes
        limit = _MAX_READS * self._max_bytes
        if self._read_bytes > limit:
            raise LimitExceeded(
                f"the profiles read more than {limit:,} bytes of the tables that they share",
                hint="Send fewer profiles at once.",
            )

    def add_encoded(self, size_bytes: int) -> None:
        """Count bytes of profiles. Raises LimitExceeded above the limit of a body."""
        self.encoded_bytes += size_bytes
        if self.encoded_bytes > self._max_bytes:
            raise build_too_large_error(self._max_bytes, "Send fewer profiles at once.")

    def encode_tables(self, stacks: Iterable[bytes], strings: PprofStrings) -> bytes:
        """Encode the locations and functions of stacks as those of a pprof profile.

        Raises OtherLayout, DamagedMessage, LimitExceeded.
        """
        encoded = bytearray()
        functions: set[int] = set()
        for location in _read_indexes(stacks):
            content = encode_number(1, location)
            for number, value in iter_fields(self._get(_LOCATIONS, location)):
                if number == 2:
                    content += encode_number(3, read_integer(value))
                elif number == 3:
                    function, line = read_numbers(read_bytes(value), 1, 2)
                    self._get(_FUNCTIONS, function)
                    functions.add(function)
                    content += encode_message(4, encode_number(1, function) + encode_number(2, line))
                elif number == 1:
                    read_integer(value)
            self.add_encoded(len(content))
            encoded += encode_message(4, content)
        for function in sorted(functions):
            name, file = read_numbers(self._get(_FUNCTIONS, function), 1, 3)
            encoded += encode_message(
                5,
                encode_number(1, function)
                + encode_number(2, strings.intern(self.get_text(name)))
                + encode_number(4, strings.intern(self.get_text(file))),
            )
        return bytes(encoded)

    def _get(self, table: int, index: int) -> memoryview:
        entries = self._tables[table]
        if not 0 <= index < len(entries):
            if index == 0:
                return memoryview(b"")
            raise OtherLayout(f"index {index} is beyond {_TABLES[table]}, which has {len(entries)} entries")
        self.count_read(len(entries[index]))
        return entries[index]


class PprofStrings(dict[str, int]):
    """The string table of a pprof profile; index 0 is the empty text."""

    def __init__(self) -> None:
        super().__init__({"": 0})

    def intern(self, text: str) -> int:
        """Return the index of a text."""
        return self.setdefault(text, len(self))

    def encode(self) -> bytes:
        """Encode the table."""
        return b"".join(encode_message(6, text.encode(errors="replace")) for text in self)


def _read_indexes(stacks: Iterable[bytes]) -> list[int]:
    """Return the different numbers in packed lists.

    Raises OtherLayout for numbers above 32 bits.
    """
    packed = [stack for stack in stacks if stack]
    if any(stack[-1] > 0x7F for stack in packed):
        raise OtherLayout("a stack ends within a number")
    content = b"".join(packed)
    indexes: set[int] = set()
    start = 0
    while start < len(content):
        end = min(start + _CHUNK_BYTES, len(content))
        while content[end - 1] > 0x7F:
            end += 1
            if end - start > _CHUNK_BYTES + _MAX_INDEX_BYTES:
                raise _beyond_tables()
        indexes.update(_decode_indexes(np.frombuffer(content, np.uint8, end - start, start)))
        start = end
    return sorted(indexes)


def _decode_indexes(content: NDArray[np.uint8]) -> list[int]:
    """Return the different numbers of a packed list. Raises OtherLayout."""
    ends = np.flatnonzero(content < 0x80)
    starts = np.concatenate(([0], ends[:-1] + 1))
    lengths = ends - starts + 1
    if lengths.max() > _MAX_INDEX_BYTES:
        raise _beyond_tables()
    places = np.arange(len(content)) - np.repeat(starts, lengths)
    parts = (content & 0x7F).astype(np.int64) << (7 * places)
    indexes: list[int] = np.unique(np.add.reduceat(parts, starts)).tolist()
    return indexes


def _beyond_tables() -> OtherLayout:
    return OtherLayout("a stack refers to a location that cannot exist")


def _is_zero(message: memoryview) -> bool:
    """Whether a message has no value, or only values of zero."""
    return not any(_has_value(value) for _, value in iter_fields(message))


def _has_value(value: FieldValue) -> bool:
    return bool(value) if isinstance(value, int) else any(value)
