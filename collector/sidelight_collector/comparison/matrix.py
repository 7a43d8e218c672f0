"""A comparison's sides cut into cells, pods by blocks of time, and their samples by cell and stack.

Pods and stretches of time are what a comparison learns its noise from, so windows are taken one by one as
long as what that reads is bounded (`most_rows`). Beyond that, and where windows are not kept one by one any
longer, hours are taken: these tell the stacks of a group, which may be of several pods, so that all pods are
one row.

Blocks have one length on both sides where columns belong together: the sides were watched at the same time (a
canary), or at the same hours of other days.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from sidelight_collector.arrow_ops import (
    F64,
    I64,
    Array,
    Column,
    float64_array,
    int64_array,
    is_word,
    one,
    strings,
    words,
)
from sidelight_collector.query.engine.window_sums import ROWS as SUMS
from sidelight_collector.query.engine.window_sums import ROWS_AT_ONCE, Scan, combined, pieces, plan
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.select.pod_time import processes, watched_and_time
from sidelight_collector.query.select.window_query import (
    choose_all,
)
from sidelight_collector.query.windows import (
    Question,
    Windows,
)
from sidelight_collector.statistics.inference.design import BLOCKS, ROWS, Side, row_of
from sidelight_collector.storage.tables import DAY_NS, HOUR_NS
from sidelight_collector.times import SECOND_NS

TOGETHER: Final = 0.8
"""Of the time in which either side was watched so much is common where columns belong together."""

ON_CPU: Final = ("running", "gil")
"""The states of threads that have a CPU, or wait for one: the kernel's state does not tell these apart."""

_CELL: Final = "cell"


@dataclass(frozen=True, slots=True)
class Cut:
    """One side: its windows, and the cell (row times blocks plus column) of each row of their table.

    `told` says whether pods are told apart, `by_day` whether no block begins or ends within a day. The first
    block begins at `start_ns` (Unix ns); `alive` is how long pods were there in each cell (P, T), in seconds:
    what was watched is a part of that. `clock` is the CPU time that their processes took meanwhile, as the
    kernel counts it.
    """

    windows: Windows
    side: Side
    cell: I64
    told: bool
    pods: int
    by_day: bool
    start_ns: int
    alive: F64
    clock: F64

    @property
    def shape(self) -> tuple[int, int]:
        rows, blocks = self.side.watched.shape
        return rows, blocks

    @property
    def cells(self) -> int:
        return int(self.side.watched.size)

    @property
    def clocked(self) -> bool:
        """Whether the clock is of what was sampled: all kinds of threads, of pods that all tell it."""
        sampled = self.seconds(ON_CPU).sum(1)
        every = len(self.windows.table) == len(self.windows.watched)
        return every and bool(sampled.any()) and bool(((sampled == 0) | (self.clock.sum(1) > 0)).all())

    def seconds(self, states: Sequence[str], rows: NDArray[np.bool_] | None = None) -> F64:
        """Sampled seconds in these states in each cell, (P, T); of all windows or of some."""
        table = self.windows.table
        samples = sum((float64_array(table[state]) for state in states), np.zeros(len(table)))
        values = samples * float64_array(table["period_ns"]) / SECOND_NS
        return self.added(values if rows is None else np.where(rows, values, 0.0))

    def added(self, values: F64) -> F64:
        """Values of the rows of the table, added up by cell."""
        sums: F64 = np.bincount(self.cell, values, self.cells).astype(np.float64).reshape(self.shape)
        return sums


@dataclass(frozen=True, slots=True)
class Cuts:
    """Both sides, and what of them belongs together: columns (`paired` says why), and rows."""

    a: Cut
    b: Cut
    paired: str
    same_pods: bool


@dataclass(frozen=True, slots=True)
class _Frame:
    """Where blocks of a side begin (Unix ns), how long they are, and how many."""

    start_ns: int
    step_ns: int
    blocks: int

    def column(self, ts: Column) -> I64:
        at = (int64_array(ts) - self.start_ns) // self.step_ns
        return np.clip(at, 0, self.blocks - 1)


def choose_apart(reading: Reading, sides: Sequence[Question], most_rows: int) -> list[Windows]:
    """The windows of each side, one by one where that reads no more than so many rows of samples."""
    refs = {ref for side in sides for ref in reading.segments(side.from_ns, side.until_ns)}
    if sum(ref.rows for ref in refs) <= most_rows:
        sides = [replace(side, by_window=True) for side in sides]
    return choose_all(reading, sides)


