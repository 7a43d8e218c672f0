"""Cut the sides of a comparison into cells: pods by blocks of time.

A comparison learns its noise from pods and stretches of time, so windows are taken one by one as long as
the number of rows to read is bounded (`max_rows`). Beyond that, and where single windows are no longer
stored, hours are taken. An hour holds the stacks of a group, which may be of several pods, so all pods are
one row.

Blocks have the same length on both sides if columns belong together: the sides were observed at the same
time (concurrent), or at the same hours of other days.
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
    Column,
    combine_chunks,
    dictionary_encode,
    is_equal_string,
    to_float64_numpy,
    to_int64_numpy,
    to_strings,
)
from sidelight_collector.query.engine.window_cells import sum_window_cells
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_side_windows
from sidelight_collector.query.windows import (
    SelectedWindows,
    WindowQuery,
)
from sidelight_collector.statistics.inference.design import MAX_BLOCKS, MAX_ROWS, SideMatrix, assign_row
from sidelight_collector.storage.rollups.pod_time import filter_process_rows, iter_pod_time
from sidelight_collector.storage.tables import DAY_NS, HOUR_NS
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ON_CPU_STATES
from sidelight_model.selectors import Selector

MIN_COMMON_SHARE: Final = 0.8
"""Least common part of the observed time of both sides that pairs their columns."""

_CELL_COLUMN: Final = "cell"


@dataclass(frozen=True, slots=True)
class SideObservations:
    """The observations of one side: its windows and their cells.

    `cell_ids` is the cell (row times blocks plus column) of each row of the windows' table. `has_pod_rows`
    tells whether rows distinguish pods, `has_whole_day_blocks` whether no block begins or ends within a
    day. The first block begins at `start_ns` (Unix ns). `alive_seconds` is how long pods existed in each
    cell (P, T), in seconds; the observed time is a part of that. `cpu_seconds` is the CPU time of their
    processes in that time, as the kernel counts it.
    """

    windows: SelectedWindows
    matrix: SideMatrix
    cell_ids: I64
    has_pod_rows: bool
    pod_count: int
    has_whole_day_blocks: bool
    start_ns: int
    alive_seconds: F64
    cpu_seconds: F64

    @property
    def shape(self) -> tuple[int, int]:
        rows, blocks = self.matrix.exposure.shape
        return rows, blocks

    @property
    def cell_count(self) -> int:
        return int(self.matrix.exposure.size)

    @property
    def has_cpu_clock(self) -> bool:
        """Whether the kernel's clock covers what was sampled.

        The samples must be of all kinds of threads, and all pods must report the clock.
        """
        sampled = self.sum_seconds(ON_CPU_STATES).sum(1)
        every = len(self.windows.table) == len(self.windows.process_windows)
        return every and bool(sampled.any()) and bool(((sampled == 0) | (self.cpu_seconds.sum(1) > 0)).all())

    def sum_seconds(self, states: Sequence[str], rows: NDArray[np.bool_] | None = None) -> F64:
        """Return the sampled seconds in these states in each cell, (P, T).

        `rows` selects windows.
        """
        table = self.windows.table
        samples = sum((to_float64_numpy(table[state]) for state in states), np.zeros(len(table)))
        values = samples * to_float64_numpy(table["period_ns"]) / SECOND_NS
        return self.sum_by_cell(values if rows is None else np.where(rows, values, 0.0))

    def sum_by_cell(self, values: F64) -> F64:
        """Sum values of the table's rows by cell, (P, T)."""
        sums: F64 = np.bincount(self.cell_ids, values, self.cell_count).astype(np.float64).reshape(self.shape)
        return sums


@dataclass(frozen=True, slots=True)
class PairedObservations:
    """Both sides, and whether their columns and rows belong together.

    `pairing` is the reason for paired columns: `time`, `hours` or empty. `selectors` select the windows of
    the sides.
    """

    baseline: SideObservations
    comparison: SideObservations
    pairing: str
    same_pods: bool
    selectors: tuple[Selector, Selector]


@dataclass(frozen=True, slots=True)
class _BlockGrid:
    """Start (Unix ns), length and number of the blocks of a side."""

    start_ns: int
    block_ns: int
    block_count: int

    def column_of(self, ts: Column) -> I64:
        at = (to_int64_numpy(ts) - self.start_ns) // self.block_ns
        return np.clip(at, 0, self.block_count - 1)


