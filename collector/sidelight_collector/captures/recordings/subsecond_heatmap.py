"""Sub-second heat map and flame graphs of a capture, from its recordings.

The sub-second offset heat map is Brendan Gregg's (FlameScope). Each column is a second and each row is a
step of some milliseconds within it, so that short bursts and periodic work become visible and can be
selected. Time counts from `start`, the second of the clock in which the first recording begins. Work that
happens on the second is therefore in one row, and pods align as well as their clocks do.

Recordings are read one after another, so that a capture of many processes takes no more memory than a
capture of one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NotRequired, TypedDict

from sidelight_collector.captures.recordings.recording_files import CaptureRecording
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.times import SECOND_NS, parse_time
from sidelight_model.counts import STATES, STATES_BY_TYPE, ProfileType
from sidelight_model.errors import Reason, SidelightError
from sidelight_model.frames import strip_line_number, unescape_frame
from sidelight_model.tree import StackRow, Tree, build_tree_from_rows, prune_tree

DEFAULT_STEP_MS: Final = 20
MIN_STEP_MS: Final = 5
MAX_CELLS: Final = 500_000
"""A heat map with more cells needs longer steps."""
MAX_US: Final = 2**53
_US_PER_SECOND: Final = 1_000_000
_STATES_BY_TYPE: Final = {kind: tuple(map(STATES.index, names)) for kind, names in STATES_BY_TYPE.items()}


class RecordingNotFound(SidelightError):
    """A capture has no timeline recording, or none with this name."""

    reason = Reason.NOT_FOUND

    def __init__(self, capture_id: str, name: str) -> None:
        what = f"recording {name[:80]!r}" if name else "recordings"
        super().__init__(
            f"the capture {capture_id} has no {what}",
            hint="Captures with a timeline have them once they have ended, but not where the "
            "py-spy command samples. GET /api/v1/captures/ID/recordings lists them.",
        )


@dataclass(frozen=True, slots=True)
class StoredRecording:
    """A recording as listed, and a function that loads it."""

    name: str
    summary: Mapping[str, Any]
    load: Callable[[], CaptureRecording]


class RecordingSpan(TypedDict):
    """A recording that an answer is based on; times are microseconds since the start."""

    name: str
    labels: Mapping[str, str]
    pid: int
    samples: int
    dropped: int
    from_us: int
    until_us: int


class SubsecondHeatmap(TypedDict):
    """The cells of a heat map as columns, by second and by bucket in it.

    Cells without any sample are left out. `samples` are those of the profile type, `all_samples` those of
    any.
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
    recordings: list[RecordingSpan]


class RecordingFlameSide(TypedDict):
    """One side of a flame graph: its basis, and its columns by tree node.

    The columns by state are there only if requested. `pod_seconds` is how long its pods were sampled.
    """

    samples: int
    seconds: float
    pod_seconds: float
    states: dict[str, int]
    self_samples: Sequence[int]
    self_us: Sequence[int]
    self_samples_by_state: NotRequired[dict[str, Sequence[int]]]
    self_us_by_state: NotRequired[dict[str, Sequence[int]]]


class RecordingFlame(TypedDict):
    """A call tree in pre-order, as in the flame graph of windows.

    If the time outside the span is requested, it is the first side.
    """

    capture: str
    type: str
    lines: bool
    start: float
    from_us: int
    until_us: int
    names: list[str]
    level: Sequence[int]
    name: Sequence[int]
    sides: list[RecordingFlameSide]
    pruned: dict[str, int | None]
    recordings: list[RecordingSpan]


@dataclass(frozen=True, slots=True)
class RecordingFlameOptions:
    """How a flame graph is drawn.

    It has at most `requested_nodes` nodes (None: `max_nodes`). With `includes_outside`, the samples outside
    the span are a side of their own.
    """

    max_nodes: int
    requested_nodes: int | None = None
    by_line: bool = False
    by_state: bool = False
    includes_outside: bool = False


