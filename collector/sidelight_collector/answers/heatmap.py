"""The heatmap: what each row of a grid took in each column of time, read off windows without their stacks.

Rows are pods, values of a label, or the hours of a day; columns are steps of time, or days where rows are
hours. A window counts whole in the cell in which it began. The cheapest rows beyond what is wanted are added
up in `others`, so nothing is left out of the sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypedDict, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.answers.catalog import Version
from sidelight_collector.answers.timeline import suitable_step
from sidelight_collector.arrow_ops import Array, firsts, integers, numbered, one, stacked, strings, sum_of
from sidelight_collector.query.data_basis import Basis, basis
from sidelight_collector.query.engine.stack_text import STATES_OF
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.sampling_quality import Quality, quality, said
from sidelight_collector.query.select.local_time import Days, clock_of, days
from sidelight_collector.query.select.matchers import label
from sidelight_collector.query.select.pod_time import processes, watched_seconds
from sidelight_collector.query.select.window_query import (
    choose,
)
from sidelight_collector.query.windows import (
    Question,
    Windows,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType

PODS: Final = "pod"
HOURS: Final = "hour"
THREADS: Final = "thread"
DAY_HOURS: Final = 24

Number = TypeVar("Number", int, float)


class Cells(TypedDict):
    """Columns of one row; None where nothing was watched. `seconds / pod_seconds` is the rate."""

    seconds: list[float | None]
    pod_seconds: list[float | None]
    samples: list[int | None]


class Others(Cells):
    """What all rows together took that are not told apart."""

    rows: int


# `from` is a word of the language, so this one is written as a call.
_Range = TypedDict("_Range", {"from": float, "until": float})


class Heatmap(_Range):
    """Cells by row and column, the row that took most first; hours in their order.

    `row` has the name of each row, `namespace` where a pod is; `start` is when each column begins, in Unix
    seconds; `step_seconds` is how long columns are, None for days, which clocks make longer or shorter.
    `versions` says of each row when each version was seen on it.
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
    versions: list[list[Version]]
    others: Others
    modes: list[str]
    quality: Quality
    basis: Basis


@dataclass(frozen=True, slots=True)
class Bounds:
    """Most columns, most rows that are wanted, and most cells of both."""

    columns: int
    rows: int
    cells: int


@dataclass(frozen=True, slots=True)
class _Grid:
    """Chosen windows with the `row` and `column` that each belongs to, and what rows are called.

    `names` are namespace and name of each row. `step_ns` is None where columns are days.
    """

    windows: Windows
    table: pa.Table
    whole: pa.Table
    names: Sequence[tuple[str, str]]
    start: Sequence[float]
    step_ns: int | None


