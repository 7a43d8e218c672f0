"""Timeline recordings: parsed, summarized, and exported for speedscope.

A recording has every sample of one process in a capture. docs/formats.md specifies the format.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypedDict

import orjson
import zstandard

import sidelight
from sidelight_collector.captures.capture_requests import BadBody
from sidelight_collector.decompress import decompress_body
from sidelight_collector.json_body import check_memory
from sidelight_collector.times import format_rfc3339
from sidelight_model.counts import ON_CPU_STATES, STATE_FRAMES, STATES
from sidelight_model.errors import BadLabel
from sidelight_model.export_formats.speedscope import to_speedscope_frame
from sidelight_model.labels import Labels

FORMAT: Final = 1
MAX_US: Final = 2**62
_VALID_STATES: Final = frozenset(range(len(STATES)))
_SPEEDSCOPE_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_FORMAT_HINT: Final = "This is for sidecars: docs/formats.md says what a recording is."
_MEMORY_HINT: Final = (
    "Capture for less long or at a lower rate, or raise the collector's "
    "--timeline-recording-max-memory-bytes."
)


class RecordingSummary(TypedDict):
    name: str
    labels: dict[str, str]
    pid: int
    samples: int
    start: str
    seconds: float
    threads: int
    dropped: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RecordedThread:
    """The samples of one thread in time order: time, stack and state.

    Times are in microseconds since the start; a stack is an index into the recording's stacks.
    """

    name: str
    at_us: Sequence[int]
    stack: Sequence[int]
    state: Sequence[int]


@dataclass(frozen=True, slots=True)
class CaptureRecording:
    """The samples of one process.

    A stack is a sequence of indices into `frames`, the root first.
    """

    capture_id: str
    agent: str
    labels: Labels
    pid: int
    start_ns: int
    period_us: int
    dropped: int
    frames: Sequence[str]
    stacks: Sequence[Sequence[int]]
    threads: Sequence[RecordedThread]
    periods: Sequence[tuple[int, int]] = ()
    """Changes of the sampling period: (since when, period), both in microseconds."""

    @property
    def sample_count(self) -> int:
        return sum(len(thread.at_us) for thread in self.threads)

    @property
    def end_us(self) -> int:
        """The end of the last sample's period, in microseconds since the start."""
        return max((thread.at_us[-1] + self.period_us for thread in self.threads if thread.at_us), default=0)


