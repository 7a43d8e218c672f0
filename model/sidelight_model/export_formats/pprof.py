"""Export to pprof's profile.proto, gzipped.

`go tool pprof` and stores for pprof profiles read it. The fields are defined in
https://github.com/google/pprof/blob/main/proto/profile.proto. This module writes only the wire types that
they need (https://protobuf.dev/programming-guides/encoding): integers as varints, strings and messages with
a length prefix. A sample has two values, its count and its time, and the label `state` (one of
STATES), so `pprof -tagfocus state=gil` shows a single state.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from sidelight_model.counts import STATES
from sidelight_model.export_formats.provenance import Provenance
from sidelight_model.frames import Frame, unescape_frame

_WIRE_VARINT: Final = 0
_WIRE_BYTES: Final = 2
_UINT64_MASK: Final = (1 << 64) - 1
_ONE_BYTE_VARINTS: Final = [bytes([value]) for value in range(0x80)]
GZIP_LEVEL: Final = 6


class StateRow(NamedTuple):
    """One stack in one state: escaped frames (the root first), samples, nanoseconds."""

    frames: Sequence[str]
    state: str
    samples: int
    ns: int


def write_pprof(rows: Iterable[StateRow], provenance: Provenance, *, period_ns: int) -> bytes:
    """Write the profile of one side, gzipped.

    Stacks are sorted by their frames, so equal profiles give equal bytes.
    """
    side = provenance.sides[0]
    strings = _StringTable()
    locations = _LocationTable(strings)
    body = bytearray()
    time_type = _encode_value_type(strings, provenance.type, "nanoseconds")
    for value_type in (_encode_value_type(strings, "samples", "count"), time_type):
        body += _encode_message(1, value_type)
    labels = {state: _encode_label(strings, "state", state) for state in STATES}
    for row in sorted(rows, key=lambda row: (tuple(row.frames), row.state)):
        ids = b"".join(map(locations.__getitem__, reversed(row.frames)))
        values = _encode_varint(row.samples) + _encode_varint(row.ns)
        body += _encode_message(
            2, _encode_message(1, ids) + _encode_message(2, values) + _encode_message(3, labels[row.state])
        )
    body += _encode_message(
        3, _encode_number(1, 1) + _encode_number(5, strings.intern("python")) + _MAPPING_FLAGS
    )
    body += locations.encoded
    comments = [provenance.title, *provenance.to_lines(), provenance.exporter]
    tail = b"".join(
        [
            _encode_number(9, side.from_ns),
            _encode_number(10, round(side.pod_seconds * 1e9)),
            _encode_message(11, time_type),
            _encode_number(12, period_ns),
            _encode_message(13, b"".join(_encode_varint(strings.intern(line)) for line in comments)),
            _encode_number(14, strings.intern(provenance.type)),
        ]
    )
    body += b"".join(strings.encode_messages()) + tail
    return gzip.compress(bytes(body), GZIP_LEVEL, mtime=0)


class _StringTable:
    """The string table; index 0 is the empty string."""

    def __init__(self) -> None:
        self._indexes = {"": 0}

    def intern(self, text: str) -> int:
        return self._indexes.setdefault(text, len(self._indexes))

    def encode_messages(self) -> Iterator[bytes]:
        # A name may contain half of a surrogate pair, which UTF-8 cannot encode.
        return (_encode_message(6, text.encode(errors="replace")) for text in self._indexes)


class _LocationTable(dict[str, bytes]):
    """The encoded location number of each frame: one location per function and line."""

    def __init__(self, strings: _StringTable) -> None:
        super().__init__()
        self._strings = strings
        self._function_ids: dict[tuple[str, str], int] = {}
        self.encoded = bytearray()

    def __missing__(self, text: str) -> bytes:
        number = len(self) + 1
        location = self[text] = _encode_varint(number)
        frame = Frame.parse(unescape_frame(text))
        line = _encode_number(1, self._add_function(frame)) + _encode_number(2, frame.line)
        self.encoded += _encode_message(
            4, _encode_number(1, number) + _encode_number(2, 1) + _encode_message(4, line)
        )
        return location

    def _add_function(self, frame: Frame) -> int:
        """Add a function without `system_name`.

        pprof takes a name that equals it for a mangled one, and cuts `<…>` out of it (google/pprof#760).
        """
        key = (frame.function, frame.file)
        function_id = self._function_ids.get(key)
        if function_id is None:
            function_id = self._function_ids[key] = len(self._function_ids) + 1
            name, file = self._strings.intern(frame.function), self._strings.intern(frame.file)
            self.encoded += _encode_message(
                5,
                _encode_number(1, function_id) + _encode_number(2, name) + _encode_number(4, file),
            )
        return function_id


def _encode_value_type(strings: _StringTable, kind: str, unit: str) -> bytes:
    return _encode_number(1, strings.intern(kind)) + _encode_number(2, strings.intern(unit))


def _encode_label(strings: _StringTable, key: str, text: str) -> bytes:
    return _encode_number(1, strings.intern(key)) + _encode_number(2, strings.intern(text))


def _encode_number(field: int, value: int) -> bytes:
    """Encode an integer field; zero is omitted, because an absent field reads as zero."""
    return _encode_varint(field << 3 | _WIRE_VARINT) + _encode_varint(value) if value else b""


def _encode_message(field: int, content: bytes) -> bytes:
    return _encode_varint(field << 3 | _WIRE_BYTES) + _encode_varint(len(content)) + content


def _encode_varint(value: int) -> bytes:
    if 0 <= value < len(_ONE_BYTE_VARINTS):
        return _ONE_BYTE_VARINTS[value]
    value &= _UINT64_MASK
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_MAPPING_FLAGS: Final = b"".join(_encode_number(field, 1) for field in (7, 8, 9))
"""The mapping has functions, file names and line numbers, so pprof need not read a binary."""
