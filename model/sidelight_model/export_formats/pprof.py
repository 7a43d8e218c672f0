"""pprof's profile.proto, gzipped, as `go tool pprof` and the stores that take pprof read it.

The fields are those of https://github.com/google/pprof/blob/main/proto/profile.proto; only the few wire
forms they need are written here (https://protobuf.dev/programming-guides/encoding): whole numbers as
varints, texts and messages with their length in front. A sample has two values, its count and its time,
and the label `state` (idle, running, gil), so that `pprof -tagfocus state=gil` shows one state alone.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from sidelight_model.export_formats.provenance import About
from sidelight_model.frames import Frame, unescape

_VARINT: Final = 0
_BYTES: Final = 2
_MASK: Final = (1 << 64) - 1
_SHORT: Final = [bytes([value]) for value in range(0x80)]
GZIP_LEVEL: Final = 6


class StateRow(NamedTuple):
    """One stack in one state: frames root first and escaped, samples, nanoseconds."""

    frames: Sequence[str]
    state: str
    samples: int
    ns: int


def write_pprof(rows: Iterable[StateRow], about: About, *, period_ns: int) -> bytes:
    """A profile of one side, gzipped.

    Stacks stand in the order of their frames, so equal profiles give equal bytes.
    """
    side = about.sides[0]
    texts = _Texts()
    places = _Places(texts)
    body = bytearray()
    time_type = _value_type(texts, about.type, "nanoseconds")
    for value_type in (_value_type(texts, "samples", "count"), time_type):
        body += _message(1, value_type)
    labels = {state: _label(texts, "state", state) for state in ("idle", "running", "gil")}
    for row in sorted(rows, key=lambda row: (tuple(row.frames), row.state)):
        ids = b"".join(map(places.__getitem__, reversed(row.frames)))
        values = _varint(row.samples) + _varint(row.ns)
        body += _message(2, _message(1, ids) + _message(2, values) + _message(3, labels[row.state]))
    body += _message(3, _number(1, 1) + _number(5, texts.number("python")) + _FLAGS)
    body += places.written
    comments = [about.title, *about.notes(), about.exporter]
    tail = b"".join(
        [
            _number(9, side.from_ns),
            _number(10, side.until_ns - side.from_ns),
            _message(11, time_type),
            _number(12, period_ns),
            _message(13, b"".join(_varint(texts.number(line)) for line in comments)),
            _number(14, texts.number(about.type)),
        ]
    )
    body += b"".join(texts.messages()) + tail
    return gzip.compress(bytes(body), GZIP_LEVEL, mtime=0)


class _Texts:
    """The string table; number 0 is the empty text."""

    def __init__(self) -> None:
        self._numbers = {"": 0}

    def number(self, text: str) -> int:
        return self._numbers.setdefault(text, len(self._numbers))

    def messages(self) -> Iterator[bytes]:
        # A name may hold half of a surrogate pair, which UTF-8 cannot.
        return (_message(6, text.encode(errors="replace")) for text in self._numbers)


class _Places(dict[str, bytes]):
    """The number of each frame's location as it is written: one for each function and line."""

    def __init__(self, texts: _Texts) -> None:
        super().__init__()
        self._texts = texts
        self._functions: dict[tuple[str, str], int] = {}
        self.written = bytearray()

    def __missing__(self, text: str) -> bytes:
        number = len(self) + 1
        known = self[text] = _varint(number)
        frame = Frame.parse(unescape(text))
        line = _number(1, self._function(frame)) + _number(2, frame.line)
        self.written += _message(4, _number(1, number) + _number(2, 1) + _message(4, line))
        return known

    def _function(self, frame: Frame) -> int:
        key = (frame.function, frame.file)
        known = self._functions.get(key)
        if known is None:
            known = self._functions[key] = len(self._functions) + 1
            name, file = self._texts.number(frame.function), self._texts.number(frame.file)
            self.written += _message(
                5, _number(1, known) + _number(2, name) + _number(3, name) + _number(4, file)
            )
        return known


def _value_type(texts: _Texts, kind: str, unit: str) -> bytes:
    return _number(1, texts.number(kind)) + _number(2, texts.number(unit))


def _label(texts: _Texts, key: str, text: str) -> bytes:
    return _number(1, texts.number(key)) + _number(2, texts.number(text))


def _number(field: int, value: int) -> bytes:
    """A whole number; zero is what an absent one reads as."""
    return _varint(field << 3 | _VARINT) + _varint(value) if value else b""


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _BYTES) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    if 0 <= value < len(_SHORT):
        return _SHORT[value]
    value &= _MASK
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


_FLAGS: Final = b"".join(_number(field, 1) for field in (7, 8, 9))
"""The mapping has functions, file names and line numbers: nothing is left to be looked up in a binary."""