def cut(sides: Sequence[Question], chosen: Sequence[Windows]) -> Cuts:
    """Both sides, cut."""
    a, b = chosen
    names = [_pods(windows) for windows in chosen]
    told = [_is_told(windows) for windows in chosen]
    apart = all(told)
    same_pods = apart and bool(names[0]) and set(names[0]) == set(names[1])
    frames, paired = _frames(sides, chosen)
    cut_a, cut_b = (
        _cut(windows, own, frame, apart=apart)
        for windows, own, frame in zip((a, b), names, frames, strict=True)
    )
    return Cuts(cut_a, cut_b, paired, same_pods)


def _cut(windows: Windows, names: Sequence[tuple[str, str]], frame: _Frame, *, apart: bool) -> Cut:
    row_of_pod, rows = _rows(names, apart=apart)

    def cells(table: pa.Table) -> I64:
        return row_of_pod[_pod_numbers(table, names)] * frame.blocks + frame.column(table["ts"])

    watched = processes(windows.watched)
    cell = cells(watched)
    keyed = watched.append_column(_CELL, pa.array(cell, pa.int64()))
    found, alive = np.zeros((2, len(rows) * frame.blocks))
    clock = np.bincount(cell, float64_array(watched["target_cpu_ns"]), len(found)) / SECOND_NS
    for first, seconds, ns in watched_and_time(keyed, _CELL):
        found[cell[first]] += seconds
        alive[cell[first]] += ns / SECOND_NS
    shape = (len(rows), frame.blocks)
    side = Side(found.reshape(shape), rows, frame.step_ns / SECOND_NS)
    by_day = frame.start_ns % DAY_NS == frame.step_ns % DAY_NS == 0
    cell = cells(windows.table)
    return Cut(
        windows,
        side,
        cell,
        apart,
        len(names),
        by_day,
        frame.start_ns,
        alive.reshape(shape),
        clock.reshape(shape),
    )


def _rows(names: Sequence[tuple[str, str]], *, apart: bool) -> tuple[I64, tuple[tuple[str, ...], ...]]:
    """The row of each pod, and the pods of each row; at least one row."""
    if not apart or not names:
        place = [0] * len(names)
    elif len(names) <= ROWS:
        place = list(range(len(names)))
    else:
        place = [row_of(*name) for name in names]
    count = ROWS if apart and len(names) > ROWS else max(place, default=0) + 1
    rows: list[list[str]] = [[] for _ in range(count)]
    for (_, pod), row in zip(names, place, strict=True):
        rows[row].append(pod)
    return np.array(place, np.int64), tuple(map(tuple, rows))


def _pods(windows: Windows) -> list[tuple[str, str]]:
    """Distinct (namespace, pod), sorted."""
    pods = windows.watched.group_by(["namespace", "pod"], use_threads=False).aggregate([])
    return sorted(zip(strings(pods["namespace"]), strings(pods["pod"]), strict=True))