def select_comparison_windows(
    context: QueryContext, sides: Sequence[WindowQuery], max_rows: int
) -> list[SelectedWindows]:
    """Select the windows of each side.

    They are selected one by one if that reads no more than `max_rows` rows of samples.
    """
    refs = {ref for side in sides for ref in context.list_segments(side.from_ns, side.until_ns)}
    if sum(ref.rows for ref in refs) <= max_rows:
        sides = [replace(side, by_window=True) for side in sides]
    return select_side_windows(context, sides)


def build_observations(
    sides: Sequence[WindowQuery], selected: Sequence[SelectedWindows]
) -> PairedObservations:
    """Cut the windows of both sides into cells."""
    a, b = selected
    names = [_list_pods(windows) for windows in selected]
    has_single_pods = [_has_single_pod_groups(windows) for windows in selected]
    by_pod = all(has_single_pods)
    same_pods = by_pod and bool(names[0]) and set(names[0]) == set(names[1])
    grids, pairing = _build_grids(sides, selected)
    cut_a, cut_b = (
        _observe_side(windows, own, frame, by_pod=by_pod)
        for windows, own, frame in zip((a, b), names, grids, strict=True)
    )
    return PairedObservations(cut_a, cut_b, pairing, same_pods, (sides[0].selector, sides[1].selector))


def observe_one_side(windows: SelectedWindows) -> SideObservations:
    """Cut windows that are compared with none into cells."""
    grid = _build_grid(_measure_span(windows))
    return _observe_side(windows, _list_pods(windows), grid, by_pod=_has_single_pod_groups(windows))


def _observe_side(
    windows: SelectedWindows, pods: Sequence[tuple[str, str]], grid: _BlockGrid, *, by_pod: bool
) -> SideObservations:
    row_of_pod, rows = _assign_rows(pods, by_pod=by_pod)

    def compute_cell_ids(table: pa.Table) -> I64:
        return row_of_pod[_index_pods(table, pods)] * grid.block_count + grid.column_of(table["ts"])

    process_rows = filter_process_rows(windows.process_windows)
    cell = compute_cell_ids(process_rows)
    keyed = process_rows.append_column(_CELL_COLUMN, pa.array(cell, pa.int64()))
    exposure, alive_seconds = np.zeros((2, len(rows) * grid.block_count))
    cpu_seconds = (
        np.bincount(cell, to_float64_numpy(process_rows["target_cpu_ns"]), len(exposure)) / SECOND_NS
    )
    for first, seconds, ns in iter_pod_time(keyed, _CELL_COLUMN):
        exposure[cell[first]] += seconds
        alive_seconds[cell[first]] += ns / SECOND_NS
    shape = (len(rows), grid.block_count)
    side = SideMatrix(exposure.reshape(shape), rows, grid.block_ns / SECOND_NS)
    by_day = grid.start_ns % DAY_NS == grid.block_ns % DAY_NS == 0
    cell = compute_cell_ids(windows.table)
    return SideObservations(
        windows,
        side,
        cell,
        by_pod,
        len(pods),
        by_day,
        grid.start_ns,
        alive_seconds.reshape(shape),
        cpu_seconds.reshape(shape),
    )


def _assign_rows(
    names: Sequence[tuple[str, str]], *, by_pod: bool
) -> tuple[I64, tuple[tuple[str, ...], ...]]:
    """Return the row of each pod and the pods of each row; there is at least one row."""
    if not by_pod or not names:
        place = [0] * len(names)
    elif len(names) <= MAX_ROWS:
        place = list(range(len(names)))
    else:
        place = [assign_row(*name) for name in names]
    count = MAX_ROWS if by_pod and len(names) > MAX_ROWS else max(place, default=0) + 1
    rows: list[list[str]] = [[] for _ in range(count)]
    for (_, pod), row in zip(names, place, strict=True):
        rows[row].append(pod)
    return np.array(place, np.int64), tuple(map(tuple, rows))


def _list_pods(windows: SelectedWindows) -> list[tuple[str, str]]:
    """List the distinct (namespace, pod), sorted."""
    pods = windows.process_windows.group_by(["namespace", "pod"], use_threads=False).aggregate([])
    return sorted(zip(to_strings(pods["namespace"]), to_strings(pods["pod"]), strict=True))


