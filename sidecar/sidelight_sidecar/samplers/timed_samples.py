"""Individual samples of a session between two takes, in time order, compressed.

They are compressed at once, in the thread that took them, so that a capture of minutes takes little memory
and its size is known exactly.
"""

from __future__ import annotations

import json
import zlib
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_COLUMN_TYPES = "QIIB"


class TimelineBuffer(Protocol):
    """A timeline as the extension returns it.

    A sample is (nanoseconds since the start, thread, stack, state: an index in STATES).
    """

    @property
    def start_ns(self) -> int: ...
    @property
    def monotonic_ns(self) -> int: ...
    @property
    def threads(self) -> Sequence[str]: ...
    @property
    def stacks(self) -> Sequence[str]: ...
    @property
    def samples(self) -> Sequence[tuple[int, int, int, int]]: ...
    @property
    def dropped(self) -> int: ...


@dataclass(frozen=True, slots=True)
class TimedSamples:
    """Compressed samples, taken every `period_ns`.

    `dropped` is the number of earlier samples that were not kept.
    """

    samples: int
    dropped: int
    period_ns: int
    encoded: bytes

    @property
    def size(self) -> int:
        return len(self.encoded)


@dataclass(frozen=True, slots=True)
class TimedColumns:
    """Timed samples as columns with one entry per sample.

    `offsets_ns` are nanoseconds after the start. `start_ns` is Unix time, `monotonic_ns` the same moment on
    the monotonic clock.
    """

    start_ns: int
    monotonic_ns: int
    threads: Sequence[str]
    stacks: Sequence[str]
    offsets_ns: array[int]
    thread: array[int]
    stack: array[int]
    state: array[int]


def encode_timed_samples(
    timeline: TimelineBuffer, period_ns: int, *, dropped: int = 0, limit: int | None = None
) -> TimedSamples:
    """Compress the timeline of a session, or its first `limit` samples."""
    samples = timeline.samples[:limit]
    head = [timeline.start_ns, timeline.monotonic_ns, list(timeline.threads), list(timeline.stacks)]
    columns = zip(*samples, strict=True) if samples else ((),) * len(_COLUMN_TYPES)
    body = json.dumps(head).encode() + b"\n"
    body += b"".join(
        array(code, column).tobytes() for code, column in zip(_COLUMN_TYPES, columns, strict=True)
    )
    return TimedSamples(len(samples), dropped, period_ns, zlib.compress(body, 1))


def decode_timed_samples(timed_samples: TimedSamples) -> TimedColumns:
    """Decompress timed samples into columns."""
    body = zlib.decompress(timed_samples.encoded)
    begin = body.index(b"\n") + 1
    start_ns, monotonic_ns, threads, stacks = json.loads(body[:begin])
    columns = []
    for code in _COLUMN_TYPES:
        column: array[int] = array(code)
        end = begin + timed_samples.samples * column.itemsize
        column.frombytes(body[begin:end])
        columns.append(column)
        begin = end
    return TimedColumns(start_ns, monotonic_ns, threads, stacks, *columns)