def parse_recording(text: bytes, max_memory_bytes: int) -> CaptureRecording:
    """Parse and fully validate a recording as a sidecar sends it.

    Raises BadBody, and LimitExceeded if its values may take more than `max_memory_bytes`.
    """
    check_memory(text, max_memory_bytes, _MEMORY_HINT)
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadBody(f"the recording is not JSON: {error}", hint=_FORMAT_HINT) from error
    try:
        if raw["v"] != FORMAT:
            raise _make_recording_error(f"it is in format {raw['v']!r:.20}, and this version reads {FORMAT}")
        frames, stacks = raw["frames"], raw["stacks"]
        if not all(type(frame) is str for frame in frames):
            raise _make_recording_error("a frame is not text")
        frame_count = len(frames)
        if not all(type(at) is int and 0 <= at < frame_count for stack in stacks for at in stack):
            raise _make_recording_error("a stack names a frame that there is not")
        recording = CaptureRecording(
            str(raw["capture"]),
            str(raw["agent"]),
            Labels.parse({name: value for name, value in raw["labels"].items() if value}),
            _parse_int(raw, "pid"),
            _parse_int(raw, "start_ns"),
            _parse_int(raw, "period_us"),
            _parse_int(raw, "dropped"),
            frames,
            stacks,
            [_parse_thread(thread, len(stacks)) for thread in raw["threads"]],
            _parse_periods(raw.get("periods", [])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _make_recording_error(f"{type(error).__name__}: {error}") from error
    except BadLabel as error:
        raise BadBody(error.message, hint=error.hint) from error
    if not recording.period_us:
        raise _make_recording_error("period_us is 0")
    return recording


def _parse_periods(raw: list[Any]) -> list[tuple[int, int]]:
    periods = [(at, period) for at, period in raw]
    if not all(type(at) is type(period) is int and at >= 0 and period > 0 for at, period in periods):
        raise _make_recording_error("a period is not two numbers of microseconds")
    if any(first[0] >= second[0] for first, second in pairwise(periods)):
        raise _make_recording_error("periods go back")
    return periods


def _parse_thread(raw: dict[str, Any], stacks: int) -> RecordedThread:
    at_us, stack, state = raw["at_us"], raw["stack"], raw["state"]
    if not len(at_us) == len(stack) == len(state):
        raise _make_recording_error("a thread has not as many times, stacks and states")
    if not all(type(at) is int and 0 <= at < 2**53 for at in at_us):
        raise _make_recording_error("a time is not a number of microseconds since the start")
    if any(first > second for first, second in pairwise(at_us)):
        raise _make_recording_error("times go back")
    if not all(type(at) is int and 0 <= at < stacks for at in stack):
        raise _make_recording_error("a sample names a stack that there is not")
    if not _VALID_STATES.issuperset(state):
        raise _make_recording_error(f"a state is not a number from 0 to {len(STATES) - 1}")
    return RecordedThread(str(raw["name"])[:200], at_us, stack, state)


def compress_recording(body: bytes, encoding: str, text: bytes) -> bytes:
    """Return a validated recording compressed with zstd, as it is stored."""
    if encoding.strip().lower() == "zstd":
        return body
    return zstandard.ZstdCompressor(level=3).compress(text)


def decompress_recording(content: bytes, max_bytes: int, max_memory_bytes: int) -> CaptureRecording:
    """Parse a stored recording.

    Raises LimitExceeded and BadBody.
    """
    return parse_recording(decompress_body(content, "zstd", max_bytes), max_memory_bytes)


def encode_summary(recording: CaptureRecording, name: str, stored_bytes: int, labels: Labels) -> bytes:
    """Encode the summary of a recording as JSON."""
    summary: RecordingSummary = {
        "name": name,
        "labels": dict(labels),
        "pid": recording.pid,
        "samples": recording.sample_count,
        "start": format_rfc3339(recording.start_ns),
        "seconds": round(recording.end_us / 1e6, 3),
        "threads": len(recording.threads),
        "dropped": recording.dropped,
        "bytes": stored_bytes,
    }
    return orjson.dumps(summary)


def render_speedscope(recording: CaptureRecording, title: str, max_frames: int) -> bytes:
    """Render a recording for speedscope: one sampled profile per thread.

    Times are in microseconds. Consecutive samples with the same stack and state become one. A thread on no
    CPU has its state, such as `[idle]`, on top of its stack. Beyond `max_frames` frames in all samples, the
    rest is cut off and the profile's name says so.
    """
    frames = [to_speedscope_frame(frame) for frame in recording.frames]
    state_frame = {}
    for number, name in enumerate(STATES):
        if name not in ON_CPU_STATES:
            state_frame[number] = len(frames)
            frames.append({"name": STATE_FRAMES[number]})
    profiles = []
    thread_frames = max_frames // max(1, len(recording.threads))
    for thread in recording.threads:
        if not thread.at_us:
            continue
        samples: list[Sequence[int]] = []
        weights: list[int] = []
        free_frames, end_us = thread_frames, 0
        for start, end, stack, state in merge_into_runs(
            thread, recording.periods or [(0, recording.period_us)]
        ):
            drawn = recording.stacks[stack]
            if state in state_frame:
                drawn = [*drawn, state_frame[state]]
            free_frames -= len(drawn)
            if free_frames < 0:
                break
            if start > end_us:
                # Samples are missing between the two.
                samples.append(())
                weights.append(start - end_us)
            samples.append(drawn)
            weights.append(end - start)
            end_us = end
        truncation_note = (
            f" (only until {end_us / 1e6:.1f} s: the rest is too much to draw)" if free_frames < 0 else ""
        )
        profiles.append(
            {
                "type": "sampled",
                "name": f"{thread.name}{truncation_note}",
                "unit": "microseconds",
                "startValue": 0,
                "endValue": end_us,
                "samples": samples,
                "weights": weights,
            }
        )
    return orjson.dumps(
        {
            "$schema": _SPEEDSCOPE_SCHEMA,
            "exporter": f"sidelight {sidelight.__version__}",
            "name": title,
            "activeProfileIndex": 0,
            "shared": {"frames": frames},
            "profiles": profiles,
        }
    )


def merge_into_runs(
    thread: RecordedThread, periods: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, int, int]]:
    """Merge equal consecutive samples into runs: from, until, stack, state.

    Times and `periods` (since when, period) are in microseconds. A sample lasts until the next, but at most
    two periods: a longer gap means that samples are missing, and the sample lasts one period.
    """
    run: list[int] = []
    end = 0
    upcoming = list(periods[:0:-1])
    period_us = periods[0][1]
    samples = zip(thread.at_us, thread.stack, thread.state, strict=True)
    ends = [*thread.at_us[1:], MAX_US]
    for (at, stack, state), following in zip(samples, ends, strict=True):
        while upcoming and upcoming[-1][0] <= at:
            period_us = upcoming.pop()[1]
        if run and (run[1] != stack or run[2] != state or at > end):
            yield run[0], end, run[1], run[2]
            run = []
        if not run:
            run = [at, stack, state]
        end = following if following <= at + 2 * period_us else at + period_us
    if run:
        yield run[0], end, run[1], run[2]


def _parse_int(raw: dict[str, Any], name: str) -> int:
    value = raw[name]
    if type(value) is not int or not 0 <= value < 2**63:
        raise _make_recording_error(f"{name} is not a whole number")
    return value


def _make_recording_error(problem: str) -> BadBody:
    return BadBody(f"the recording cannot be used: {problem}", hint=_FORMAT_HINT)
