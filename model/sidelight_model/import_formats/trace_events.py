"""Read Chrome's trace event JSON.

py-spy, viztracer and Perfetto's tools write it. The format is described in
https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. Events of a thread open (`B`)
and close (`E`) frames, or do both (`X`, with a duration). Each stack has the time until the next event of its
thread. Times are in microseconds. Events of other kinds (counters, names, flows) hold no stacks. A file may
lack its last `]`, because its program was killed.
"""

from __future__ import annotations

import json
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sidelight_model.folded import join_frames
from sidelight_model.frames import Frame, escape_frame
from sidelight_model.import_formats.folded_input import strip_root_ids
from sidelight_model.import_formats.weighted_stack import WeightedStack

NS_PER_US: Final = 1000.0
_CLOSE, _OPEN = 0, 1


class BadTrace(ValueError):
    """A text is not a trace of events."""


@dataclass(slots=True)
class TraceSummary:
    """What a reading left out, and the time that it covers (us)."""

    damaged_events: int = 0
    start_us: float = math.inf
    end_us: float = -math.inf

    @property
    def duration_ns(self) -> int:
        """The time from the first event to the last."""
        return round((self.end_us - self.start_us) * NS_PER_US) if self.end_us > self.start_us else 0


def is_trace(document: object) -> bool:
    """Return whether a JSON document is a trace of events."""
    if isinstance(document, dict):
        return isinstance(document.get("traceEvents"), list)
    return (
        isinstance(document, list)
        and bool(document)
        and isinstance(document[0], dict)
        and "ph" in document[0]
    )


def parse_trace_json(text: bytes) -> Any:
    """Parse JSON whose last `]` may be missing. Raises ValueError, RecursionError."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        if not text.lstrip().startswith(b"["):
            raise
    cut = text.rfind(b"}")
    return json.loads(text[: cut + 1] + b"]")


@dataclass(slots=True)
class _Thread:
    """The events of a thread.

    Each has its time, whether it opens, its order among equal times, its number and its frame.
    """

    events: list[tuple[float, int, float, int, str]] = field(default_factory=list)
    has_durations: bool = False


def iter_trace_stacks(document: Any, summary: TraceSummary) -> Iterator[WeightedStack]:
    """Yield the stacks of all threads, with weights in nanoseconds.

    Events that cannot be read are counted in `summary`. Raises BadTrace if there are no others.
    """
    events = document["traceEvents"] if isinstance(document, dict) else document
    threads: dict[tuple[str, str], _Thread] = defaultdict(_Thread)
    for number, event in enumerate(events):
        try:
            _add_event(event, number, threads)
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
            summary.damaged_events += 1
    if not threads:
        raise BadTrace("it has no events with stacks (B, E or X)")
    for thread in threads.values():
        yield from _iter_thread(thread, summary)


def _add_event(event: Mapping[str, Any], number: int, threads: Mapping[tuple[str, str], _Thread]) -> None:
    phase = event["ph"]
    if phase not in ("B", "E", "X"):
        return
    at = float(event["ts"])
    duration = float(event.get("dur") or 0) if phase == "X" else 0.0
    if not (math.isfinite(at) and 0 <= duration < math.inf):
        raise ValueError("a time is not finite")
    thread = threads[str(event.get("pid")), str(event.get("tid"))]
    text = "" if phase == "E" else escape_frame(_format_frame(event))
    if phase == "X" and duration:
        # Of equal times, frames close before others open, the longer ones open first and close last.
        thread.has_durations = True
        thread.events.append((at, _OPEN, -duration, -number, text))
        thread.events.append((at + duration, _CLOSE, duration, number, text))
    elif phase != "X":
        thread.events.append((at, _OPEN if phase == "B" else _CLOSE, 0.0, number, text))


def _iter_thread(thread: _Thread, summary: TraceSummary) -> Iterator[WeightedStack]:
    if not thread.events:
        return
    if thread.has_durations:
        events = sorted(thread.events)
    else:
        events = sorted(thread.events, key=lambda event: (event[0], event[3]))
    summary.start_us = min(summary.start_us, events[0][0])
    summary.end_us = max(summary.end_us, events[-1][0])
    opened: list[str] = []
    frames: list[str] = []
    last = events[0][0]
    for at, kind, _, _, text in events:
        if at > last and (stack := join_frames(filter(None, frames))):
            yield WeightedStack(stack, "", (at - last) * NS_PER_US)
        last = at
        if kind == _OPEN:
            frames.append(strip_root_ids(text) if len(frames) <= 1 else text)
            opened.append(text)
        elif opened and text in ("", opened[-1]):
            opened.pop()
            frames.pop()
        else:
            summary.damaged_events += 1
    summary.damaged_events += len(opened)


def _format_frame(event: Mapping[str, Any]) -> str:
    name, arguments = event["name"], event.get("args")
    if not isinstance(name, str):
        raise TypeError("a name is no text")
    file, line = "", 0
    if isinstance(arguments, dict):
        file = arguments.get("filename") or ""
        line = arguments.get("line") or 0
    if not isinstance(file, str) or type(line) is not int:
        file, line = "", 0
    return Frame(name or "(no name)", file, max(line, 0)).text
