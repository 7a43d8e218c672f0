"""The values of rules in a time range: mean cores or threads of each series.

Rules with the same selector and labels share one reading of windows and stacks. A value is the sampled time,
scaled up to the whole time of the pods where sampling had gaps, and divided by the length of the range. The
values of several pods and versions can therefore be added.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.answers.fleet_functions import name_dotted
from sidelight_collector.arrow_ops import (
    F64,
    I64,
    Array,
    combine_chunks,
    dictionary_encode,
    drop_duplicates,
    factorize_rows,
    repeat_value,
    row_numbers,
    to_float64_numpy,
    to_int64_numpy,
    to_strings,
)
from sidelight_collector.profile_metrics.rules import (
    ENDPOINT,
    FUNCTION,
    STATE,
    MetricRule,
    RuleResult,
    Series,
)
from sidelight_collector.query.call_tree import I32, Flags, TreeBuilder, pool_stacks
from sidelight_collector.query.engine.stack_text import StackWeights, resolve_stacks
from sidelight_collector.query.engine.window_cells import sum_window_cells
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.matchers import find_full_matches, get_label_column, match_endpoints
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.stack_filter import EndpointPool
from sidelight_collector.query.windows import SelectedWindows, WindowQuery
from sidelight_collector.storage.rollups.pod_time import filter_process_rows, iter_pod_time
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import STATES
from sidelight_model.frames import Frame, unescape_frame
from sidelight_model.packages import classify_frame
from sidelight_model.selectors import Selector

MAX_FUNCTIONS: Final = 1000
"""Functions of one rule whose series are computed, those with the most time; the others are dropped."""
MAX_TABLE_CELLS: Final = 4_000_000
NO_PACKAGE: Final = "(no file)"
_THREAD: Final = "thread"

Labels = tuple[tuple[str, str], ...]


def evaluate_rules(
    context: QueryContext, rules: Sequence[MetricRule], from_ns: int, until_ns: int, required: Selector
) -> list[RuleResult]:
    """Compute the series of each rule from windows that `required` selects too."""
    shared: dict[tuple[Selector, frozenset[str], tuple[str, ...]], list[int]] = defaultdict(list)
    for at, rule in enumerate(rules):
        shared[rule.selector, rule.required_states, tuple(sorted(rule.window_labels))].append(at)
    results: dict[int, RuleResult] = {}
    for (selector, states, labels), places in shared.items():
        query = WindowQuery(selector & required, from_ns, until_ns, by_window=True)
        windows = _drop_windows_without(select_windows(context, query), states)
        observations = _Observations(context, windows, labels, (until_ns - from_ns) / SECOND_NS)
        for at in places:
            results[at] = observations.evaluate(rules[at])
            context.deadline.remaining()
    return [results[at] for at in range(len(rules))]


@dataclass(frozen=True, slots=True)
class _Rows:
    """Rows of samples: the cell of each, and its time (ns) by state."""

    cells: I64
    state_ns: Mapping[str, F64]


@dataclass(frozen=True, slots=True)
class _StackRows(_Rows):
    """Rows with the index of their stack in `builder`."""

    stacks: I32
    builder: TreeBuilder


class _Observations:
    """Selected windows, in one cell for each combination of label values."""

    def __init__(
        self, context: QueryContext, windows: SelectedWindows, labels: Sequence[str], seconds: float
    ) -> None:
        self._context = context
        self._windows = windows
        self._seconds = seconds
        values, self._cells = _number_values(windows.table, labels)
        self._names: list[Labels] = [tuple(zip(labels, own, strict=True)) for own in values]
        self._factors = _compute_factors(windows, labels, values)

    def evaluate(self, rule: MetricRule) -> RuleResult:
        """Compute the series of a rule."""
        series: list[Series] = []
        dropped = 0
        needs_stacks = rule.frame_label or rule.stack_label or self._windows.endpoint_matchers
        rows = self._stack_rows if needs_stacks else self._window_rows
        # An observed service without samples of a function has 0; values of labels from stacks exceed 0.
        has_zeros = not rule.stack_label and STATE not in rule.by
        divided = STATE in rule.by
        for states in [(state,) for state in rule.states] if divided else [rule.states]:
            ns = sum((rows.state_ns[state] for state in states), np.zeros(len(rows.cells)))
            if self._windows.endpoint_matchers:
                ns = np.where(self._endpoints[1], ns, 0.0)
            own: Labels = ((STATE, states[0]),) if divided else ()
            for labels, cell_ns, more_dropped in self._divide(rule, rows, ns):
                dropped += more_dropped
                values = cell_ns / SECOND_NS * self._factors / self._seconds
                shown = np.isfinite(values) & ((values > 0) | has_zeros)
                for cell in np.flatnonzero(shown).tolist():
                    pairs = (*self._names[cell], *own, *labels, *rule.labels)
                    series.append(
                        Series(tuple(sorted(pair for pair in pairs if pair[1])), float(values[cell]))
                    )
        series.sort(key=lambda item: (-item.value, item.labels))
        return RuleResult(rule, tuple(series[: rule.limit]), dropped + len(series[rule.limit :]))

    def _divide(self, rule: MetricRule, rows: _Rows, ns: F64) -> Iterator[tuple[Labels, F64, int]]:
        """Divide the time of rows by labels that come from stacks.

        Yields these labels, the time of each cell, and a number of dropped series.
        """
        count = len(self._names)
        if not isinstance(rows, _StackRows) or not count:
            yield (), _sum_cells(rows.cells, ns, count), 0
            return
        if rule.frame_label:
            frames = [unescape_frame(name) for name in rows.builder.frame_names()]
            matches = _match_frames(rule, frames)
            if rule.stack_label == FUNCTION:
                yield from _divide_by_function(rule, rows, ns, frames, matches, count)
                return
            if rule.stack_label == rule.frame_label:
                packages = np.array([classify_frame(text).name for text in frames], object)
                for name in sorted(set(packages[matches])):
                    self._context.deadline.remaining()
                    flags = _match_stacks(rule, rows, matches & (packages == name))
                    yield (
                        ((rule.stack_label, name or NO_PACKAGE),),
                        _sum_cells(rows.cells[flags], ns[flags], count),
                        0,
                    )
                return
            ns = np.where(_match_stacks(rule, rows, matches), ns, 0.0)
        if rule.stack_label == ENDPOINT:
            yield from self._divide_by_endpoint(rows, ns, count)
        else:
            yield (), _sum_cells(rows.cells, ns, count), 0

    def _divide_by_endpoint(self, rows: _Rows, ns: F64, count: int) -> Iterator[tuple[Labels, F64, int]]:
        codes, _, names = self._endpoints
        order = np.argsort(codes, kind="stable")
        bounds = np.searchsorted(codes[order], np.arange(len(names) + 1))
        for code, name in enumerate(names):
            own = order[bounds[code] : bounds[code + 1]]
            if ns[own].any():
                yield ((ENDPOINT, name),), _sum_cells(rows.cells[own], ns[own], count), 0

    @cached_property
    def _window_rows(self) -> _Rows:
        """The rows of windows, whatever their stacks."""
        table = self._windows.table
        return _Rows(to_int64_numpy(self._cells), _sum_state_ns(table))

    @cached_property
    def _sums(self) -> StackWeights:
        sums = self._sum_table
        samples = repeat_value(1, pa.int64(), len(sums))
        service = dictionary_encode(sums["service"])
        return StackWeights(service, combine_chunks(sums["h"]), samples, combine_chunks(sums["period_ns"]))

    @cached_property
    def _sum_table(self) -> pa.Table:
        return sum_window_cells(self._context, self._windows, self._cells, use_days=False)

    @cached_property
    def _stack_rows(self) -> _StackRows:
        """The sums of each stack in each cell."""
        pooled = pool_stacks(self._context, [(self._windows, self._sums)])
        stacks = to_int64_numpy(pooled.sides[0][0]).astype(np.int32)
        cells = to_int64_numpy(self._sum_table["cell"])
        return _StackRows(cells, _sum_state_ns(self._sum_table), stacks, pooled.builder)

    @cached_property
    def _endpoints(self) -> tuple[I64, Flags, list[str]]:
        """The endpoint of each row.

        Returns its code, whether the selector accepts it, and the names of codes.
        """
        pool, sums = EndpointPool(), self._sums
        stacks = resolve_stacks(self._context, self._windows, sums.service, sums.hashes, pool)
        endpoints = dictionary_encode(pool.endpoints()["endpoint"]).take(stacks)
        accepted = match_endpoints(endpoints.dictionary, self._windows.endpoint_matchers)
        codes = to_int64_numpy(endpoints.indices)
        flags: Flags = np.array(accepted.to_pylist(), bool)[codes] if len(codes) else np.zeros(0, bool)
        return codes, flags, to_strings(endpoints.dictionary)


def _divide_by_function(
    rule: MetricRule, rows: _StackRows, ns: F64, frames: Sequence[str], matches: Flags, count: int
) -> Iterator[tuple[Labels, F64, int]]:
    everywhere = _sum_by_frame(rule, rows, ns, np.flatnonzero(matches), 1)[:, 0]
    candidates = np.flatnonzero(matches)[everywhere > 0]
    order = np.argsort(-everywhere[everywhere > 0], kind="stable")
    chosen = candidates[order[: max(1, min(MAX_FUNCTIONS, MAX_TABLE_CELLS // count))]]
    sums = _sum_by_frame(rule, rows, ns, chosen, count)
    dropped = len(candidates) - len(chosen)
    for number, cell_ns in zip(chosen.tolist(), sums, strict=True):
        frame = Frame.parse(frames[number])
        yield ((FUNCTION, frame.function), ("file", frame.file)), cell_ns, dropped
        dropped = 0


def _sum_by_frame(rule: MetricRule, rows: _StackRows, ns: F64, numbers: I64, count: int) -> F64:
    """Return the time (ns) of these frames in each of `count` cells.

    A `count` of 1 means all cells together.
    """
    if not len(numbers) or not len(ns):
        return np.zeros((len(numbers), count))
    places: I32 = np.full(len(rows.builder.frame_names()), -1, np.int32)
    places[numbers] = np.arange(len(numbers), dtype=np.int32)
    cells: I32 = rows.cells.astype(np.int32) if count > 1 else np.zeros(len(ns), np.int32)
    own, total = rows.builder.sum_by_frame((rows.stacks, cells, ns), places, count)
    return own if rule.is_self else total


def _match_stacks(rule: MetricRule, rows: _StackRows, frame_mask: Flags) -> Flags:
    """Return whether the stack of each row has a frame of the mask, or ends with one."""
    has_frame, ends_with = rows.builder.match_stacks(frame_mask)
    return (ends_with if rule.is_self else has_frame)[rows.stacks]


def _sum_cells(cells: I64, ns: F64, count: int) -> F64:
    sums: F64 = np.bincount(cells, ns, count).astype(np.float64)
    return sums


def _match_frames(rule: MetricRule, frames: Sequence[str]) -> Flags:
    """Return which frames match the pattern of a rule.

    A function matches as `function (file)` or by its dotted name.
    """
    if rule.frame_label != FUNCTION:
        if not rule.package:
            return np.ones(len(frames), bool)
        return np.array(find_full_matches(rule.package, [classify_frame(text).name for text in frames]), bool)
    if not rule.function:
        return np.ones(len(frames), bool)
    dotted = [name_dotted(Frame.parse(text)) for text in frames]
    matches = zip(
        find_full_matches(rule.function, frames), find_full_matches(rule.function, dotted), strict=True
    )
    return np.fromiter((any(pair) for pair in matches), bool, len(frames))


def _sum_state_ns(table: pa.Table) -> Mapping[str, F64]:
    period = to_float64_numpy(table["period_ns"])
    return {state: to_float64_numpy(table[state]) * period for state in STATES}


def _drop_windows_without(windows: SelectedWindows, states: Collection[str]) -> SelectedWindows:
    """Keep the windows of samplers that can tell all of these states."""
    if not states:
        return windows
    table = _drop_rows_without(windows.table, states)
    is_same = windows.process_windows is windows.table
    process_windows = table if is_same else _drop_rows_without(windows.process_windows, states)
    return replace(windows, table=table, process_windows=process_windows)


def _drop_rows_without(table: pa.Table, states: Collection[str]) -> pa.Table:
    lists = combine_chunks(table["missing_states"])
    is_required = pc.is_in(pc.list_flatten(lists), value_set=pa.array(sorted(states), pa.string()))
    rows = pc.list_parent_indices(lists).filter(is_required)
    return table.filter(pc.invert(pc.is_in(row_numbers(len(table)), value_set=rows))) if len(rows) else table


def _number_values(table: pa.Table, labels: Sequence[str]) -> tuple[list[tuple[str, ...]], Array]:
    """Number the combinations of label values.

    Returns them, and the number of each row.
    """
    if not labels:
        return [()] if len(table) else [], repeat_value(0, pa.int32(), len(table))
    columns = pa.table({str(at): get_label_column(table, name) for at, name in enumerate(labels)})
    numbers = factorize_rows(columns)
    distinct = drop_duplicates(columns.append_column("number", numbers), ["number"])
    values = zip(*(to_strings(distinct[str(at)]) for at in range(len(labels))), strict=True)
    return list(values), numbers


def _compute_factors(
    windows: SelectedWindows, labels: Sequence[str], values: Sequence[tuple[str, ...]]
) -> F64:
    """Return for each cell the time of its pods divided by their sampled time.

    It is NaN if that is unknown. Threads of a process are sampled together, so the label `thread` does not
    matter.
    """
    kept = [at for at, name in enumerate(labels) if name != _THREAD]
    process_rows = filter_process_rows(windows.process_windows)
    process_values, numbers = _number_values(process_rows, [labels[at] for at in kept])
    pod_seconds, observed_ns = np.zeros((2, len(process_values)))
    codes = to_int64_numpy(numbers)
    for row, seconds, ns in iter_pod_time(process_rows.append_column("number", numbers), "number"):
        pod_seconds[codes[row]] += seconds
        observed_ns[codes[row]] += ns
    factor_of = {
        value: observed_ns[at] / SECOND_NS / pod_seconds[at]
        for at, value in enumerate(process_values)
        if pod_seconds[at] > 0
    }
    return np.array([factor_of.get(tuple(own[at] for at in kept), np.nan) for own in values], float)
