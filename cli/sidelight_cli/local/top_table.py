"""The table of `top`, as values and as lines of text: nothing here knows a terminal.

A share is of the time watched: 100 % is one thread all the time, so several threads may add up to more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sidelight_cli.local.sampling.quality import Ledger, percent
from sidelight_model.counts import ZERO, Counts, ProfileType
from sidelight_model.folded import Stack, split
from sidelight_model.frames import Frame, unescape
from sidelight_model.terminal_width import cut, fit, visible, width

KEYS = {
    "s": "self",
    "t": "total",
    "g": "gil",
    "u": "running",
    "i": "idle",
    "n": "name",
}
HELP = "s t g u i n sort   c type   l lines   a since start   r reset   space hold   q quit"
_TYPES = tuple(ProfileType)
_NUMBERS = ("SELF %", "TOTAL %", "GIL %", "RUN %", "IDLE %")
_CELL = 9
_LEAST_NAME = 24


@dataclass(frozen=True, slots=True)
class Row:
    """A function (or a line of one): the samples that ended in it, and those it was in at all.

    `line` is where it was found most often.
    """

    function: str
    file: str
    line: int
    own: Counts
    total: Counts


@dataclass(frozen=True, slots=True)
class View:
    """How the table is looked at; a key makes another view."""

    kind: ProfileType = ProfileType.CPU
    sort: str = "self"
    lines: bool = False
    since_start: bool = False
    held: bool = False

    def after(self, key: str) -> View:
        """The view after a key; the same one after a key that means nothing."""
        if key in KEYS:
            return replace(self, sort=KEYS[key])
        if key == "c":
            return replace(self, kind=_TYPES[(_TYPES.index(self.kind) + 1) % len(_TYPES)])
        if key == "l":
            return replace(self, lines=not self.lines)
        if key == "a":
            return replace(self, since_start=not self.since_start)
        return replace(self, held=not self.held) if key == " " else self


@dataclass(frozen=True, slots=True)
class Shown:
    """What was watched, for one table: counts, how well, for how long and of whom."""

    counts: Mapping[Stack, Counts]
    ledger: Ledger
    elapsed: float
    name: str
    mode: str
    how: str
    asked_hz: float
    processes: int
    running: float
    """Seconds since the beginning."""


_Function = tuple[str, str, int]


class _Functions(dict[str, _Function]):
    """What each frame's text is a row of; read when it is first asked for."""

    def __init__(self, *, lines: bool) -> None:
        super().__init__()
        self._lines = lines

    def __missing__(self, text: str) -> _Function:
        frame = Frame.parse(unescape(text))
        self[text] = found = (frame.function, frame.file, frame.line if self._lines else 0)
        return found


def rows(counts: Mapping[Stack, Counts], *, lines: bool) -> list[Row]:
    """A row for each function, or for each line; a function counts once per stack however often it recurs."""
    functions = _Functions(lines=lines)
    seen: dict[str, int] = {}
    own: dict[_Function, Counts] = {}
    total: dict[_Function, list[int]] = {}
    for stack, count in counts.items():
        idle, running, gil = count
        frames = split(stack)
        weight = idle + running + gil
        for text in set(frames):
            seen[text] = seen.get(text, 0) + weight
        for function in {functions[text] for text in frames}:
            sums = total.get(function)
            if sums is None:
                total[function] = [idle, running, gil]
            else:
                sums[0] += idle
                sums[1] += running
                sums[2] += gil
        leaf = functions[frames[-1]]
        own[leaf] = own.get(leaf, ZERO).plus(count)
    spots: dict[_Function, tuple[int, int]] = {}
    for text, weight in seen.items():
        spot = (weight, -Frame.parse(unescape(text)).line)
        spots[functions[text]] = max(spot, spots.get(functions[text], spot))
    return [
        Row(one[0], one[1], -spots[one][1], own.get(one, ZERO), Counts(*sums)) for one, sums in total.items()
    ]


