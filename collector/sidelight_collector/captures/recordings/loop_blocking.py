"""How long callbacks held the event loops of a capture at a time, from its recordings.

A stretch is samples of a loop's thread that follow each other and are all held by one function (see
`statistics.event_loop`); where the loop is not seen to wait, two calls of one function in a row are one
stretch. It is known to a period at either end. Where samples are missing a stretch is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, TypedDict

from sidelight_collector.captures.recordings.recording_files import Recording, Thread, runs
from sidelight_collector.captures.recordings.subsecond_heatmap import Recordings, Told
from sidelight_collector.statistics.event_loop import OUTSIDE, WAITS, held
from sidelight_model.frames import Frame, unescape, without_line
from sidelight_model.tree import build, ends

STRETCHES: Final = 20


class Stretch(TypedDict):
    """How long one function held a loop; times are microseconds since the start."""

    recording: str
    thread: str
    function: str
    file: str
    from_us: int
    until_us: int


class LoopThread(TypedDict):
    """A thread of an event loop: what was seen of it, how much of that it was held, longest at a time."""

    recording: str
    thread: str
    observed_us: int
    busy_us: int
    longest_busy_us: int


class Holds(TypedDict):
    """The loops of a capture, busiest first, and the longest stretches in which one function held one."""

    capture: str
    start: float
    threads: list[LoopThread]
    blocking_spans: list[Stretch]
    recordings: list[Told]


@dataclass(frozen=True, slots=True)
class _Span:
    """Time in which a loop was one thing: the holder (`WAITS`, `OUTSIDE`), from when until when."""

    part: int
    from_us: int
    until_us: int

    @property
    def us(self) -> int:
        return self.until_us - self.from_us


def holds(recordings: Recordings, limit: int = STRETCHES) -> Holds:
    """Who held the loops, and how long."""
    told: list[Told] = []
    threads: list[LoopThread] = []
    longest: list[Stretch] = []
    for one, recording, shift in recordings.each():
        told.append(one)
        for thread in recording.threads:
            stacks = sorted(set(thread.stack))
            found = _held(recording, stacks)
            if found is None:
                continue
            parts, holders = found
            part = dict(zip(stacks, parts, strict=True))
            spans = list(_joined(_spans(recording, thread, part)))
            threads.append(_thread(one["name"], thread.name, spans))
            frames = [Frame.parse(unescape(text)) for text in holders]
            longest += [
                {
                    "recording": one["name"],
                    "thread": thread.name,
                    "function": frames[span.part].function,
                    "file": frames[span.part].file,
                    "from_us": span.from_us + shift,
                    "until_us": span.until_us + shift,
                }
                for span in nlargest(
                    limit, (span for span in spans if span.part >= 0), key=lambda span: span.us
                )
            ]
    longest.sort(key=lambda one: (one["from_us"] - one["until_us"], one["from_us"]))
    return {
        "capture": recordings.capture,
        "start": float(recordings.start),
        "threads": sorted(threads, key=lambda one: -one["busy_us"] / max(one["observed_us"], 1)),
        "blocking_spans": longest[:limit],
        "recordings": told,
    }


def _held(recording: Recording, stacks: Sequence[int]) -> tuple[list[int], Sequence[str]] | None:
    """For each stack its part of a loop, and the holders; None for a thread of no loop."""
    spelled = [[without_line(recording.frames[at]) for at in recording.stacks[stack]] for stack in stacks]
    tree = build([((frames, 1, 1) for frames in spelled)])
    found = held(tree.names, tree.level, tree.name)
    if not found.found:
        return None
    return [int(found.part[node]) for node in ends(tree, spelled)], found.holders


def _spans(recording: Recording, thread: Thread, part: dict[int, int]) -> Iterator[_Span]:
    for begin, end, stack, _ in runs(thread, recording.periods or [(0, recording.period_us)]):
        yield _Span(part[stack], begin, end)


def _joined(spans: Iterator[_Span]) -> Iterator[_Span]:
    """Those of one part that follow each other without a gap are one."""
    last: _Span | None = None
    for span in spans:
        if last and last.part == span.part and last.until_us >= span.from_us:
            last = _Span(last.part, last.from_us, span.until_us)
            continue
        if last:
            yield last
        last = span
    if last:
        yield last


def _thread(recording: str, thread: str, spans: Sequence[_Span]) -> LoopThread:
    busy = [span for span in spans if span.part >= 0]
    whole = _joined(_Span(min(span.part, 0), span.from_us, span.until_us) for span in spans)
    return {
        "recording": recording,
        "thread": thread,
        "observed_us": sum(span.us for span in spans if span.part != OUTSIDE),
        "busy_us": sum(span.us for span in busy),
        "longest_busy_us": max((span.us for span in whole if span.part not in (WAITS, OUTSIDE)), default=0),
    }
