"""Timeline recordings: a capture's samples of one process in time order.

Memory is bounded for all recordings together (`RecordingBudget`): if they do not fit, the largest recording
drops its oldest samples. The encoded recording is bounded too, compressed and uncompressed: again the
oldest samples are left out. A recording says how many samples it dropped.
"""

from __future__ import annotations

import json
from array import array
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import zstandard

from sidelight_model.folded import Stack, split_stack
from sidelight_sidecar.samplers.timed_samples import TimedSamples, decode_timed_samples

MAX_TEXT_BYTES = 64 << 20
"""Maximum size of a recording before compression."""
_MIN_SAMPLE_BYTES = 6
_SHRINK_FACTOR = 0.9


class RecordingBudget:
    """The memory of all recordings; `on_change` is called with the bytes in use."""

    def __init__(self, max_bytes: int, on_change: Callable[[int], None] = lambda used: None) -> None:
        self._max_bytes = max_bytes
        self._on_change = on_change
        self._recordings: list[TimelineRecording] = []

    @property
    def used_bytes(self) -> int:
        return sum(recording.size for recording in self._recordings)

    def open_recording(self) -> TimelineRecording:
        """Open a recording, which counts until it is closed."""
        recording = TimelineRecording(self)
        self._recordings.append(recording)
        return recording

    def release(self, recording: TimelineRecording) -> None:
        if recording in self._recordings:
            self._recordings.remove(recording)
        self._on_change(self.used_bytes)

    def enforce(self) -> None:
        while self.used_bytes > self._max_bytes:
            max(self._recordings, key=lambda recording: recording.size).drop_oldest()
        self._on_change(self.used_bytes)


class TimelineRecording:
    """The timed samples of one process, as far as there is room."""

    def __init__(self, budget: RecordingBudget) -> None:
        self._budget = budget
        self._batches: deque[TimedSamples] = deque()
        self.size = 0
        self.samples = 0
        self.dropped = 0

    @property
    def batches(self) -> Sequence[TimedSamples]:
        return tuple(self._batches)

    def add(self, timed_samples: TimedSamples) -> None:
        self.dropped += timed_samples.dropped
        if timed_samples.samples:
            self._batches.append(timed_samples)
            self.samples += timed_samples.samples
            self.size += timed_samples.size
            self._budget.enforce()

    def drop_oldest(self) -> None:
        """Drop the oldest batch."""
        oldest = self._batches.popleft()
        self.size -= oldest.size
        self.samples -= oldest.samples
        self.dropped += oldest.samples

    def close(self) -> None:
        """Discard the samples and release their memory."""
        self._batches.clear()
        self.size = 0
        self._budget.release(self)


@dataclass(frozen=True, slots=True)
class RecordingSource:
    """The capture, the sidecar, the labels and the process of a recording."""

    capture: str
    agent: str
    labels: Mapping[str, str]
    pid: int


@dataclass(frozen=True, slots=True)
class EncodedRecording:
    """A compressed recording, with its numbers of contained and dropped samples."""

    body: bytes
    samples: int
    dropped: int


@dataclass(slots=True)
class _ThreadSamples:
    at_us: array[int] = field(default_factory=lambda: array("q"))
    stack: array[int] = field(default_factory=lambda: array("I"))
    state: array[int] = field(default_factory=lambda: array("B"))


def encode_recording(
    batches: Sequence[TimedSamples],
    source: RecordingSource,
    *,
    dropped: int,
    max_bytes: int,
    max_text_bytes: int = MAX_TEXT_BYTES,
) -> EncodedRecording | None:
    """Encode the newest samples that fit; None if there are none."""
    total_samples = sum(batch.samples for batch in batches)
    count = min(total_samples, max_text_bytes // _MIN_SAMPLE_BYTES)
    while count > 0:
        text = json.dumps(
            _build_document(batches, source, total_samples - count, dropped + total_samples - count),
            separators=(",", ":"),
        ).encode()
        body = zstandard.ZstdCompressor(level=3).compress(text)
        share = min(max_bytes / len(body), max_text_bytes / len(text))
        if share >= 1:
            return EncodedRecording(body, count, dropped + total_samples - count)
        count = int(count * share * _SHRINK_FACTOR)
    return None


def _build_document(
    batches: Sequence[TimedSamples], source: RecordingSource, skipped_samples: int, dropped: int
) -> Mapping[str, object]:
    """Build the recording without its first `skipped_samples`."""
    rows: dict[tuple[str, int], _ThreadSamples] = {}
    codes: dict[str, int] = {}
    periods: list[list[int]] = []
    start_ns = start_monotonic_ns = None
    for batch in batches:
        if skipped_samples >= batch.samples:
            skipped_samples -= batch.samples
            continue
        columns = decode_timed_samples(batch)
        if start_monotonic_ns is None or start_ns is None:
            start_monotonic_ns = columns.monotonic_ns + columns.offsets_ns[skipped_samples]
            start_ns = columns.start_ns + columns.offsets_ns[skipped_samples]
        offset = columns.monotonic_ns - start_monotonic_ns
        period_us = round(batch.period_ns / 1000)
        if not periods or periods[-1][1] != period_us:
            periods.append([max(0, offset) // 1000, period_us])
        batch_codes = [codes.setdefault(stack, len(codes)) for stack in columns.stacks]
        tick, twins = -1, dict[int, int]()
        for index in range(skipped_samples, batch.samples):
            at, thread = columns.offsets_ns[index], columns.thread[index]
            if at != tick:
                tick, twins = at, {}
            # Two threads may have the same name: the second thread at a tick gets its own row.
            twin = twins[thread] = twins.get(thread, 0) + 1
            row = rows.get((columns.threads[thread], twin))
            if row is None:
                row = rows[columns.threads[thread], twin] = _ThreadSamples()
            row.at_us.append((offset + at) // 1000)
            row.stack.append(batch_codes[columns.stack[index]])
            row.state.append(columns.state[index])
        skipped_samples = 0
    # Stacks may occur only in samples that were left out.
    used = {
        code: index
        for index, code in enumerate(sorted({code for row in rows.values() for code in row.stack}))
    }
    texts, frames = list(codes), dict[str, int]()
    return {
        "v": 1,
        "capture": source.capture,
        "agent": source.agent,
        "labels": dict(source.labels),
        "pid": source.pid,
        "start_ns": start_ns or 0,
        "period_us": periods[0][1] if periods else 0,
        "periods": periods,
        "dropped": dropped,
        "stacks": [
            [frames.setdefault(frame, len(frames)) for frame in split_stack(Stack(texts[code]))]
            for code in used
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