def _pod_numbers(table: pa.Table, names: Sequence[tuple[str, str]]) -> I64:
    """For each window the number of its pod."""
    number = {name: at for at, name in enumerate(names)}
    namespace, pod = words(table["namespace"]), words(table["pod"])
    texts = [strings(column.dictionary) for column in (namespace, pod)]
    codes = [int64_array(column.indices) for column in (namespace, pod)]
    size = max(len(texts[1]), 1)
    both, back = np.unique(codes[0] * size + codes[1], return_inverse=True)
    at = [number[texts[0][code // size], texts[1][code % size]] for code in both.tolist()]
    return np.array(at, np.int64)[back] if len(at) else np.zeros(0, np.int64)


def _is_told(windows: Windows) -> bool:
    """Whether each group of stacks that was taken by the hour is of one pod."""
    table = windows.table
    summed = table.filter(one(table["group"]).is_valid())
    if not len(summed):
        return True
    keys = ["segment", "group", "namespace", "pod"]
    pods = summed.select(keys).group_by(keys, use_threads=False).aggregate([])
    groups = pods.group_by(["segment", "group"], use_threads=False).aggregate([])
    return len(groups) == len(pods)


@dataclass(frozen=True, slots=True)
class _Span:
    """When a side was watched, and the least length (ns) that its blocks may have."""

    first_ns: int
    last_ns: int
    least_ns: int


def _span(windows: Windows) -> _Span:
    table = windows.table
    if not len(table):
        return _Span(0, 1, 1)
    group = one(table["group"]).is_valid()
    first, last = int64_array(table["ts"]), int64_array(table["end_ns"])
    least = 1
    alone = table.filter(pc.invert(group))
    if len(alone):
        usual = alone.filter(is_word(alone["capture"], ""))
        least = cast("int", pc.max((usual if len(usual) else alone)["longest_ns"]).as_py()) or 1
    if len(alone) < len(table):
        days = any(windows.resolution(ref) == "day" for ref in windows.hours)
        unit = DAY_NS if days or last.max() - first.min() > BLOCKS * DAY_NS else HOUR_NS
        hours = first.min() // unit * unit
        return _Span(int(hours), max(int(-(-last.max() // unit) * unit), int(hours) + unit), unit)
    return _Span(int(first.min()), max(int(last.max()), int(first.min()) + least), least)


def _frames(sides: Sequence[Question], chosen: Sequence[Windows]) -> tuple[tuple[_Frame, _Frame], str]:
    """The blocks of both sides, and what pairs them: `time`, `hours`, or nothing."""
    a, b = (_span(windows) for windows in chosen)
    least = max(a.least_ns, b.least_ns)
    later = sides[1].from_ns - sides[0].from_ns
    same_length = sides[1].until_ns - sides[0].until_ns == later
    shift = later if same_length and later % DAY_NS == 0 else 0
    first = min(a.first_ns, b.first_ns - shift)
    last = max(a.last_ns, b.last_ns - shift)
    common = min(a.last_ns, b.last_ns - shift) - max(a.first_ns, b.first_ns - shift)
    if all(len(windows.table) for windows in chosen) and common >= TOGETHER * (last - first):
        own = _frame(_Span(first, last, least))
        return (own, replace(own, start_ns=own.start_ns + shift)), "hours" if shift else "time"
    return (_frame(a), _frame(b)), ""


def _frame(span: _Span) -> _Frame:
    length = span.last_ns - span.first_ns
    if span.least_ns >= HOUR_NS and span.least_ns % HOUR_NS == 0:
        # What was added up by the hour lies in one block.
        step = -(-length // (BLOCKS * span.least_ns)) * span.least_ns
        return _Frame(span.first_ns, step, -(-length // step))
    blocks = max(1, min(BLOCKS, length // span.least_ns))
    return _Frame(span.first_ns, -(-length // blocks), blocks)


def counted(reading: Reading, own: Cut) -> pa.Table:
    """Samples by state of each (service, h, period_ns) in each `cell`; a key may come more than once."""
    parts: list[pa.Table] = []
    rows = 0
    places = _Places(own)
    for scan, table in pieces(reading, plan(reading, own.windows, daily=own.by_day)):
        cell = places.cells(scan, table)
        keyed = table.select(SUMS.names).append_column(_CELL, cell)
        parts.append(keyed.filter(cell.is_valid()) if cell.null_count else keyed)
        rows += len(parts[-1])
        if rows >= ROWS_AT_ONCE:
            parts = [combined(parts, more=[_CELL])]
            rows = len(parts[0])
            reading.deadline.remaining()
    if not parts:
        return SUMS.empty_table().append_column(_CELL, pa.array([], pa.int32()))
    return pa.concat_tables(parts).unify_dictionaries().combine_chunks()


class _Places:
    """Tells the cell of rows of samples, by what says which windows they are of."""

    def __init__(self, own: Cut) -> None:
        self._windows = own.windows
        self._keys = own.windows.table.select(["segment", "wid", "group", "day"]).append_column(
            _CELL, pa.array(own.cell, pa.int32())
        )
        self._at = {ref: at for at, ref in enumerate(own.windows.segments)}
        self._known: dict[tuple[int, str], tuple[Array, Array]] = {}

    def cells(self, scan: Scan, table: pa.Table) -> Array:
        """For each row its cell; null if it was not chosen."""
        by = {"samples": "wid", "sums": "group", "daily": "day"}[scan.part]
        keys, cells = self._of(self._at[scan.ref], by)
        own = one(table[scan.by])
        if scan.only is not None:
            keys, cells = _only(keys, cells, scan.only)
        if isinstance(own, pa.DictionaryArray):
            return cells.take(pc.index_in(own.dictionary, value_set=keys)).take(own.indices)
        return cells.take(pc.index_in(own, value_set=keys))

    def _of(self, segment: int, by: str) -> tuple[Array, Array]:
        """The distinct keys of a segment and the cell of each."""
        found = self._known.get((segment, by))
        if found is None:
            of_segment = pc.equal(self._keys["segment"], pa.scalar(segment, pa.int32()))
            rows = self._keys.filter(of_segment)
            is_hour = one(rows["group"]).is_valid()
            rows = rows.filter(pc.invert(is_hour) if by == "wid" else is_hour)
            firsts = rows.group_by(by, use_threads=False).aggregate([(_CELL, "min")])
            found = self._known[segment, by] = one(firsts[by]), one(firsts[f"{_CELL}_min"])
        return found


def _only(keys: Array, cells: Array, wanted: Array) -> tuple[Array, Array]:
    has = pc.is_in(keys, value_set=wanted)
    return keys.filter(has), cells.filter(has)
