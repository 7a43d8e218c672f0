"""What processes did in the order of time: kept as sidecars send it, listed, and drawn by speedscope.

A recording has every sample of one process in a capture: docs/formats.md says what it looks like.
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
from sidelight_collector.decompress import unpack
from sidelight_collector.times import rfc3339
from sidelight_model.errors import BadLabel
from sidelight_model.export_formats.speedscope import speedscope_frame
from sidelight_model.labels import Labels

FORMAT: Final = 1
IDLE: Final = 0
"""The state of a sample of a thread that waited; 1 ran, 2 ran and held the GIL."""
LAST_US: Final = 2**62
_STATES: Final = frozenset((0, 1, 2))
_SCHEMA: Final = "https://www.speedscope.app/file-format-schema.json"
_HINT: Final = "This is for sidecars: docs/formats.md says what a recording is."


class Listed(TypedDict):
    """A recording in short."""

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
class Thread:
    """The samples of one thread in the order of time: microseconds since the start, stacks, states."""

    name: str
    at_us: Sequence[int]
    stack: Sequence[int]
    state: Sequence[int]


@dataclass(frozen=True, slots=True)
class Recording:
    """The samples of one process; stacks are of indices of frames, the root first."""

    capture: str
    agent: str
    labels: Labels
    pid: int
    start_ns: int
    period_us: int
    dropped: int
    frames: Sequence[str]
    stacks: Sequence[Sequence[int]]
    threads: Sequence[Thread]
    periods: Sequence[tuple[int, int]] = ()
    """Where the rate changed: since when (microseconds) a sample stands for how many."""

    @property
    def samples(self) -> int:
        return sum(len(thread.at_us) for thread in self.threads)

    @property
    def end_us(self) -> int:
        """When the last sample's period is over."""
        return max((one.at_us[-1] + self.period_us for one in self.threads if one.at_us), default=0)


