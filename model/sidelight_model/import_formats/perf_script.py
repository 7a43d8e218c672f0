"""Read the text that `perf script` prints (man perf-script).

Each sample is a line with its thread, time, period and event, the lines of its frames with the leaf first,
and an empty line:

    python  4132 42997.600123:   10101010 cpu-clock:
            ffffffff816b9856 ksys_write+0x66 ([kernel.kallsyms])
                          85 py::render:/srv/shop.py+0x5 (/tmp/perf-4132.map)

The fields before the event may be missing (`-F`). Without call graphs, the one frame follows the event.

- A block is one sample, whatever its period is. The periods of `cpu-clock` and `task-clock` are nanoseconds;
  those of `cycles` are no time.
- `py::function:file` is a function of Python, which the interpreter's `-X perf` and `-X perf_jit` write.
- A function of a library or of the kernel has it as its file.
- The thread's name is the first frame, without its number.

Samples of other events count as left out. A file with no others is no profile of time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from sidelight_model.errors import BadFolded, Reason, SidelightError
from sidelight_model.folded import Stack, join_frames
from sidelight_model.frames import NO_FRAMES, Frame, escape_frame
from sidelight_model.import_formats.folded_input import (
    MAX_LISTED_LINES,
    MAX_UNREADABLE_SHARE,
    UnreadableLines,
)

_CLOCKS: Final = frozenset({"cpu-clock", "task-clock"})
_TIME_EVENTS: Final = _CLOCKS | {"cycles", "cpu-cycles", "ref-cycles", "bus-cycles"}
_MAX_LINE: Final = 8192
_MAX_DIGITS: Final = 18
_HEADER: Final = re.compile(
    r"\s*(?P<thread>\S.{0,63}?)\s{1,64}(?:-?[0-9]{1,10}/)?-?[0-9]{1,10}\s+(?:\[[0-9]{1,6}\]\s+)?"
    r"(?:(?P<time>[0-9]{1,12}\.[0-9]{1,9}):\s+)?(?:(?P<period>[0-9]{1,18})\s+)?"
    r"(?P<event>[^\s:][^\s]*):(?P<rest>\s.*)?$"
)
_FRAME: Final = re.compile(r"\s+[0-9a-f]{1,16} (?P<symbol>\S.*?) \((?P<object>[^()]*(?:\([^()]*\))?)\)\s*$")
_OFFSET: Final = re.compile(r"\+0x[0-9a-f]+$")
_EVENT_NAME: Final = re.compile(r"(?:[a-z_]+/)?([a-z-]+)")
_PYTHON_PREFIX: Final = "py::"
_UNKNOWN: Final = "[unknown]"
_INLINED: Final = "inlined"


class NoTimeInPerf(SidelightError):
    """A recording of perf holds other events than time."""

    reason = Reason.BAD_FOLDED


@dataclass(slots=True)
class PerfSummary:
    """What a reading left out, the events, and the times of the samples (s)."""

    damaged_lines: int = 0
    errors: list[BadFolded] = field(default_factory=list)
    other_samples: int = 0
    other_events: set[str] = field(default_factory=set)
    start_seconds: float = 0.0
    end_seconds: float = 0.0

    @property
    def duration_ns(self) -> int:
        return round((self.end_seconds - self.start_seconds) * 1e9)

    @property
    def unreadable_lines(self) -> UnreadableLines:
        return UnreadableLines(self.damaged_lines, tuple(self.errors))

    def add_damage(self, number: int, problem: str) -> None:
        self.damaged_lines += 1
        if len(self.errors) < MAX_LISTED_LINES:
            self.errors.append(BadFolded(number, problem))


@dataclass(frozen=True, slots=True)
class PerfSample:
    """A sample; `period_ns` is 0 if its period is no time."""

    stack: Stack
    period_ns: int


def is_perf_script(content: bytes) -> bool:
    """Return whether text begins with a sample of perf: its header and a frame."""
    lines = [
        line
        for line in content[: 4 * _MAX_LINE].decode("utf-8", "replace").split("\n")[:100]
        if line.strip() and not line.startswith("#")
    ]
    header = _match_header(lines[0]) if lines else None
    if header is None:
        return False
    if _FRAME.match(header["rest"] or ""):
        return True
    return header["time"] is not None or (len(lines) > 1 and _FRAME.match(lines[1]) is not None)


def iter_perf_samples(content: bytes, summary: PerfSummary) -> Iterator[PerfSample]:
    """Yield the samples of time. What is left out is counted in `summary`.

    Raises NoTimeInPerf if all samples are of other events, and BadFolded if too many lines are unreadable.
    """
    texts: dict[str, str] = {}
    header: re.Match[str] | None = None
    frames: list[str] = []
    number = count = 0
    for number, raw in enumerate(content.split(b"\n"), 1):
        line = raw.decode("utf-8", "replace").rstrip("\r")
        if line.startswith("#"):
            continue
        if header is not None and line[:1] in ("\t", " ") and (text := _read_frame(line, texts)):
            frames.append(text)
            continue
        if not line.strip():
            if header is not None and (sample := _build_sample(header, frames, summary)):
                count += 1
                yield sample
            header, frames = None, []
            continue
        found = _match_header(line)
        if found is None:
            summary.add_damage(number, f"a sample or a frame of perf was expected: {line.strip()[:60]!r}")
            continue
        if header is not None and (sample := _build_sample(header, frames, summary)):
            count += 1
            yield sample
        header, frames = found, []
        if text := _read_frame(header["rest"] or "", texts):
            frames.append(text)
    if header is not None and (sample := _build_sample(header, frames, summary)):
        count += 1
        yield sample
    # A cut file has one damaged line more than a whole one.
    if summary.damaged_lines > max(1, int(number * MAX_UNREADABLE_SHARE)):
        raise summary.errors[0]
    if not count and summary.other_events:
        raise NoTimeInPerf(
            f"its samples are of {', '.join(sorted(summary.other_events))[:80]}, not of time",
            hint="Record time: perf record -e cpu-clock, or cycles.",
        )


def _match_header(line: str) -> re.Match[str] | None:
    return _HEADER.match(line[:_MAX_LINE])


def _build_sample(header: re.Match[str], frames: list[str], summary: PerfSummary) -> PerfSample | None:
    """Return the sample, or None if it is of no time. `frames` have the leaf first."""
    name = _EVENT_NAME.match(header["event"])
    event = name[1] if name else ""
    if event not in _TIME_EVENTS:
        summary.other_samples += 1
        if len(summary.other_events) < MAX_LISTED_LINES:
            summary.other_events.add(header["event"][:40])
        return None
    if header["time"]:
        seconds = float(header["time"])
        summary.start_seconds = min(summary.start_seconds or seconds, seconds)
        summary.end_seconds = max(summary.end_seconds, seconds)
    thread = escape_frame(f"thread {header['thread']}")
    stack = join_frames([thread, *reversed(frames)] if frames else [thread, NO_FRAMES])
    return PerfSample(stack, int(header["period"] or 0) if event in _CLOCKS else 0)


def _read_frame(line: str, texts: dict[str, str]) -> str:
    """Return the frame of a line, or nothing. `texts` are those of the lines so far."""
    text = texts.get(line)
    if text is None:
        match = _FRAME.match(line) if len(line) <= _MAX_LINE else None
        text = texts[line] = escape_frame(_format_frame(match["symbol"], match["object"])) if match else ""
    return text


def _format_frame(symbol: str, location: str) -> str:
    """Return the text of a frame. `location` is a library or the kernel."""
    name = _OFFSET.sub("", symbol)
    if name.startswith(_PYTHON_PREFIX):
        function, _, file = name.removeprefix(_PYTHON_PREFIX).partition(":")
        return Frame(function or _UNKNOWN, file).text
    return Frame(name, "" if location in (_UNKNOWN, _INLINED) else location).text