def _index_pods(table: pa.Table, names: Sequence[tuple[str, str]]) -> I64:
    """Return the index of the pod of each window."""
    number = {name: at for at, name in enumerate(names)}
    namespace, pod = dictionary_encode(table["namespace"]), dictionary_encode(table["pod"])
    texts = [to_strings(column.dictionary) for column in (namespace, pod)]
    codes = [to_int64_numpy(column.indices) for column in (namespace, pod)]
    size = max(len(texts[1]), 1)
    both, back = np.unique(codes[0] * size + codes[1], return_inverse=True)
    at = [number[texts[0][code // size], texts[1][code % size]] for code in both.tolist()]
    return np.array(at, np.int64)[back] if len(at) else np.zeros(0, np.int64)


def _has_single_pod_groups(windows: SelectedWindows) -> bool:
    """Return whether each group of stacks that is taken by the hour has one pod."""
    table = windows.table
    summed = table.filter(combine_chunks(table["group"]).is_valid())
    if not len(summed):
        return True
    keys = ["segment", "group", "namespace", "pod"]
    pods = summed.select(keys).group_by(keys, use_threads=False).aggregate([])
    groups = pods.group_by(["segment", "group"], use_threads=False).aggregate([])
    return len(groups) == len(pods)


@dataclass(frozen=True, slots=True)
class _ObservedSpan:
    """The time in which a side was observed, and the least length of its blocks (ns)."""

    first_ns: int
    last_ns: int
    min_block_ns: int


def _measure_span(windows: SelectedWindows) -> _ObservedSpan:
    table = windows.table
    if not len(table):
        return _ObservedSpan(0, 1, 1)
    group = combine_chunks(table["group"]).is_valid()
    first, last = to_int64_numpy(table["ts"]), to_int64_numpy(table["end_ns"])
    least = 1
    alone = table.filter(pc.invert(group))
    if len(alone):
        usual = alone.filter(is_equal_string(alone["capture"], ""))
        least = cast("int", pc.max((usual if len(usual) else alone)["longest_ns"]).as_py()) or 1
    if len(alone) < len(table):
        days = any(windows.resolution_of(ref) == "day" for ref in windows.block_hours)
        unit = DAY_NS if days or last.max() - first.min() > MAX_BLOCKS * DAY_NS else HOUR_NS
        hours = first.min() // unit * unit
        return _ObservedSpan(int(hours), max(int(-(-last.max() // unit) * unit), int(hours) + unit), unit)
    return _ObservedSpan(int(first.min()), max(int(last.max()), int(first.min()) + least), least)


def _build_grids(
    sides: Sequence[WindowQuery], selected: Sequence[SelectedWindows]
) -> tuple[tuple[_BlockGrid, _BlockGrid], str]:
    """Build the blocks of both sides, and their pairing: `time`, `hours` or empty."""
    a, b = (_measure_span(windows) for windows in selected)
    least = max(a.min_block_ns, b.min_block_ns)
    later = sides[1].from_ns - sides[0].from_ns
    same_length = sides[1].until_ns - sides[0].until_ns == later
    shift = later if same_length and later % DAY_NS == 0 else 0
    first = min(a.first_ns, b.first_ns - shift)
    last = max(a.last_ns, b.last_ns - shift)
    common = min(a.last_ns, b.last_ns - shift) - max(a.first_ns, b.first_ns - shift)
    if all(len(windows.table) for windows in selected) and common >= MIN_COMMON_SHARE * (last - first):
        own = _build_grid(_ObservedSpan(first, last, least))
        return (own, replace(own, start_ns=own.start_ns + shift)), "hours" if shift else "time"
    return (_build_grid(a), _build_grid(b)), ""


def _build_grid(span: _ObservedSpan) -> _BlockGrid:
    length = span.last_ns - span.first_ns
    if span.min_block_ns >= HOUR_NS and span.min_block_ns % HOUR_NS == 0:
        # The sum of an hour must lie in one block.
        step = -(-length // (MAX_BLOCKS * span.min_block_ns)) * span.min_block_ns
        return _BlockGrid(span.first_ns, step, -(-length // step))
    blocks = max(1, min(MAX_BLOCKS, length // span.min_block_ns))
    return _BlockGrid(span.first_ns, -(-length // blocks), blocks)


def sum_stacks_by_cell(context: QueryContext, observations: SideObservations) -> pa.Table:
    """Sum the samples by state of each (service, h, period_ns) in each `cell`.

    A key may occur more than once.
    """
    cells = pa.array(observations.cell_ids, pa.int32())
    return sum_window_cells(context, observations.windows, cells, use_days=observations.has_whole_day_blocks)
