"""Recordings: what a capture saw of one process, in the order of time, as it is sent to the collector.

Memory is bounded for all recordings together (`Room`): what does not fit is dropped where most is held,
the oldest first. A recording as it is sent is bounded too, compressed and before: again the oldest
samples are left out. What was dropped is said in it.
"""

from __future__ import annotations

import json
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import zstandard

from sidelight_model.folded import Stack, split
from sidelight_sidecar.samplers.timed_samples import Moments, spread

MAX_TEXT_BYTES = 64 << 20
"""Bound of a recording before it is compressed."""
_LEAST_SAMPLE_BYTES = 6
_AIM = 0.9


class Room:
    """The memory of all recordings together; `told` is called with what is used."""

    def __init__(self, max_bytes: int, told: Callable[[int], None] = lambda used: None) -> None:
        self._max_bytes = max_bytes
        self._told = told
        self._recordings: list[Recording] = []

    @property
    def used(self) -> int:
        return sum(recording.size for recording in self._recordings)

    def open(self) -> Recording:
        """A recording that takes room until it is closed."""
        recording = Recording(self)
        self._recordings.append(recording)
        return recording

    def close(self, recording: Recording) -> None:
        if recording in self._recordings:
            self._recordings.remove(recording)
        self._told(self.used)

    def fit(self) -> None:
        while self.used > self._max_bytes:
            max(self._recordings, key=lambda recording: recording.size).shorten()
        self._told(self.used)


class Recording:
    """The moments of one process, as far as there is room."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._kept: deque[Moments] = deque()
        self.size = 0
        self.samples = 0
        self.dropped = 0

    @property
    def kept(self) -> Sequence[Moments]:
        return tuple(self._kept)

    def add(self, moments: Moments) -> None:
        self.dropped += moments.missed
        if moments.samples:
            self._kept.append(moments)
            self.samples += moments.samples
            self.size += moments.size
            self._room.fit()

    def shorten(self) -> None:
        """Drop the oldest."""
        oldest = self._kept.popleft()
        self.size -= oldest.size
        self.samples -= oldest.samples
        self.dropped += oldest.samples

    def close(self) -> None:
        """Give the room back."""
        self._kept.clear()
        self.size = 0
        self._room.close(self)


@dataclass(frozen=True, slots=True)
class About:
    """Whose recording it is."""

    capture: str
    agent: str
    labels: Mapping[str, str]
    pid: int


@dataclass(frozen=True, slots=True)
class Document:
    """A recording as it is sent, compressed; so many samples are in it, and so many are not."""

    body: bytes
    samples: int
    dropped: int


@dataclass(slots=True)
class _Row:
    """The samples of one thread."""

    at_us: array[int] = field(default_factory=lambda: array("q"))
    stack: array[int] = field(default_factory=lambda: array("I"))
    state: array[int] = field(default_factory=lambda: array("B"))


def document(
    kept: Sequence[Moments],
    about: About,
    *,
    dropped: int,
    max_bytes: int,
    max_text_bytes: int = MAX_TEXT_BYTES,
) -> Document | None:
    """The newest samples that fit; None when there is none."""
    ever = sum(moments.samples for moments in kept)
    count = min(ever, max_text_bytes // _LEAST_SAMPLE_BYTES)
    while count > 0:
        text = json.dumps(
            _written(kept, about, ever - count, dropped + ever - count), separators=(",", ":")
        ).encode()
        body = zstandard.ZstdCompressor(level=3).compress(text)
        share = min(max_bytes / len(body), max_text_bytes / len(text))
        if share >= 1:
            return Document(body, count, dropped + ever - count)
        count = int(count * share * _AIM)
    return None


def _written(kept: Sequence[Moments], about: About, skip: int, dropped: int) -> Mapping[str, object]:
    """The recording without its first samples."""
    rows: dict[tuple[str, int], _Row] = {}
    codes: dict[str, int] = {}
    periods: list[list[int]] = []
    start_ns = began = None
    for moments in kept:
        if skip >= moments.samples:
            skip -= moments.samples
            continue
        some = spread(moments)
        if began is None or start_ns is None:
            began = some.monotonic_ns + some.at[skip]
            start_ns = some.start_ns + some.at[skip]
        offset = some.monotonic_ns - began
        period_us = round(moments.period_ns / 1000)
        if not periods or periods[-1][1] != period_us:
            periods.append([max(0, offset) // 1000, period_us])
        known = [codes.setdefault(stack, len(codes)) for stack in some.stacks]
        tick, twins = -1, dict[int, int]()
        for index in range(skip, moments.samples):
            at, thread = some.at[index], some.thread[index]
            if at != tick:
                tick, twins = at, {}
            # Two threads may bear one name: the second one seen at a tick has a row of its own.
            twin = twins[thread] = twins.get(thread, 0) + 1
            row = rows.get((some.threads[thread], twin))
            if row is None:
                row = rows[some.threads[thread], twin] = _Row()
            row.at_us.append((offset + at) // 1000)
            row.stack.append(known[some.stack[index]])
            row.state.append(some.state[index])
        skip = 0
    # Samples left out may have been the only ones of their stacks.
    used = {
        code: place
        for place, code in enumerate(sorted({code for row in rows.values() for code in row.stack}))
    }
    texts, frames = list(codes), dict[str, int]()
    return {
        "v": 1,
        "capture": about.capture,
        "agent": about.agent,
        "labels": dict(about.labels),
        "pid": about.pid,
        "start_ns": start_ns or 0,
        "period_us": periods[0][1] if periods else 0,
        "periods": periods,
        "dropped": dropped,
        "stacks": [
            [frames.setdefault(frame, len(frames)) for frame in split(Stack(texts[code]))] for code in used
        ],
        "frames": list(frames),
        "threads": [
            {
                "name": name if twin == 1 else f"{name} ({twin})",
                "at_us": row.at_us.tolist(),
                "stack": [used[code] for code in row.stack],
                "state": row.state.tolist(),
            }
            for (name, twin), row in sorted(rows.items())
        ],
    }
