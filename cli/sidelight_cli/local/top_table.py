"""The table of `sidelight top`, as values and as lines of text.

Nothing here depends on a terminal. Shares refer to the observed time: 100 % is one thread all the time, so
several threads can add up to more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from sidelight_cli.local.sampling.quality import SamplingQuality, format_percent
from sidelight_model.counts import ON_CPU_STATES, ZERO, Counts, ProfileType
from sidelight_model.folded import Stack, split_stack
from sidelight_model.frames import Frame, unescape_frame
from sidelight_model.terminal_width import escape_unprintable, fit_to_width, measure_width, truncate_to_width

SORT_KEYS = {
    "s": "self",
    "t": "total",
    "g": "gil",
    "u": "running",
    "w": "cpu_wait",
    "v": "gil_wait",
    "k": "lock",
    "p": "poll",
    "o": "io",
    "e": "sleep",
    "i": "idle",
    "n": "name",
}
KEY_HELP = "s t g u w v k p o e i n sort   c type   l lines   a since start   r reset   space hold   q quit"
_TYPES = tuple(kind for kind in ProfileType if kind is not ProfileType.TASKS)
_STATE_HEADINGS = {
    "gil": "GIL %",
    "running": "RUN %",
    "cpu_wait": "CPU-W %",
    "gil_wait": "GIL-W %",
    "lock": "LOCK %",
    "poll": "POLL %",
    "io": "IO %",
    "sleep": "SLEEP %",
    "idle": "IDLE %",
}
"""The states in the order of the columns."""
_NUMBER_HEADINGS = {"self": "SELF %", "total": "TOTAL %", **_STATE_HEADINGS}
_CELL_WIDTH = 8
_MIN_NAME_WIDTH = 24


@dataclass(frozen=True, slots=True)
class FunctionCounts:
    """Self and total samples of a function, or of one of its lines.

    `line` is the line with the most samples.
    """

    function: str
    file: str
    line: int
    self_counts: Counts
    total_counts: Counts


@dataclass(frozen=True, slots=True)
class TableView:
    """Display options of the table, changed by keys."""

    profile_type: ProfileType = ProfileType.CPU
    sort: str = "self"
    by_line: bool = False
    since_start: bool = False
    is_paused: bool = False

    def handle_key(self, key: str) -> TableView:
        """Return the view after a key; an unknown key returns the same view."""
        if key in SORT_KEYS:
            return replace(self, sort=SORT_KEYS[key])
        if key == "c":
            return replace(self, profile_type=_TYPES[(_TYPES.index(self.profile_type) + 1) % len(_TYPES)])
        if key == "l":
            return replace(self, by_line=not self.by_line)
        if key == "a":
            return replace(self, since_start=not self.since_start)
        return replace(self, is_paused=not self.is_paused) if key == " " else self


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The data of one table: samples, quality, duration and target."""

    counts: Mapping[Stack, Counts]
    quality: SamplingQuality
    elapsed_seconds: float
    name: str
    mode: str
    reader_text: str
    target_hz: float
    process_count: int
    running_seconds: float
    """Seconds since the command started to sample."""


_FunctionKey = tuple[str, str, int]


class _FunctionKeys(dict[str, _FunctionKey]):
    """The row key (function, file, line) of each frame's text, parsed on first use."""

    def __init__(self, *, lines: bool) -> None:
        super().__init__()
        self._lines = lines

    def __missing__(self, text: str) -> _FunctionKey:
        frame = Frame.parse(unescape_frame(text))
        self[text] = key = (frame.function, frame.file, frame.line if self._lines else 0)
        return key


def build_rows(counts: Mapping[Stack, Counts], *, lines: bool) -> list[FunctionCounts]:
    """Build a row for each function, or with `lines` for each line.

    A recursive function counts once per stack.
    """
    functions = _FunctionKeys(lines=lines)
    weight_by_frame: dict[str, int] = {}
    self_counts: dict[_FunctionKey, Counts] = {}
    total_counts: dict[_FunctionKey, list[int]] = {}
    for stack, count in counts.items():
        frames, weight = split_stack(stack), count.wall
        for text in set(frames):
            weight_by_frame[text] = weight_by_frame.get(text, 0) + weight
        for function in {functions[text] for text in frames}:
            sums = total_counts.get(function)
            if sums is None:
                total_counts[function] = list(count)
            else:
                for state, samples in enumerate(count):
                    sums[state] += samples
        leaf = functions[frames[-1]]
        self_counts[leaf] = self_counts.get(leaf, ZERO).plus(count)
    heaviest_line: dict[_FunctionKey, tuple[int, int]] = {}
    for text, weight in weight_by_frame.items():
        candidate = (weight, -Frame.parse(unescape_frame(text)).line)
        heaviest_line[functions[text]] = max(candidate, heaviest_line.get(functions[text], candidate))
    return [
        FunctionCounts(key[0], key[1], -heaviest_line[key][1], self_counts.get(key, ZERO), Counts(*sums))
        for key, sums in total_counts.items()
    ]