def heatmap(
    reading: Reading,
    question: Question,
    kind: ProfileType,
    *,
    rows: str,
    step_ns: int | None,
    zone: str,
    bounds: Bounds,
) -> Heatmap:
    """What each row took in each column of the range."""
    by_hour, clock = rows == HOURS, clock_of(zone)
    if by_hour and step_ns is not None:
        raise BadParameter("hours of the day have no step", hint="Their columns are days: leave step out.")
    grid = (
        _hours(reading, question, days(question.from_ns, question.until_ns, clock), bounds)
        if by_hour
        else _labels(reading, question, rows, step_ns, bounds)
    )
    table = grid.table.append_column("samples", sum_of(grid.table, STATES_OF[kind]))
    count = len(grid.start)
    most = min(bounds.rows, bounds.cells // max(count, 1))
    kept = list(range(DAY_HOURS)) if by_hour else _dearest(table, grid.names, most)
    slots = _slots(kept, len(grid.names))
    table, whole = (
        of.append_column("slot", slots.take(one(of["row"]))) for of in (table, processes(grid.whole))
    )
    cells = _cells(table, whole, len(kept) + 1, count, together=rows == THREADS)
    versions = _versions(table, len(kept))
    return {
        "type": kind.value,
        "rows": rows,
        "zone": zone if by_hour else "UTC",
        "step_seconds": None if grid.step_ns is None else grid.step_ns / SECOND_NS,
        "start": list(grid.start),
        "row": [grid.names[at][1] for at in kept],
        "namespace": [grid.names[at][0] for at in kept],
        "seconds": [of["seconds"] for of in cells[:-1]],
        "pod_seconds": [of["pod_seconds"] for of in cells[:-1]],
        "samples": [of["samples"] for of in cells[:-1]],
        "versions": versions,
        "others": {"rows": len(grid.names) - len(kept), **cells[-1]},
        "from": question.from_ns / SECOND_NS,
        "until": question.until_ns / SECOND_NS,
        "modes": said(whole["mode"]),
        "quality": quality(table, whole),
        "basis": basis([grid.windows], kind, reading.unreadable),
    }


def _labels(reading: Reading, question: Question, rows: str, step_ns: int | None, bounds: Bounds) -> _Grid:
    """Rows of a label by steps of time, which are those that a timeline has."""
    length = question.until_ns - question.from_ns
    windows = choose(reading, question, stacks=False, step_ns=step_ns or suitable_step(length))
    step = step_ns or suitable_step(length, windows.table)
    first = question.from_ns // step
    count = max(-(-question.until_ns // step) - first, 0)
    if count > min(bounds.columns, bounds.cells):
        raise BadParameter(
            f"{count} columns are more than the {min(bounds.columns, bounds.cells)} that a heatmap may have",
            hint="Use a longer step or a shorter range.",
        )
    names, table, whole = _named(windows, rows)
    table, whole = (
        of.append_column("column", pc.subtract(pc.divide(of["ts"], step), first)) for of in (table, whole)
    )
    return _Grid(windows, table, whole, names, [(first + at) * step / SECOND_NS for at in range(count)], step)


def _named(windows: Windows, rows: str) -> tuple[list[tuple[str, str]], pa.Table, pa.Table]:
    """The names of rows, and chosen and watched windows with the number of theirs."""
    parts = [_keys(of, rows) for of in (windows.table, windows.watched)]
    both = stacked(parts)
    number = numbered(both)
    found = firsts(both.append_column("number", number), ["number"])
    names = list(zip(strings(found["namespace"]), strings(found["name"]), strict=True))
    cut = len(windows.table)
    return (
        names,
        windows.table.append_column("row", number[:cut]),
        windows.watched.append_column("row", number[cut:]),
    )


def _keys(table: pa.Table, rows: str) -> pa.Table:
    """Namespace and name of the row of each window: pods may be called alike in two namespaces."""
    nowhere = pa.array([""] * len(table), pa.string()).dictionary_encode()
    namespace = one(table["namespace"]) if rows == PODS else nowhere
    return pa.table({"namespace": namespace, "name": label(table, rows)})


def _hours(reading: Reading, question: Question, calendar: Days, bounds: Bounds) -> _Grid:
    """Hours of the day by days, as clocks show them."""
    count = len(calendar.start)
    most = min(bounds.columns, bounds.cells // DAY_HOURS)
    if count > most:
        raise BadParameter(
            f"{count} days are more than the {most} that a heatmap may have", hint="Use a shorter range."
        )
    windows = choose(reading, question, stacks=False, step_ns=calendar.unit_ns)
    names = [("", f"{hour:02d}") for hour in range(DAY_HOURS)]
    table, whole = (
        of.append_column("row", hour).append_column("column", day)
        for of in (windows.table, windows.watched)
        for hour, day in [calendar.places(of["ts"])]
    )
    return _Grid(windows, table, whole, names, calendar.start, None)


def _dearest(table: pa.Table, names: Sequence[tuple[str, str]], most: int) -> list[int]:
    """The rows that took most time, at most so many; those that took the same by name."""
    added = table.group_by(["row", "period_ns"], use_threads=False).aggregate([("samples", "sum")])
    took = [0] * len(names)
    for row, period, samples in zip(*map(integers, added.columns), strict=True):
        took[row] += samples * period
    return sorted(range(len(names)), key=lambda row: (-took[row], names[row]))[:most]


def _slots(kept: Sequence[int], rows: int) -> Array:
    """For each row where it stands in the answer; behind all others if it is not told apart."""
    slots = [len(kept)] * rows
    for slot, row in enumerate(kept):
        slots[row] = slot
    return pa.array(slots, pa.int32())


def _cells(table: pa.Table, whole: pa.Table, rows: int, count: int, *, together: bool) -> list[Cells]:
    """The cells of each row. `together`: rows are parts of processes, and watched while these are."""
    ns = [[0] * count for _ in range(rows)]
    samples = [[0] * count for _ in range(rows)]
    watched = [[0.0] * count for _ in range(rows)]
    seen = [[False] * count for _ in range(rows)]
    added = table.group_by(["slot", "column", "period_ns"], use_threads=False).aggregate([("samples", "sum")])
    for row, column, period, sampled in zip(*map(integers, added.columns), strict=True):
        samples[row][column] += sampled
        ns[row][column] += sampled * period
        seen[row][column] = True
    slots, columns = integers(whole["slot"]), integers(whole["column"])
    if together:
        for at, seconds in watched_seconds(whole, "column"):
            for row in range(rows):
                watched[row][columns[at]] += seconds if seen[row][columns[at]] else 0.0
    else:
        for at, seconds in watched_seconds(whole, "slot", "column"):
            watched[slots[at]][columns[at]] += seconds
            seen[slots[at]][columns[at]] = True
    return [
        {
            "seconds": _where_seen([value / SECOND_NS for value in ns[row]], seen[row]),
            "pod_seconds": _where_seen(watched[row], seen[row]),
            "samples": _where_seen(samples[row], seen[row]),
        }
        for row in range(rows)
    ]


def _where_seen(values: Sequence[Number], seen: Sequence[bool]) -> list[Number | None]:
    return [value if there else None for value, there in zip(values, seen, strict=True)]


def _versions(table: pa.Table, rows: int) -> list[list[Version]]:
    """For each row when each version was seen on it, in the order in which they appeared."""
    added = table.group_by(["slot", "version"], use_threads=False).aggregate(
        [("ts", "min"), ("end_ns", "max")]
    )
    columns = (added["slot"], added["ts_min"], added["end_ns_max"])
    found = sorted(zip(*map(integers, columns), strings(added["version"]), strict=True))
    versions: list[list[Version]] = [[] for _ in range(rows)]
    for row, first, last, version in found:
        if row < rows:
            versions[row].append(
                {"version": version, "first_seen": first / SECOND_NS, "last_seen": last / SECOND_NS}
            )
    return versions
