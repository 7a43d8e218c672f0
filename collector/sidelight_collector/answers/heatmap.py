"""The heatmap: sampled time by row and column, from windows without their stacks.

Rows are pods, values of a label, endpoints, packages, or the hours of a day; columns are time steps, or days
if rows are hours. A window counts entirely in the cell in which it began. The cheapest rows beyond the limit
are added up in `others`, so the cells add up to the total.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import fsum
from typing import Final, TypedDict, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.answers.catalog import VersionLifetime
from sidelight_collector.answers.timeline import choose_step_ns
from sidelight_collector.arrow_ops import (
    Array,
    add_columns,
    combine_chunks,
    concat_tables,
    dictionary_encode,
    drop_duplicates,
    factorize_rows,
    repeat_value,
    to_ints,
    to_strings,
)
from sidelight_collector.query.data_basis import DataBasis, build_basis
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.sampling_quality import (
    QualitySummary,
    list_nonempty_strings,
    summarize_quality,
)
from sidelight_collector.query.select.local_time import CalendarDays, list_calendar_days, parse_time_zone
from sidelight_collector.query.select.matchers import get_label_column
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.window_parts import (
    PACKAGE,
    STACK_PARTS,
    count_matching_samples,
    divide_by_part,
    find_least_step_ns,
)
from sidelight_collector.query.windows import (
    SelectedWindows,
    WindowQuery,
)
from sidelight_collector.storage.rollups.pod_time import filter_process_rows, iter_pod_seconds
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import STATES_BY_TYPE, ProfileType
from sidelight_model.endpoints.endpoint_search import NO_ENDPOINT
from sidelight_model.selectors import ENDPOINT_LABEL

POD_ROWS: Final = "pod"
HOUR_ROWS: Final = "hour"
PROCESS_PART_ROWS: Final = ("thread", ENDPOINT_LABEL, PACKAGE)
"""Rows that are parts of processes, which share the time of their pods."""
HOURS_PER_DAY: Final = 24

Number = TypeVar("Number", int, float)


class HeatmapCells(TypedDict):
    """The cells of one row by column; None where nothing was observed.

    `seconds / pod_seconds` is the rate.
    """

    seconds: list[float | None]
    pod_seconds: list[float | None]
    samples: list[int | None]


class OtherRows(HeatmapCells):
    """The sum of the rows beyond the limit; `rows` is their number."""

    rows: int


# `from` is a keyword, which the class syntax does not allow as a field.
_Range = TypedDict("_Range", {"from": float, "until": float})


class Heatmap(_Range):
    """Cells by row and column, heaviest row first; hours in ascending order.

    `row` has the name of each row, and `namespace` the namespace of a pod. `start` is the start of each
    column in Unix seconds. `step_seconds` is the length of columns, None for days, whose length changes
    with daylight saving time. `versions` has the lifetimes of the versions of each row.
    """

    type: str
    rows: str
    zone: str
    step_seconds: float | None
    start: list[float]
    row: list[str]
    namespace: list[str]
    seconds: list[list[float | None]]
    pod_seconds: list[list[float | None]]
    samples: list[list[int | None]]
    versions: list[list[VersionLifetime]]
    others: OtherRows
    modes: list[str]
    quality: QualitySummary
    basis: DataBasis


@dataclass(frozen=True, slots=True)
class HeatmapLimits:
    """The maximum numbers of columns, of requested rows, and of cells."""

    max_columns: int
    max_rows: int
    max_cells: int


@dataclass(frozen=True, slots=True)
class _HeatmapGrid:
    """The selected windows with their `row` and `column`, and the names of rows.

    `names` has (namespace, name) of each row. `step_ns` is None if columns are days.
    """

    windows: SelectedWindows
    table: pa.Table
    process_rows: pa.Table
    names: Sequence[tuple[str, str]]
    column_starts: Sequence[float]
    step_ns: int | None


def query_heatmap(
    context: QueryContext,
    query: WindowQuery,
    kind: ProfileType,
    *,
    rows: str,
    step_ns: int | None,
    zone: str,
    limits: HeatmapLimits,
) -> Heatmap:
    """Compute the heatmap of a range.

    `rows` is `pod`, `hour`, `endpoint`, `package` or a label name. If `step_ns` is None, a readable step is
    chosen. `zone` is the time zone of the hours of a day. Raises BadParameter for a step with rows of hours,
    for more columns than allowed, and where stacks of several rows are stored summed together.
    """
    by_hour, time_zone = rows == HOUR_ROWS, parse_time_zone(zone)
    if by_hour and step_ns is not None:
        raise BadParameter("hours of the day have no step", hint="Their columns are days: leave step out.")
    grid = (
        _build_hour_grid(context, query, list_calendar_days(query.from_ns, query.until_ns, time_zone), limits)
        if by_hour
        else _build_label_grid(context, query, rows, step_ns, limits)
    )
    table = grid.table.append_column("samples", add_columns(grid.table, STATES_BY_TYPE[kind]))
    count = len(grid.column_starts)
    max_rows = min(limits.max_rows, limits.max_cells // max(count, 1))
    shown_rows = list(range(HOURS_PER_DAY)) if by_hour else _select_heaviest_rows(table, grid.names, max_rows)
    slots = _assign_slots(shown_rows, max(len(grid.names), 1))  # processes of parts are in row 0
    table, process_rows = (
        part.append_column("slot", slots.take(combine_chunks(part["row"])))
        for part in (table, filter_process_rows(grid.process_rows))
    )
    cells = _build_cells(
        table, process_rows, len(shown_rows) + 1, count, shares_pod_time=rows in PROCESS_PART_ROWS
    )
    versions = _list_versions_by_row(table, len(shown_rows))
    return {
        "type": kind.value,
        "rows": rows,
        "zone": zone if by_hour else "UTC",
        "step_seconds": None if grid.step_ns is None else grid.step_ns / SECOND_NS,
        "start": list(grid.column_starts),
        "row": [grid.names[at][1] for at in shown_rows],
        "namespace": [grid.names[at][0] for at in shown_rows],
        "seconds": [row["seconds"] for row in cells[:-1]],
        "pod_seconds": [row["pod_seconds"] for row in cells[:-1]],
        "samples": [row["samples"] for row in cells[:-1]],
        "versions": versions,
        "others": {"rows": len(grid.names) - len(shown_rows), **cells[-1]},
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "modes": list_nonempty_strings(process_rows["mode"]),
        "quality": summarize_quality(grid.windows.table, process_rows),
        "basis": build_basis([grid.windows], kind, context.unreadable_count),
    }


@dataclass(frozen=True, slots=True)
class WindowSteps:
    """Windows of a range and its time steps.

    The first step starts at `first * step_ns`. `table` has the windows' samples, by a part of stacks
    where that is asked for. `needs_single_rows`: see `require_single_rows`.
    """

    windows: SelectedWindows
    table: pa.Table
    step_ns: int
    first: int
    count: int
    needs_single_rows: bool


def select_steps(
    context: QueryContext,
    query: WindowQuery,
    labels: Sequence[str],
    step_ns: int | None,
    max_steps: int,
    unit: str,
    answer: str,
    part: str,
) -> WindowSteps:
    """Select windows to count by step and label.

    `part` is one of STACK_PARTS among the labels, or empty.
    If `step_ns` is None, a readable step is chosen. Raises BadParameter for more than `max_steps` steps;
    `unit` and `answer` name them in the error.
    """
    with_stacks = bool(part or query.endpoint_matchers)
    needs_single_rows = with_stacks and any(name != part for name in labels)
    if needs_single_rows:
        query = replace(query, by_window=True)
    length = query.until_ns - query.from_ns
    windows = select_windows(
        context, query, with_stacks=with_stacks, step_ns=step_ns or choose_step_ns(length)
    )
    least_step = find_least_step_ns(windows) if with_stacks else 0
    step = step_ns or choose_step_ns(length, windows.table, least_step)
    first = query.from_ns // step
    count = max(-(-query.until_ns // step) - first, 0)
    if count > max_steps:
        raise BadParameter(
            f"{count} {unit} are more than the {max_steps} that a {answer} may have",
            hint="Use a longer step or a shorter range.",
        )
    table = divide_by_part(context, windows, part) if part else count_matching_samples(context, windows)
    return WindowSteps(windows, table, step, first, count, needs_single_rows)


def _build_label_grid(
    context: QueryContext, query: WindowQuery, rows: str, step_ns: int | None, limits: HeatmapLimits
) -> _HeatmapGrid:
    """Build a grid with a label's values as rows and time steps as columns.

    The steps are chosen as for a timeline.
    """
    max_columns = min(limits.max_columns, limits.max_cells)
    part = rows if rows in STACK_PARTS else ""
    steps = select_steps(context, query, [rows], step_ns, max_columns, "columns", "heatmap", part)
    windows = steps.windows
    names, table, process_rows = _number_label_rows(steps.table, windows.process_windows, rows)
    if steps.needs_single_rows:
        require_single_rows(table, rows)
    table, process_rows = (
        part.append_column("column", pc.subtract(pc.divide(part["ts"], steps.step_ns), steps.first))
        for part in (table, process_rows)
    )
    starts = [(steps.first + at) * steps.step_ns / SECOND_NS for at in range(steps.count)]
    return _HeatmapGrid(windows, table, process_rows, names, starts, steps.step_ns)


def _number_label_rows(
    table: pa.Table, process_windows: pa.Table, rows: str
) -> tuple[list[tuple[str, str]], pa.Table, pa.Table]:
    """Number the rows.

    Returns the (namespace, name) of each row, and the selected windows and the process windows with a
    column `row`, the index of their row.
    """
    if rows in STACK_PARTS:  # its rows are parts of all processes
        part = dictionary_encode(table[rows].cast(pa.string()))  # only the names that occur
        none = repeat_value(0, pa.int32(), len(process_windows))
        return (
            [("", name) for name in to_strings(part.dictionary)],
            table.append_column("row", part.indices),
            process_windows.append_column("row", none),
        )
    keys = [_build_row_keys(part, rows) for part in (table, process_windows)]
    both = concat_tables(keys)
    number = factorize_rows(both)
    distinct = drop_duplicates(both.append_column("number", number), ["number"])
    names = list(zip(to_strings(distinct["namespace"]), to_strings(distinct["name"]), strict=True))
    cut = len(table)
    return (
        names,
        table.append_column("row", number[:cut]),
        process_windows.append_column("row", number[cut:]),
    )


def require_single_rows(table: pa.Table, rows: str) -> None:
    """Raise BadParameter if stacks of several rows are stored summed together."""
    keys = ["segment", "group"]
    summed = table.filter(combine_chunks(table["group"]).is_valid())
    row_groups = summed.select([*keys, "row"]).group_by([*keys, "row"], use_threads=False).aggregate([])
    if row_groups.num_rows > row_groups.group_by(keys, use_threads=False).aggregate([]).num_rows:
        raise BadParameter(
            f"in a part of this range, stacks are stored summed over several values of {rows}",
            hint=f"Use rows={ENDPOINT_LABEL}, a later range, or a selector without {ENDPOINT_LABEL}.",
        )


def _build_row_keys(table: pa.Table, rows: str) -> pa.Table:
    """Return the namespace and name of each window's row.

    Only pods have a namespace, because pods in two namespaces may have the same name.
    """
    no_namespace = pa.array([""] * len(table), pa.string()).dictionary_encode()
    namespace = combine_chunks(table["namespace"]) if rows == POD_ROWS else no_namespace
    return pa.table({"namespace": namespace, "name": get_label_column(table, rows)})


def _build_hour_grid(
    context: QueryContext, query: WindowQuery, calendar: CalendarDays, limits: HeatmapLimits
) -> _HeatmapGrid:
    """Build a grid with hours of the day as rows and days as columns, in local time."""
    count = len(calendar.midnights)
    max_days = min(limits.max_columns, limits.max_cells // HOURS_PER_DAY)
    if count > max_days:
        raise BadParameter(
            f"{count} days are more than the {max_days} that a heatmap may have", hint="Use a shorter range."
        )
    windows = select_windows(
        context, query, with_stacks=bool(query.endpoint_matchers), step_ns=calendar.offset_unit_ns
    )
    if query.endpoint_matchers and find_least_step_ns(windows):
        raise BadParameter(
            "in a part of this range, stacks are stored summed over a day", hint="Use a later range."
        )
    names = [("", f"{hour:02d}") for hour in range(HOURS_PER_DAY)]
    table, process_rows = (
        part.append_column("row", hour).append_column("column", day)
        for part in (count_matching_samples(context, windows), windows.process_windows)
        for hour, day in [calendar.locate(part["ts"])]
    )
    return _HeatmapGrid(windows, table, process_rows, names, calendar.midnights, None)


def _select_heaviest_rows(table: pa.Table, names: Sequence[tuple[str, str]], max_rows: int) -> list[int]:
    """Select up to `max_rows` rows with the most time; ties are sorted by name."""
    grouped = table.group_by(["row", "period_ns"], use_threads=False).aggregate([("samples", "sum")])
    row_ns = [0] * len(names)
    for row, period, samples in zip(*map(to_ints, grouped.columns), strict=True):
        row_ns[row] += samples * period
    ranked = sorted(range(len(names)), key=lambda row: (-row_ns[row], names[row]))
    shown = ranked[:max_rows]
    # The share without an endpoint is shown however small it is.
    hidden = [row for row in ranked[max_rows:] if names[row] == ("", NO_ENDPOINT)]
    return [*shown[: max_rows - len(hidden)], *hidden]


def _assign_slots(shown_rows: Sequence[int], rows: int) -> Array:
    """Map each row to its index in `shown_rows`; the other rows share the last slot."""
    slots = [len(shown_rows)] * rows
    for slot, row in enumerate(shown_rows):
        slots[row] = slot
    return pa.array(slots, pa.int32())


def _build_cells(
    table: pa.Table, process_rows: pa.Table, rows: int, count: int, *, shares_pod_time: bool
) -> list[HeatmapCells]:
    """Build the cells of each row.

    With `shares_pod_time` rows are parts of processes: each row with samples in a column has the pod time
    of all processes in that column.
    """
    ns = [[0] * count for _ in range(rows)]
    samples = [[0] * count for _ in range(rows)]
    pod_seconds = [[0.0] * count for _ in range(rows)]
    is_observed = [[False] * count for _ in range(rows)]
    grouped = table.group_by(["slot", "column", "period_ns"], use_threads=False).aggregate(
        [("samples", "sum")]
    )
    for row, column, period, sampled in zip(*map(to_ints, grouped.columns), strict=True):
        samples[row][column] += sampled
        ns[row][column] += sampled * period
        is_observed[row][column] = True
    slots, columns = to_ints(process_rows["slot"]), to_ints(process_rows["column"])
    keys = ["column"] if shares_pod_time else ["slot", "column"]
    pod_times = defaultdict[tuple[int, int], list[float]](list)
    for at, seconds in iter_pod_seconds(process_rows, *keys):
        pod_times[0 if shares_pod_time else slots[at], columns[at]].append(seconds)
    for (slot, column), times in pod_times.items():
        total = fsum(times)
        for row in range(rows) if shares_pod_time else [slot]:
            pod_seconds[row][column] = total
            is_observed[row][column] |= not shares_pod_time
    return [
        {
            "seconds": _mask_unobserved([value / SECOND_NS for value in ns[row]], is_observed[row]),
            "pod_seconds": _mask_unobserved(pod_seconds[row], is_observed[row]),
            "samples": _mask_unobserved(samples[row], is_observed[row]),
        }
        for row in range(rows)
    ]


def _mask_unobserved(values: Sequence[Number], is_observed: Sequence[bool]) -> list[Number | None]:
    return [value if observed else None for value, observed in zip(values, is_observed, strict=True)]


def _list_versions_by_row(table: pa.Table, rows: int) -> list[list[VersionLifetime]]:
    """List the lifetimes of each row's versions, in the order of their first window."""
    grouped = table.group_by(["slot", "version"], use_threads=False).aggregate(
        [("ts", "min"), ("end_ns", "max")]
    )
    columns = (grouped["slot"], grouped["ts_min"], grouped["end_ns_max"])
    lifetimes = sorted(zip(*map(to_ints, columns), to_strings(grouped["version"]), strict=True))
    versions: list[list[VersionLifetime]] = [[] for _ in range(rows)]
    for row, first, last, version in lifetimes:
        if row < rows:
            versions[row].append(
                {"version": version, "first_seen": first / SECOND_NS, "last_seen": last / SECOND_NS}
            )
    return versions
