"""Where in each second a capture was busy, and the flame graph of any span of it, from its recordings.

The heat map of sub-second offsets is Brendan Gregg's (FlameScope): a column for each second, in it a row for
each so many milliseconds, so that what happens for a moment or in a rhythm can be seen and picked out. Time
counts from `start`, the second of the clock in which the first recording begins: what happens on the second
lies in one row, and pods line up as well as their clocks do.

Recordings are read one after the other, so that a capture of many processes takes no more memory than one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NotRequired, TypedDict

from sidelight_collector.captures.recordings.recording_files import Recording
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.storage.tables import STATES
from sidelight_collector.times import SECOND_NS, parse_time
from sidelight_model.counts import ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.frames import unescape, without_line
from sidelight_model.tree import Row, Tree, build, prune

STEP_MS: Final = 20
LEAST_STEP_MS: Final = 5
MAX_CELLS: Final = 500_000
"""Beyond it a heat map is asked for with longer steps."""
LATEST_US: Final = 2**53
_US: Final = 1_000_000
_STATES: Final = {ProfileType.WALL: (0, 1, 2), ProfileType.CPU: (1, 2), ProfileType.GIL: (2,)}


class NoRecordings(SidelightError):
    """A capture has nothing in the order of time."""

    reason = Reason.NOT_FOUND

    def __init__(self, capture_id: str, name: str) -> None:
        what = f"recording {name[:80]!r}" if name else "recordings"
        super().__init__(
            f"the capture {capture_id} has no {what}",
            hint="Captures asked for in the order of time have them once they have ended, but not where the "
            "py-spy command samples. GET /api/v1/captures/ID/recordings lists them.",
        )


@dataclass(frozen=True, slots=True)
class Kept:
    """A recording as it is listed, and how to read it."""

    name: str
    listed: Mapping[str, Any]
    read: Callable[[], Recording]


class Told(TypedDict):
    """A recording that an answer stands on; `from_us` and `until_us` are since the start."""

    name: str
    labels: Mapping[str, str]
    pid: int
    samples: int
    dropped: int
    from_us: int
    until_us: int


class Offsets(TypedDict):
    """Cells in columns, by second and bucket; where nothing at all was sampled there is none.

    `samples` are those of the type, `all_samples` those of any type.
    """

    capture: str
    type: str
    start: float
    seconds: int
    step_ms: int
    second: list[int]
    bucket: list[int]
    samples: list[int]
    all_samples: list[int]
    recordings: list[Told]


class States(TypedDict):
    """Samples by state."""

    idle: int
    running: int
    gil: int


class Span(TypedDict):
    """What one side of a flame graph stands on, and its columns by node, by state if that was asked for.

    `pod_seconds` is how long its pods were watched.
    """

    samples: int
    seconds: float
    pod_seconds: float
    states: States
    self_samples: Sequence[int]
    self_us: Sequence[int]
    self_samples_by_state: NotRequired[dict[str, Sequence[int]]]
    self_us_by_state: NotRequired[dict[str, Sequence[int]]]


class Picked(TypedDict):
    """A call tree in pre-order, as a flame graph of windows has it; with the rest, that is the first side."""

    capture: str
    type: str
    lines: bool
    start: float
    from_us: int
    until_us: int
    names: list[str]
    level: Sequence[int]
    name: Sequence[int]
    sides: list[Span]
    pruned: dict[str, int | None]
    recordings: list[Told]


@dataclass(frozen=True, slots=True)
class Drawing:
    """How a flame graph is drawn: with at most `nodes` nodes (None: `most`), beside the `rest` or alone."""

    most: int
    nodes: int | None = None
    lines: bool = False
    states: bool = False
    rest: bool = False


class _Side:
    """The samples of some time, by state and stack: how many, and what they stand for in nanoseconds."""

    def __init__(self) -> None:
        self.rows: tuple[dict[tuple[str, ...], list[int]], ...] = tuple(
            defaultdict(lambda: [0, 0]) for _ in STATES
        )
        self.watched_us: defaultdict[tuple[str, str], int] = defaultdict(int)

    def add(self, recording: Recording, frames: Sequence[str], begin: int, end: int) -> None:
        """Take the samples in [begin, end), microseconds since the recording began."""
        for (stack, state, period_us), samples in _counted(recording, begin, end):
            row = self.rows[state][tuple(frames[at] for at in recording.stacks[stack])]
            row[0] += samples
            row[1] += samples * period_us * 1000

    def watched(self, labels: Mapping[str, str], us: int) -> None:
        """Processes of one pod are watched side by side."""
        pod = (labels.get("namespace", ""), labels.get("pod", ""))
        self.watched_us[pod] = max(self.watched_us[pod], us)

    def of(self, states: Iterable[int]) -> Iterator[Row]:
        return ((stack, row[0], row[1]) for state in states for stack, row in self.rows[state].items())

    def told(self, tree: Tree, first: int, kind: ProfileType, *, states: bool) -> Span:
        samples, us = tree.self_samples[first], [ns // 1000 for ns in tree.self_ns[first]]
        total = [sum(row[0] for row in rows.values()) for rows in self.rows]
        told: Span = {
            "samples": sum(samples),
            "seconds": sum(us) / _US,
            "pod_seconds": sum(self.watched_us.values()) / _US,
            "states": {"idle": total[0], "running": total[1], "gil": total[2]},
            "self_samples": samples,
            "self_us": us,
        }
        if states:
            at = {state: first + 1 + place for place, state in enumerate(_STATES[kind])}
            none = [0] * len(tree)
            told["self_samples_by_state"] = {
                name: tree.self_samples[at[state]] if state in at else none
                for state, name in enumerate(STATES)
            }
            told["self_us_by_state"] = {
                name: [ns // 1000 for ns in tree.self_ns[at[state]]] if state in at else none
                for state, name in enumerate(STATES)
            }
        return told


@dataclass(frozen=True, slots=True)
class Recordings:
    """The recordings of a capture, at least one; `start` is epoch seconds."""

    capture: str
    start: int
    kept: Sequence[Kept]

    @classmethod
    def of(cls, capture_id: str, kept: Sequence[Kept], name: str = "") -> Recordings:
        """Those of a capture, or the one with this name. Raises NoRecordings."""
        chosen = [one for one in kept if not name or one.name == name]
        if not chosen:
            raise NoRecordings(capture_id, name)
        return cls(capture_id, min(map(_begin_ns, kept)) // SECOND_NS, chosen)

    def each(self) -> Iterator[tuple[Told, Recording, int]]:
        """Each with where its own time begins, in microseconds since the start."""
        for one in self.kept:
            recording = one.read()
            shift = (recording.start_ns - self.start * SECOND_NS) // 1000
            yield (
                {
                    "name": one.name,
                    "labels": dict(recording.labels),
                    "pid": recording.pid,
                    "samples": recording.samples,
                    "dropped": recording.dropped,
                    "from_us": shift,
                    "until_us": shift + recording.end_us,
                },
                recording,
                shift,
            )


def offsets(recordings: Recordings, kind: ProfileType, step_ms: int, most: int = MAX_CELLS) -> Offsets:
    """How many samples there are in each step of each second. Raises BadParameter for too many cells."""
    step, wanted = step_ms * 1000, _STATES[kind]
    told: list[Told] = []
    sampled: defaultdict[int, int] = defaultdict(int)
    samples: defaultdict[int, int] = defaultdict(int)
    for one, recording, shift in recordings.each():
        told.append(one)
        for thread in recording.threads:
            for at, state in zip(thread.at_us, thread.state, strict=True):
                cell = (at + shift) // step
                sampled[cell] += 1
                if state in wanted:
                    samples[cell] += 1
            if len(sampled) > most:
                raise BadParameter(
                    f"steps of {step_ms} ms make more than {most} cells of this capture",
                    hint="Ask for longer steps with step_ms.",
                )
    cells = sorted(sampled)
    buckets = 1000 // step_ms
    return {
        "capture": recordings.capture,
        "type": kind.value,
        "start": float(recordings.start),
        "seconds": cells[-1] // buckets + 1 if cells else 0,
        "step_ms": step_ms,
        "second": [cell // buckets for cell in cells],
        "bucket": [cell % buckets for cell in cells],
        "samples": [samples.get(cell, 0) for cell in cells],
        "all_samples": [sampled[cell] for cell in cells],
        "recordings": told,
    }


def picked(
    recordings: Recordings, kind: ProfileType, from_us: int, until_us: int, drawing: Drawing
) -> Picked:
    """The call tree of the samples in [from_us, until_us), the lightest nodes as `(other)`."""
    told: list[Told] = []
    span, rest = _Side(), _Side()
    for one, recording, shift in recordings.each():
        told.append(one)
        frames = recording.frames if drawing.lines else list(map(without_line, recording.frames))
        begin, end = from_us - shift, until_us - shift
        inside = max(0, min(end, recording.end_us) - max(begin, 0))
        span.add(recording, frames, begin, end)
        span.watched(recording.labels, inside)
        if drawing.rest:
            rest.add(recording, frames, 0, begin)
            rest.add(recording, frames, end, LATEST_US)
            rest.watched(recording.labels, recording.end_us - inside)
    sides = [rest, span] if drawing.rest else [span]
    own = [(states,) for states in _STATES[kind]] if drawing.states else []
    columns = [side.of(states) for side in sides for states in (_STATES[kind], *own)]
    limit = min(drawing.nodes or drawing.most, drawing.most)
    whole = build(columns)
    tree, dropped = prune(whole, limit)
    codes = {code: number for number, code in enumerate(dict.fromkeys(tree.name))}
    cut = drawing.nodes or len(whole) > drawing.most
    return {
        "capture": recordings.capture,
        "type": kind.value,
        "lines": drawing.lines,
        "start": float(recordings.start),
        "from_us": from_us,
        "until_us": until_us,
        "names": [unescape(tree.names[code]) for code in codes],
        "level": tree.level,
        "name": [codes[code] for code in tree.name],
        "sides": [
            side.told(tree, at * (1 + len(own)), kind, states=drawing.states) for at, side in enumerate(sides)
        ],
        "pruned": {"nodes": dropped, "limit": limit if cut else None},
        "recordings": told,
    }


def _counted(recording: Recording, from_us: int, until_us: int) -> Iterable[tuple[tuple[int, int, int], int]]:
    """How often each (stack, state, period) was seen in [from_us, until_us) since the recording began."""
    counted: defaultdict[tuple[int, int, int], int] = defaultdict(int)
    for begin, end, period_us in _spans(recording):
        for thread in recording.threads:
            first = bisect_left(thread.at_us, max(begin, from_us))
            last = bisect_left(thread.at_us, min(end, until_us))
            for at in range(first, last):
                counted[thread.stack[at], thread.state[at], period_us] += 1
    return counted.items()


def _spans(recording: Recording) -> Iterator[tuple[int, int, int]]:
    """From when until when a sample stands for how long, all in microseconds."""
    periods = recording.periods or [(0, recording.period_us)]
    begins = [0, *[at for at, _ in periods[1:]]]
    for begin, end, (_, period_us) in zip(begins, [*begins[1:], LATEST_US], periods, strict=True):
        yield begin, end, period_us


def _begin_ns(kept: Kept) -> int:
    return parse_time(str(kept.listed["start"]), parameter="start", now_ns=0)


def read_step(text: str) -> int:
    """`step_ms`, of which there are a whole number in a second."""
    if not text:
        return STEP_MS
    step = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not LEAST_STEP_MS <= step <= 1000 or 1000 % step:
        raise BadParameter.value(
            "step_ms",
            text,
            f"a whole number of milliseconds from {LEAST_STEP_MS} on by which 1000 can be divided",
        )
    return step


def read_moment(name: str, text: str, default: int) -> int:
    """`from_us` or `until_us`."""
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 17 and int(text) <= LATEST_US):
        raise BadParameter.value(name, text, "microseconds since the capture's `start`")
    return int(text)
