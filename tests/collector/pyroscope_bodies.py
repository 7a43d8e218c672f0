"""Bodies of Pyroscope's clients, encoded by hand."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

MS = 1_000_000
SECOND_NS = 10**9


def varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def number(field_number: int, value: int) -> bytes:
    return varint(field_number << 3) + varint(value)


def message(field_number: int, content: bytes) -> bytes:
    return varint(field_number << 3 | 2) + varint(len(content)) + content


@dataclass(frozen=True)
class Sample:
    """Frames `function (file:line)` from the root, a value for each type, and labels."""

    frames: Sequence[tuple[str, str, int]]
    values: Sequence[int]
    labels: Mapping[str, str | int] = field(default_factory=dict)


def sample(stack: str, *values: int, **labels: str | int) -> Sample:
    """A sample of `f;g;h`, whose functions are all in a.py."""
    names = [name for name in stack.split(";") if name]
    return Sample([(name, "a.py", at + 1) for at, name in enumerate(names)], values, labels)


class _Numbers(dict[object, int]):
    """Numbers from `first` on for things in the order of their first use."""

    def __init__(self, first: int) -> None:
        super().__init__()
        self.first = first

    def __missing__(self, key: object) -> int:
        self[key] = self.first + len(self)
        return self[key]


def pprof(
    samples: Iterable[Sample],
    types: Sequence[tuple[str, str]] = (("cpu", "nanoseconds"),),
    *,
    period: int = 10 * MS,
    period_type: tuple[str, str] = ("cpu", "nanoseconds"),
    start_ns: int = 0,
    duration_ns: int = 10 * SECOND_NS,
) -> bytes:
    """A profile, with one location for each frame."""
    strings, functions, locations = _Numbers(0), _Numbers(1), _Numbers(1)
    assert strings[""] == 0
    body = b"".join(message(1, number(1, strings[name]) + number(2, strings[unit])) for name, unit in types)
    for one in samples:
        ids = b"".join(varint(locations[frame]) for frame in reversed(one.frames))
        content = message(1, ids) + message(2, b"".join(map(varint, one.values)))
        for name, value in one.labels.items():
            text = isinstance(value, str)
            label = number(1, strings[name]) + number(
                2 if text else 3, strings[value] if text else int(value)
            )
            content += message(3, label)
        body += message(2, content)
    for frame, location in locations.items():
        name, file, line = frame  # type: ignore[misc]
        lines = message(4, number(1, functions[name, file]) + number(2, line))
        body += message(4, number(1, location) + lines)
    for key, function in functions.items():
        name, file = key  # type: ignore[misc]
        body += message(5, number(1, function) + number(2, strings[name]) + number(4, strings[file]))
    period_message = number(1, strings[period_type[0]]) + number(2, strings[period_type[1]])
    body += b"".join(message(6, str(text).encode()) for text in strings)
    body += message(11, period_message) + number(12, period)
    return body + (number(9, start_ns) if start_ns else b"") + number(10, duration_ns)


def push(
    *profiles: bytes, labels: Mapping[str, str] | None = None, ids: Sequence[str] = (), packed: bool = False
) -> bytes:
    """A PushRequest with one series."""
    labels = {"__name__": "process_cpu", "service_name": "shop"} if labels is None else labels
    series = b"".join(
        message(1, message(1, name.encode()) + message(2, value.encode())) for name, value in labels.items()
    )
    for at, profile in enumerate(profiles):
        raw = gzip.compress(profile, mtime=0) if packed else profile
        series += message(2, message(1, raw) + message(2, (ids[at] if ids else f"id-{at}").encode()))
    return message(1, series)