def read_recording(text: bytes) -> Recording:
    """A recording as a sidecar sends it, checked to its last number. Raises BadBody."""
    try:
        raw = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise BadBody(f"the recording is not JSON: {error}", hint=_HINT) from error
    try:
        if raw["v"] != FORMAT:
            raise _bad(f"it is in format {raw['v']!r:.20}, and this version reads {FORMAT}")
        frames, stacks = raw["frames"], raw["stacks"]
        if not all(type(one) is str for one in frames):
            raise _bad("a frame is not text")
        most = len(frames)
        if not all(type(at) is int and 0 <= at < most for stack in stacks for at in stack):
            raise _bad("a stack names a frame that there is not")
        recording = Recording(
            str(raw["capture"]),
            str(raw["agent"]),
            Labels.check({name: value for name, value in raw["labels"].items() if value}),
            _whole(raw, "pid"),
            _whole(raw, "start_ns"),
            _whole(raw, "period_us"),
            _whole(raw, "dropped"),
            frames,
            stacks,
            [_thread(one, len(stacks)) for one in raw["threads"]],
            _periods(raw.get("periods", [])),
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _bad(f"{type(error).__name__}: {error}") from error
    except BadLabel as error:
        raise BadBody(error.message, hint=error.hint) from error
    if not recording.period_us:
        raise _bad("period_us is 0")
    return recording


def _periods(raw: list[Any]) -> list[tuple[int, int]]:
    periods = [(at, period) for at, period in raw]
    if not all(type(at) is type(period) is int and at >= 0 and period > 0 for at, period in periods):
        raise _bad("a period is not two numbers of microseconds")
    if any(one[0] >= two[0] for one, two in pairwise(periods)):
        raise _bad("periods go back")
    return periods


def _thread(raw: dict[str, Any], stacks: int) -> Thread:
    at_us, stack, state = raw["at_us"], raw["stack"], raw["state"]
    if not len(at_us) == len(stack) == len(state):
        raise _bad("a thread has not as many times, stacks and states")
    if not all(type(at) is int and 0 <= at < 2**53 for at in at_us):
        raise _bad("a time is not a number of microseconds since the start")
    if any(one > two for one, two in pairwise(at_us)):
        raise _bad("times go back")
    if not all(type(at) is int and 0 <= at < stacks for at in stack):
        raise _bad("a sample names a stack that there is not")
    if not _STATES.issuperset(state):
        raise _bad("a state is not 0, 1 or 2")
    return Thread(str(raw["name"])[:200], at_us, stack, state)


def packed(body: bytes, encoding: str, text: bytes) -> bytes:
    """A checked recording as it is kept: compressed with zstd."""
    if encoding.strip().lower() == "zstd":
        return body
    return zstandard.ZstdCompressor(level=3).compress(text)


def unpacked(content: bytes, max_bytes: int) -> Recording:
    """A recording as it was kept. Raises LimitExceeded, BadBody."""
    return read_recording(unpack(content, "zstd", max_bytes))


def in_short(recording: Recording, name: str, size: int, labels: Labels) -> bytes:
    """What a list says of a recording, as JSON."""
    listed: Listed = {
        "name": name,
        "labels": dict(labels),
        "pid": recording.pid,
        "samples": recording.samples,
        "start": rfc3339(recording.start_ns),
        "seconds": round(recording.end_us / 1e6, 3),
        "threads": len(recording.threads),
        "dropped": recording.dropped,
        "bytes": size,
    }
    return orjson.dumps(listed)


def speedscope(recording: Recording, title: str, most: int) -> bytes:
    """A sampled profile in the order of time for each thread, as speedscope reads it, in microseconds.

    Samples that follow each other with the same stack and state are one. A thread that waited has `[idle]` on
    top. Of more than `most` frames in all samples the end is left out, and the profile's name says so.
    """
    frames = [speedscope_frame(frame) for frame in recording.frames]
    idle = len(frames)
    frames.append({"name": "[idle]"})
    profiles = []
    share = most // max(1, len(recording.threads))
    for thread in recording.threads:
        if not thread.at_us:
            continue
        samples: list[Sequence[int]] = []
        weights: list[int] = []
        room, end_us = share, 0
        for start, end, stack, state in runs(thread, recording.periods or [(0, recording.period_us)]):
            drawn = [*recording.stacks[stack], idle] if state == IDLE else recording.stacks[stack]
            room -= len(drawn)
            if room < 0:
                break
            if start > end_us:
                # Nothing is known of the time between.
                samples.append(())
                weights.append(start - end_us)
            samples.append(drawn)
            weights.append(end - start)
            end_us = end
        cut = f" (only until {end_us / 1e6:.1f} s: the rest is too much to draw)" if room < 0 else ""
        profiles.append(
            {
                "type": "sampled",
                "name": f"{thread.name}{cut}",
                "unit": "microseconds",
                "startValue": 0,
                "endValue": end_us,
                "samples": samples,
                "weights": weights,
            }
        )
    return orjson.dumps(
        {
            "$schema": _SCHEMA,
            "exporter": f"sidelight {sidelight.__version__}",
            "name": title,
            "activeProfileIndex": 0,
            "shared": {"frames": frames},
            "profiles": profiles,
        }
    )


def runs(thread: Thread, periods: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int, int, int]]:
    """Samples that follow each other alike, as one: from, until (microseconds), stack, state.

    A sample lasts until the next, and at most two periods (given with when each began): longer, and samples
    are missing between.
    """
    begun: list[int] = []
    end = 0
    later = list(periods[:0:-1])
    period_us = periods[0][1]
    samples = zip(thread.at_us, thread.stack, thread.state, strict=True)
    ends = [*thread.at_us[1:], LAST_US]
    for (at, stack, state), following in zip(samples, ends, strict=True):
        while later and later[-1][0] <= at:
            period_us = later.pop()[1]
        if begun and (begun[1] != stack or begun[2] != state or at > end):
            yield begun[0], end, begun[1], begun[2]
            begun = []
        if not begun:
            begun = [at, stack, state]
        end = following if following <= at + 2 * period_us else at + period_us
    if begun:
        yield begun[0], end, begun[1], begun[2]


def _whole(raw: dict[str, Any], name: str) -> int:
    value = raw[name]
    if type(value) is not int or not 0 <= value < 2**63:
        raise _bad(f"{name} is not a whole number")
    return value


def _bad(problem: str) -> BadBody:
    return BadBody(f"the recording cannot be used: {problem}", hint=_HINT)