def sort_rows(table_rows: Sequence[FunctionCounts], view: TableView) -> list[FunctionCounts]:
    """Return the rows with samples of the view's profile type, in the view's order.

    Ordered by a state without a CPU, rows with samples in it are included as well.
    """
    profile_type = view.profile_type
    selected = [
        row
        for row in table_rows
        if row.total_counts.for_type(profile_type)
        or (view.sort in _STATE_HEADINGS.keys() - ON_CPU_STATES and getattr(row.total_counts, view.sort))
    ]
    selected.sort(key=lambda row: (row.function, row.file, row.line))
    if view.sort in _STATE_HEADINGS:
        state = attrgetter(view.sort)
        selected.sort(key=lambda row: (state(row.self_counts), state(row.total_counts)), reverse=True)
        return selected
    weights: Mapping[str, Callable[[FunctionCounts], tuple[int, int]]] = {
        "self": lambda row: (
            row.self_counts.for_type(profile_type),
            row.total_counts.for_type(profile_type),
        ),
        "total": lambda row: (
            row.total_counts.for_type(profile_type),
            row.self_counts.for_type(profile_type),
        ),
    }
    if view.sort in weights:
        selected.sort(key=weights[view.sort], reverse=True)
    return selected


def format_header(snapshot: TableSnapshot, view: TableView, columns: int) -> list[str]:
    """Format target, quality and the threads' states as lines of at most `columns`."""
    sums = ZERO
    for count in snapshot.counts.values():
        sums = sums.plus(count)
    ticks = _count_ticks(snapshot)
    sampling_quality = snapshot.quality
    share = (
        sampling_quality.sampler_cpu_ns / 1e9 / snapshot.elapsed_seconds
        if snapshot.elapsed_seconds > 0
        else 0.0
    )
    span = "since the start" if view.since_start else f"last {snapshot.elapsed_seconds:.0f} s"
    children_text = f" and {snapshot.process_count - 1} below it" if snapshot.process_count > 1 else ""
    threads = f"{sampling_quality.threads} thread{'' if sampling_quality.threads == 1 else 's'}"
    minutes, seconds = divmod(int(snapshot.running_seconds), 60)
    lines = [
        f"{escape_unprintable(snapshot.name)}{children_text} · {minutes}:{seconds:02} · "
        f"{span}{' · held' if view.is_paused else ''}",
        f"mode {snapshot.mode} · {sampling_quality.rate_hz:.1f} of {snapshot.target_hz:g} samples/s · "
        f"{sampling_quality.format_errors()}"
        f" · target lost {format_percent(sampling_quality.stopped_share)} · sampler "
        f"{format_percent(share)} of a core · {snapshot.reader_text}",
        f"{threads} · self and total are {view.profile_type.value} · "
        f"{_format_states(sums, ('gil', 'running', 'cpu_wait', 'gil_wait'), ticks)}",
        f"waiting: {_format_states(sums, ('lock', 'poll', 'io', 'sleep', 'idle'), ticks)}",
    ]
    return [truncate_to_width(line, columns) for line in lines]


def format_heading(view: TableView, columns: int) -> str:
    """Format the column headings, with a mark on the sort column."""
    names = [f"{'▾' if key == view.sort else ''}{name}" for key, name in _NUMBER_HEADINGS.items()]
    cells = "".join(_align_right(name, _CELL_WIDTH) for name in names[: _count_number_columns(columns)])
    mark = "▾" if view.sort == "name" else ""
    return fit_to_width(f"{cells}  {mark}FUNCTION (FILE:LINE)", columns)


def format_body(
    table_rows: Sequence[FunctionCounts], snapshot: TableSnapshot, view: TableView, columns: int
) -> list[str]:
    """Format each row as a line of at most `columns` characters."""
    ticks, column_count = _count_ticks(snapshot), _count_number_columns(columns)
    lines = []
    for row in table_rows:
        numbers = (
            row.self_counts.for_type(view.profile_type),
            row.total_counts.for_type(view.profile_type),
            *(getattr(row.self_counts, state) for state in _STATE_HEADINGS),
        )
        cells = "".join(
            _align_right(_format_share(number, ticks), _CELL_WIDTH) for number in numbers[:column_count]
        )
        name = escape_unprintable(Frame(row.function, row.file, row.line).text)
        lines.append(truncate_to_width(f"{cells}  {name}", columns))
    return lines


def _count_ticks(snapshot: TableSnapshot) -> float:
    """Return the average number of successful ticks per process.

    A thread that always exists has one sample in each of them.
    """
    sampling_quality = snapshot.quality
    processes = (
        max(1.0, sampling_quality.watched_ns / 1e9 / snapshot.elapsed_seconds)
        if snapshot.elapsed_seconds > 0
        else 1.0
    )
    return max(1.0, (sampling_quality.attempts - sampling_quality.failed_ticks) / processes)


def _format_states(counts: Counts, states: Sequence[str], ticks: float) -> str:
    return " · ".join(f"{state} {_format_share(getattr(counts, state), ticks)} %" for state in states)


def _format_share(samples: int, ticks: float) -> str:
    return f"{100 * samples / ticks:.1f}"


def _count_number_columns(columns: int) -> int:
    """Return how many numeric columns fit beside the function names."""
    return max(1, min(len(_NUMBER_HEADINGS), (columns - _MIN_NAME_WIDTH) // _CELL_WIDTH))


def _align_right(text: str, cells: int) -> str:
    return " " * max(0, cells - measure_width(text)) + text
