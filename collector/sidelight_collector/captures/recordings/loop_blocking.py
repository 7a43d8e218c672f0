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

from sidelight_collector.captures.recordings.recording_files import (
    CaptureRecording,
    RecordedThread,
    merge_into_runs,
)
from sidelight_collector.captures.recordings.subsecond_heatmap import CaptureRecordings, RecordingSpan
from sidelight_collector.statistics.event_loop import LOOP_WAITING, OUTSIDE_LOOP, attribute_loop_time
from sidelight_model.frames import Frame, strip_line_number, unescape_frame
from sidelight_model.tree import build_tree_from_rows, find_end_nodes

DEFAULT_MAX_SPANS: Final = 20


class BlockingSpan(TypedDict):
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


class LoopBlocking(TypedDict):
    """The loops of a capture, busiest first, and the longest stretches in which one function held one."""

    capture: str
    start: float
    threads: list[LoopThread]
    blocking_spans: list[BlockingSpan]
    recordings: list[RecordingSpan]


@dataclass(frozen=True, slots=True)
class _LoopSpan:
    """Time in which a loop was one thing: the holder (`WAITS`, `OUTSIDE`), from when until when."""

    holder: int
    from_us: int
    until_us: int

    @property
    def duration_us(self) -> int:
        return self.until_us - self.from_us


def measure_loop_blocking(recordings: CaptureRecordings, limit: int = DEFAULT_MAX_SPANS) -> LoopBlocking:
    """Who held the loops, and how long."""
    told: list[RecordingSpan] = []
    threads: list[LoopThread] = []
    longest: list[BlockingSpan] = []
    for one, recording, shift in recordings.iter_loaded():
        told.append(one)
        for thread in recording.threads:
            stacks = sorted(set(thread.stack))
            found = _find_holders(recording, stacks)
            if found is None:
                continue
            parts, holders = found
            holder_of_stack = dict(zip(stacks, parts, strict=True))
            spans = list(_merge_adjacent(_iter_spans(recording, thread, holder_of_stack)))
            threads.append(_summarize_thread(one["name"], thread.name, spans))
            frames = [Frame.parse(unescape_frame(text)) for text in holders]
            longest += [
                {
                    "recording": one["name"],
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
    longest.sort(key=lambda one: (one["from_us"] - one["until_us"], one["from_us"]))
    return {
        "capture": recordings.capture_id,
        "start": float(recordings.start),
        "threads": sorted(threads, key=lambda one: -one["busy_us"] / max(one["observed_us"], 1)),
        "blocking_spans": longest[:limit],
        "recordings": told,
    }


def _find_holders(
    recording: CaptureRecording, stacks: Sequence[int]
) -> tuple[list[int], Sequence[str]] | None:
    """For each stack its part of a loop, and the holders; None for a thread of no loop."""
    frame_lists = [
        [strip_line_number(recording.frames[at]) for at in recording.stacks[stack]] for stack in stacks
    ]
    tree = build_tree_from_rows([((frames, 1, 1) for frames in frame_lists)])
    found = attribute_loop_time(tree.names, tree.level, tree.name_index)
    if not found.has_loop:
        return None
    return [int(found.blocker_ids[node]) for node in find_end_nodes(tree, frame_lists)], found.blockers


def _iter_spans(
    recording: CaptureRecording, thread: RecordedThread, holder_of_stack: dict[int, int]
) -> Iterator[_LoopSpan]:
    for begin, end, stack, _ in merge_into_runs(thread, recording.periods or [(0, recording.period_us)]):
        yield _LoopSpan(holder_of_stack[stack], begin, end)


def _merge_adjacent(spans: Iterator[_LoopSpan]) -> Iterator[_LoopSpan]:
    """Those of one part that follow each other without a gap are one."""
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
