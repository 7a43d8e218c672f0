"""How long callbacks blocked the event loops of a capture, from its recordings.

A blocking span is a run of consecutive samples of a loop's thread in which one function blocks the loop
(see `statistics.event_loop`). Two calls of the function in a row are one span if no sample shows the loop
waiting between them. Each end of a span is accurate to one sampling period. Missing samples end a span.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest
from itertools import chain
from typing import Final, TypedDict

from sidelight_collector.captures.recordings.recording_files import (
    CaptureRecording,
    RecordedThread,
    merge_into_runs,
)
from sidelight_collector.captures.recordings.subsecond_heatmap import CaptureRecordings, RecordingSpan
from sidelight_collector.statistics.event_loop.loop_attribution import (
    LOOP_WAITING,
    OUTSIDE_LOOP,
    attribute_loop_time,
)
from sidelight_model.frames import Frame, strip_line_number, unescape_frame

DEFAULT_MAX_SPANS: Final = 20


class BlockingSpan(TypedDict):
    """A time in which one function blocked a loop, in microseconds since the start."""

    recording: str
    thread: str
    function: str
    file: str
    from_us: int
    until_us: int


class LoopThread(TypedDict):
    """The thread of an event loop: time observed, time busy, longest busy time."""

    recording: str
    thread: str
    observed_us: int
    busy_us: int
    longest_busy_us: int


class LoopBlocking(TypedDict):
    """The loops of a capture, busiest first, and the longest blocking spans."""

    capture: str
    start: float
    threads: list[LoopThread]
    blocking_spans: list[BlockingSpan]
    recordings: list[RecordingSpan]


@dataclass(frozen=True, slots=True)
class _LoopSpan:
    """A time in which a loop had one state.

    `holder` is an index into the blocking functions, or `LOOP_WAITING` or `OUTSIDE_LOOP`.
    """

    holder: int
    from_us: int
    until_us: int

    @property
    def duration_us(self) -> int:
        return self.until_us - self.from_us


def measure_loop_blocking(recordings: CaptureRecordings, limit: int = DEFAULT_MAX_SPANS) -> LoopBlocking:
    """Measure which functions blocked the event loops of a capture, and how long.

    Returns at most `limit` blocking spans.
    """
    recording_spans: list[RecordingSpan] = []
    threads: list[LoopThread] = []
    longest: list[BlockingSpan] = []
    for recording_span, recording, shift in recordings.iter_loaded():
        recording_spans.append(recording_span)
        for thread in recording.threads:
            stacks = sorted(set(thread.stack))
            result = _find_holders(recording, stacks)
            if result is None:
                continue
            holder_ids, holders = result
            holder_of_stack = dict(zip(stacks, holder_ids, strict=True))
            spans = list(_merge_adjacent(_iter_spans(recording, thread, holder_of_stack)))
            threads.append(_summarize_thread(recording_span["name"], thread.name, spans))
            frames = [Frame.parse(unescape_frame(text)) for text in holders]
            longest += [
                {
                    "recording": recording_span["name"],
                    "thread": thread.name,
                    "function": frames[span.holder].function,
                    "file": frames[span.holder].file,
                    "from_us": span.from_us + shift,
                    "until_us": span.until_us + shift,
                }
                for span in nlargest(
                    limit, (span for span in spans if span.holder >= 0), key=lambda span: span.duration_us
                )
            ]
    longest.sort(key=lambda span: (span["from_us"] - span["until_us"], span["from_us"]))
    return {
        "capture": recordings.capture_id,
        "start": float(recordings.start),
        "threads": sorted(threads, key=lambda thread: -thread["busy_us"] / max(thread["observed_us"], 1)),
        "blocking_spans": longest[:limit],
        "recordings": recording_spans,
    }


def _find_holders(
    recording: CaptureRecording, stacks: Sequence[int]
) -> tuple[list[int], Sequence[str]] | None:
    """Return the holder of each stack, and the names of the blocking functions.

    None for a thread that runs no loop.
    """
    frame_lists = [
        [strip_line_number(recording.frames[at]) for at in recording.stacks[stack]] for stack in stacks
    ]
    code_of = {name: code for code, name in enumerate(dict.fromkeys(chain.from_iterable(frame_lists)))}
    coded = [[code_of[name] for name in frames] for frames in frame_lists]
    loop_time = attribute_loop_time(list(code_of), lambda classes, automaton: automaton.walk(coded, classes))
    return (loop_time.blocker_ids.tolist(), loop_time.blockers) if loop_time.has_loop else None


def _iter_spans(
    recording: CaptureRecording, thread: RecordedThread, holder_of_stack: dict[int, int]
) -> Iterator[_LoopSpan]:
    for begin, end, stack, _ in merge_into_runs(thread, recording.periods or [(0, recording.period_us)]):
        yield _LoopSpan(holder_of_stack[stack], begin, end)


def _merge_adjacent(spans: Iterator[_LoopSpan]) -> Iterator[_LoopSpan]:
    """Merge consecutive spans that have the same holder and no gap between them."""
    last: _LoopSpan | None = None
    for span in spans:
        if last and last.holder == span.holder and last.until_us >= span.from_us:
            last = _LoopSpan(last.holder, last.from_us, span.until_us)
            continue
        if last:
            yield last
        last = span
    if last:
        yield last


def _summarize_thread(recording: str, thread: str, spans: Sequence[_LoopSpan]) -> LoopThread:
    busy = [span for span in spans if span.holder >= 0]
    merged = _merge_adjacent(_LoopSpan(min(span.holder, 0), span.from_us, span.until_us) for span in spans)
    return {
        "recording": recording,
        "thread": thread,
        "observed_us": sum(span.duration_us for span in spans if span.holder != OUTSIDE_LOOP),
        "busy_us": sum(span.duration_us for span in busy),
        "longest_busy_us": max(
            (span.duration_us for span in merged if span.holder not in (LOOP_WAITING, OUTSIDE_LOOP)),
            default=0,
        ),
    }
