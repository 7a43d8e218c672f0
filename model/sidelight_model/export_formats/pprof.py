"""Export to pprof's profile.proto.

`go tool pprof` and stores for pprof profiles read it. The fields are defined in
https://github.com/google/pprof/blob/main/proto/profile.proto. A sample has two values, its count and its
time, and the label `state` (one of STATES), so `pprof -tagfocus state=gil` shows a single state.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sidelight_model.counts import ON_CPU_STATES, STATES
from sidelight_model.export_formats.protobuf_writer import (
    encode_message,
    encode_number,
    encode_text,
    encode_varint,
)
from sidelight_model.export_formats.provenance import Provenance
from sidelight_model.frames import Frame, unescape_frame

GZIP_LEVEL: Final = 6
SAMPLES: Final = "samples"
"""The type of values that count samples."""


class StateRow(NamedTuple):
    """One stack in one state: escaped frames (the root first), samples, nanoseconds."""

    frames: Sequence[str]
    state: str
    samples: int
    ns: int


@dataclass(frozen=True, slots=True)
class ProfileTimes:
    """The times of a profile (ns); 0 is unknown."""

    period_ns: int
    start_ns: int = 0
    duration_ns: int = 0


def write_pprof(rows: Iterable[StateRow], provenance: Provenance, *, period_ns: int) -> bytes:
    """Write the profile of one side, gzipped."""
    return gzip.compress(encode_pprof(rows, provenance, period_ns=period_ns), GZIP_LEVEL, mtime=0)


def encode_pprof(
    rows: Iterable[StateRow],
    provenance: Provenance,
    *,
    period_ns: int,
    with_counts: bool = True,
    files_in_names: bool = False,
) -> bytes:
    """Encode the profile of one side.

    Without `with_counts` samples have their time alone. With `files_in_names` functions are named as in a
    flame graph: `main (app.py)`.
    """
    side = provenance.sides[0]
    return encode_profile(
        rows,
        (*((SAMPLES,) if with_counts else ()), provenance.type),
        ProfileTimes(period_ns, side.from_ns, round(side.pod_seconds * 1e9)),
        [provenance.title, *provenance.to_lines(), provenance.exporter],
        files_in_names=files_in_names,
    )


def encode_profile(
    rows: Iterable[StateRow],
    value_types: Sequence[str],
    times: ProfileTimes,
    comments: Iterable[str] = (),
    *,
    files_in_names: bool = False,
) -> bytes:
    """Encode a profile with values of these types; the last is that of the rows.

    SAMPLES is the number of samples, and `cpu` before another type the time on a CPU. Stacks are
    sorted by their frames, so equal profiles give equal bytes. A row without a state has no label `state`.
    """
    strings = _StringTable()
    locations = _LocationTable(strings, files_in_names=files_in_names)
    body = bytearray()
    units = {name: "count" if name == SAMPLES else "nanoseconds" for name in value_types}
    encoded_types = [_encode_value_type(strings, name, unit) for name, unit in units.items()]
    for encoded_type in encoded_types:
        body += encode_message(1, encoded_type)
    labels = {state: encode_message(3, _encode_label(strings, "state", state)) for state in STATES}
    labels[""] = b""
    for row in sorted(rows, key=lambda row: (tuple(row.frames), row.state)):
        ids = b"".join(map(locations.__getitem__, reversed(row.frames)))
        values = b"".join(encode_varint(_get_value(row, name)) for name in value_types[:-1])
        values += encode_varint(row.ns)
        body += encode_message(2, encode_message(1, ids) + encode_message(2, values) + labels[row.state])
    body += encode_message(
        3, encode_number(1, 1) + encode_number(5, strings.intern("python")) + _MAPPING_FLAGS
    )
    body += locations.encoded
    tail = b"".join(
        [
            encode_number(9, times.start_ns),
            encode_number(10, times.duration_ns),
            encode_message(11, encoded_types[-1]),
            encode_number(12, times.period_ns),
            encode_message(13, b"".join(encode_varint(strings.intern(line)) for line in comments)),
            encode_number(14, strings.intern(value_types[-1])),
        ]
    )
    body += b"".join(strings.encode_messages()) + tail
    return bytes(body)


def _get_value(row: StateRow, value_type: str) -> int:
    if value_type == SAMPLES:
        return row.samples
    return row.ns if row.state in ON_CPU_STATES else 0


class _StringTable:
    """The string table; index 0 is the empty string."""

    def __init__(self) -> None:
        self._indexes = {"": 0}

    def intern(self, text: str) -> int:
        return self._indexes.setdefault(text, len(self._indexes))

    def encode_messages(self) -> Iterator[bytes]:
        return (encode_text(6, text) for text in self._indexes)


class _LocationTable(dict[str, bytes]):
    """The encoded location number of each frame: one location per function and line."""

    def __init__(self, strings: _StringTable, *, files_in_names: bool) -> None:
        super().__init__()
        self._strings = strings
        self._files_in_names = files_in_names
        self._function_ids: dict[tuple[str, str], int] = {}
        self.encoded = bytearray()

    def __missing__(self, text: str) -> bytes:
        number = len(self) + 1
        location = self[text] = encode_varint(number)
        frame = Frame.parse(unescape_frame(text))
        line = encode_number(1, self._add_function(frame)) + encode_number(2, frame.line)
        self.encoded += encode_message(
            4, encode_number(1, number) + encode_number(2, 1) + encode_message(4, line)
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
            shown = Frame(frame.function, frame.file).text if self._files_in_names else frame.function
            name, file = self._strings.intern(shown), self._strings.intern(frame.file)
            self.encoded += encode_message(
                5,
                encode_number(1, function_id) + encode_number(2, name) + encode_number(4, file),
            )
        return function_id


def _encode_value_type(strings: _StringTable, kind: str, unit: str) -> bytes:
    return encode_number(1, strings.intern(kind)) + encode_number(2, strings.intern(unit))


def _encode_label(strings: _StringTable, key: str, text: str) -> bytes:
    return encode_number(1, strings.intern(key)) + encode_number(2, strings.intern(text))


_MAPPING_FLAGS: Final = b"".join(encode_number(field, 1) for field in (7, 8, 9))
"""The mapping has functions, file names and line numbers, so pprof need not read a binary."""