def arranged(some: Sequence[Row], view: View) -> list[Row]:
    """The rows that have samples of the view's type, in its order."""
    kind = view.kind
    wanted = [row for row in some if row.total.of(kind) or (view.sort == "idle" and row.total.idle)]
    weights = {
        "self": lambda row: (row.own.of(kind), row.total.of(kind)),
        "total": lambda row: (row.total.of(kind), row.own.of(kind)),
        "gil": lambda row: (row.own.gil, row.total.gil),
        "running": lambda row: (row.own.running, row.total.running),
        "idle": lambda row: (row.own.idle, row.total.idle),
    }
    wanted.sort(key=lambda row: (row.function, row.file, row.line))
    if view.sort in weights:
        wanted.sort(key=weights[view.sort], reverse=True)
    return wanted


def header(shown: Shown, view: View, columns: int) -> list[str]:
    """Who is watched, how well, and what all threads did; each line fits into the columns."""
    sums = ZERO
    for count in shown.counts.values():
        sums = sums.plus(count)
    ticks = _ticks(shown)
    ledger = shown.ledger
    share = ledger.sampler_cpu_ns / 1e9 / shown.elapsed if shown.elapsed > 0 else 0.0
    span = "since the start" if view.since_start else f"last {shown.elapsed:.0f} s"
    more = f" and {shown.processes - 1} below it" if shown.processes > 1 else ""
    threads = f"{ledger.threads} thread{'' if ledger.threads == 1 else 's'}"
    minutes, seconds = divmod(int(shown.running), 60)
    lines = [
        f"{visible(shown.name)}{more} · {minutes}:{seconds:02} · {span}{' · held' if view.held else ''}",
        f"mode {shown.mode} · {ledger.rate_hz:.1f} of {shown.asked_hz:g} samples/s · {ledger.errors_text()}"
        f" · target lost {percent(ledger.lost)} · sampler {percent(share)} of a core · {shown.how}",
        f"{threads} · gil {_share(sums.gil, ticks)} % · running {_share(sums.running, ticks)} % · "
        f"idle {_share(sums.idle, ticks)} % · self and total are {view.kind.value}",
    ]
    return [cut(line, columns) for line in lines]


def heading(view: View, columns: int) -> str:
    """The names of the columns, the one that is sorted by marked."""
    words = {"self": 0, "total": 1, "gil": 2, "running": 3, "idle": 4}
    sorted_by = words.get(view.sort, -1)
    names = [f"{'▾' if at == sorted_by else ''}{name}" for at, name in enumerate(_NUMBERS)]
    cells = "".join(_right(name, _CELL) for name in names[: _numbers(columns)])
    mark = "▾" if view.sort == "name" else ""
    return fit(f"{cells}  {mark}FUNCTION (FILE:LINE)", columns)


def body(some: Sequence[Row], shown: Shown, view: View, columns: int) -> list[str]:
    """A line for each row, each of at most so many columns."""
    ticks, many = _ticks(shown), _numbers(columns)
    lines = []
    for row in some:
        numbers = (row.own.of(view.kind), row.total.of(view.kind), row.own.gil, row.own.running, row.own.idle)
        cells = "".join(_right(_share(number, ticks), _CELL) for number in numbers[:many])
        name = visible(Frame(row.function, row.file, row.line).text)
        lines.append(cut(f"{cells}  {name}", columns))
    return lines


def _ticks(shown: Shown) -> float:
    """Ticks of one process that gave stacks: a thread that is always there has a sample in each."""
    ledger = shown.ledger
    processes = max(1.0, ledger.watched_ns / 1e9 / shown.elapsed) if shown.elapsed > 0 else 1.0
    return max(1.0, (ledger.attempts - ledger.failed) / processes)


def _share(samples: int, ticks: float) -> str:
    return f"{100 * samples / ticks:.1f}"


def _numbers(columns: int) -> int:
    """How many columns of numbers leave room for names."""
    return max(1, min(len(_NUMBERS), (columns - _LEAST_NAME) // _CELL))


def _right(text: str, cells: int) -> str:
    return " " * max(0, cells - width(text)) + text