class _SideSamples:
    """The samples of one side by state and stack: count and nanoseconds."""

    def __init__(self) -> None:
        self.rows: tuple[dict[tuple[str, ...], list[int]], ...] = tuple(
            defaultdict(lambda: [0, 0]) for _ in STATES
        )
        self.observed_us: defaultdict[tuple[str, str], int] = defaultdict(int)

    def add(self, recording: CaptureRecording, frames: Sequence[str], begin: int, end: int) -> None:
        """Add the samples in [begin, end), microseconds since the recording began."""
        for (stack, state, period_us), samples in _count_samples(recording, begin, end):
            row = self.rows[state][tuple(frames[at] for at in recording.stacks[stack])]
            row[0] += samples
            row[1] += samples * period_us * 1000

    def add_observed_time(self, labels: Mapping[str, str], us: int) -> None:
        """Add sampled time; processes of one pod, which run at once, count once."""
        pod = (labels.get("namespace", ""), labels.get("pod", ""))
        self.observed_us[pod] = max(self.observed_us[pod], us)

    def iter_rows(self, states: Iterable[int]) -> Iterator[StackRow]:
        return ((stack, row[0], row[1]) for state in states for stack, row in self.rows[state].items())

    def to_json(
        self, tree: Tree, first_column: int, kind: ProfileType, *, states: bool
    ) -> RecordingFlameSide:
        samples, us = tree.self_samples[first_column], [ns // 1000 for ns in tree.self_ns[first_column]]
        total = [sum(row[0] for row in rows.values()) for rows in self.rows]
        document: RecordingFlameSide = {
            "samples": sum(samples),
            "seconds": sum(us) / _US_PER_SECOND,
            "pod_seconds": sum(self.observed_us.values()) / _US_PER_SECOND,
            "states": dict(zip(STATES, total, strict=True)),
            "self_samples": samples,
            "self_us": us,
        }
        if states:
            column_of_state = {
                state: first_column + 1 + place for place, state in enumerate(_STATES_BY_TYPE[kind])
            }
            zeros = [0] * len(tree)
            document["self_samples_by_state"] = {
                name: tree.self_samples[column_of_state[state]] if state in column_of_state else zeros
                for state, name in enumerate(STATES)
            }
            document["self_us_by_state"] = {
                name: [ns // 1000 for ns in tree.self_ns[column_of_state[state]]]
                if state in column_of_state
                else zeros
                for state, name in enumerate(STATES)
            }
        return document


@dataclass(frozen=True, slots=True)
class CaptureRecordings:
    """The recordings of a capture, at least one; `start` is in Unix seconds."""

    capture_id: str
    start: int
    stored: Sequence[StoredRecording]

    @classmethod
    def select(cls, capture_id: str, stored: Sequence[StoredRecording], name: str = "") -> CaptureRecordings:
        """Select all recordings of a capture, or the one named `name`.

        Raises RecordingNotFound.
        """
        selected = [recording for recording in stored if not name or recording.name == name]
        if not selected:
            raise RecordingNotFound(capture_id, name)
        return cls(capture_id, min(map(_parse_start_ns, stored)) // SECOND_NS, selected)

    def iter_loaded(self) -> Iterator[tuple[RecordingSpan, CaptureRecording, int]]:
        """Load each recording, with its own start in microseconds since `start`."""
        for stored in self.stored:
            recording = stored.load()
            shift = (recording.start_ns - self.start * SECOND_NS) // 1000
            yield (
                {
                    "name": stored.name,
                    "labels": dict(recording.labels),
                    "pid": recording.pid,
                    "samples": recording.sample_count,
                    "dropped": recording.dropped,
                    "from_us": shift,
                    "until_us": shift + recording.end_us,
                },
                recording,
                shift,
            )


def build_subsecond_heatmap(
    recordings: CaptureRecordings, kind: ProfileType, step_ms: int, max_cells: int = MAX_CELLS
) -> SubsecondHeatmap:
    """Count the samples in each step of each second.

    Raises BadParameter for more than `max_cells` cells.
    """
    step, counted_states = step_ms * 1000, _STATES_BY_TYPE[kind]
    recording_spans: list[RecordingSpan] = []
    sampled: defaultdict[int, int] = defaultdict(int)
    samples: defaultdict[int, int] = defaultdict(int)
    for recording_span, recording, shift in recordings.iter_loaded():
        recording_spans.append(recording_span)
        for thread in recording.threads:
            for at, state in zip(thread.at_us, thread.state, strict=True):
                cell = (at + shift) // step
                sampled[cell] += 1
                if state in counted_states:
                    samples[cell] += 1
            if len(sampled) > max_cells:
                raise BadParameter(
                    f"steps of {step_ms} ms make more than {max_cells} cells of this capture",
                    hint="Ask for longer steps with step_ms.",
                )
    cells = sorted(sampled)
    buckets = 1000 // step_ms
    return {
        "capture": recordings.capture_id,
        "type": kind.value,
        "start": float(recordings.start),
        "seconds": cells[-1] // buckets + 1 if cells else 0,
        "step_ms": step_ms,
        "second": [cell // buckets for cell in cells],
        "bucket": [cell % buckets for cell in cells],
        "samples": [samples.get(cell, 0) for cell in cells],
        "all_samples": [sampled[cell] for cell in cells],
        "recordings": recording_spans,
    }


def build_recording_flame(
    recordings: CaptureRecordings,
    kind: ProfileType,
    from_us: int,
    until_us: int,
    drawing: RecordingFlameOptions,
) -> RecordingFlame:
    """Build the call tree of the samples in [from_us, until_us).

    The lightest nodes beyond the limit become `(other)`.
    """
    recording_spans: list[RecordingSpan] = []
    span, outside = _SideSamples(), _SideSamples()
    for recording_span, recording, shift in recordings.iter_loaded():
        recording_spans.append(recording_span)
        frames = recording.frames if drawing.by_line else list(map(strip_line_number, recording.frames))
        begin, end = from_us - shift, until_us - shift
        inside = max(0, min(end, recording.end_us) - max(begin, 0))
        span.add(recording, frames, begin, end)
        span.add_observed_time(recording.labels, inside)
        if drawing.includes_outside:
            outside.add(recording, frames, 0, begin)
            outside.add(recording, frames, end, MAX_US)
            outside.add_observed_time(recording.labels, recording.end_us - inside)
    sides = [outside, span] if drawing.includes_outside else [span]
    state_columns = [(states,) for states in _STATES_BY_TYPE[kind]] if drawing.by_state else []
    columns = [side.iter_rows(states) for side in sides for states in (_STATES_BY_TYPE[kind], *state_columns)]
    limit = min(drawing.requested_nodes or drawing.max_nodes, drawing.max_nodes)
    full_tree = build_tree_from_rows(columns)
    tree, dropped = prune_tree(full_tree, limit)
    codes = {code: number for number, code in enumerate(dict.fromkeys(tree.name_index))}
    is_pruned = drawing.requested_nodes or len(full_tree) > drawing.max_nodes
    return {
        "capture": recordings.capture_id,
        "type": kind.value,
        "lines": drawing.by_line,
        "start": float(recordings.start),
        "from_us": from_us,
        "until_us": until_us,
        "names": [unescape_frame(tree.names[code]) for code in codes],
        "level": tree.level,
        "name": [codes[code] for code in tree.name_index],
        "sides": [
            side.to_json(tree, at * (1 + len(state_columns)), kind, states=drawing.by_state)
            for at, side in enumerate(sides)
        ],
        "pruned": {"nodes": dropped, "limit": limit if is_pruned else None},
        "recordings": recording_spans,
    }


def _count_samples(
    recording: CaptureRecording, from_us: int, until_us: int
) -> Iterable[tuple[tuple[int, int, int], int]]:
    """Count samples by (stack, state, period) in [from_us, until_us).

    Times are in microseconds since the recording began.
    """
    counted: defaultdict[tuple[int, int, int], int] = defaultdict(int)
    for begin, end, period_us in _iter_periods(recording):
        for thread in recording.threads:
            first = bisect_left(thread.at_us, max(begin, from_us))
            last = bisect_left(thread.at_us, min(end, until_us))
            for at in range(first, last):
                counted[thread.stack[at], thread.state[at], period_us] += 1
    return counted.items()


def _iter_periods(recording: CaptureRecording) -> Iterator[tuple[int, int, int]]:
    """Yield the times of constant sampling period: from, until, period (microseconds)."""
    periods = recording.periods or [(0, recording.period_us)]
    begins = [0, *[at for at, _ in periods[1:]]]
    for begin, end, (_, period_us) in zip(begins, [*begins[1:], MAX_US], periods, strict=True):
        yield begin, end, period_us


def _parse_start_ns(stored: StoredRecording) -> int:
    return parse_time(str(stored.summary["start"]), parameter="start", now_ns=0)


def parse_step(text: str) -> int:
    """Parse `step_ms`, a divisor of 1000; the default if `text` is empty.

    Raises BadParameter.
    """
    if not text:
        return DEFAULT_STEP_MS
    step = int(text) if text.isascii() and text.isdigit() and len(text) < 5 else 0
    if not MIN_STEP_MS <= step <= 1000 or 1000 % step:
        raise BadParameter.invalid_value(
            "step_ms",
            text,
            f"a whole number of milliseconds from {MIN_STEP_MS} on by which 1000 can be divided",
        )
    return step


def parse_offset_us(parameter: str, text: str, default: int) -> int:
    """Parse `from_us` or `until_us`; the default if `text` is empty.

    Raises BadParameter.
    """
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 17 and int(text) <= MAX_US):
        raise BadParameter.invalid_value(parameter, text, "microseconds since the capture's `start`")
    return int(text)
