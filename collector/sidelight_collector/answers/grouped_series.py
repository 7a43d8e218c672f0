"""Time series of sampled time by the values of some labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.answers.heatmap import require_single_rows, select_steps
from sidelight_collector.arrow_ops import (
    Array,
    add_columns,
    combine_chunks,
    drop_duplicates,
    factorize_rows,
    repeat_value,
    to_ints,
    to_strings,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.matchers import get_label_column
from sidelight_collector.query.windows import WindowQuery
from sidelight_model.counts import STATES_BY_TYPE, ProfileType
from sidelight_model.frames import OTHER
from sidelight_model.selectors import ENDPOINT_LABEL


@dataclass(frozen=True, slots=True)
class LabelledSeries:
    """The time (ns) sampled in each step that has windows, by the index of the step."""

    labels: Mapping[str, str]
    points: Mapping[int, int]

    @property
    def total_ns(self) -> int:
        return sum(self.points.values())


@dataclass(frozen=True, slots=True)
class GroupedSeries:
    """Series in descending order of their time.

    The first step starts at `first_step * step_ns`.
    """

    step_ns: int
    first_step: int
    steps: int
    series: Sequence[LabelledSeries]


@dataclass(frozen=True, slots=True)
class SeriesLimits:
    """The maximum numbers of steps, of series, and of points of all series together."""

    max_steps: int
    max_series: int
    max_points: int


_ROW: Final = "series"


def query_grouped_series(
    context: QueryContext,
    query: WindowQuery,
    kind: ProfileType,
    *,
    labels: Sequence[str],
    step_ns: int | None,
    limits: SeriesLimits,
    top: int | None = None,
) -> GroupedSeries:
    """Compute series, one for each combination of the values of `labels`.

    A window counts entirely in the step in which it began. If `step_ns` is None, a readable step is chosen.
    With `top` only that many series with the most time are returned. Series beyond `limits` are summed into
    one whose labels are `(other)`. Raises BadParameter for more steps than allowed, and where stacks of
    several series are stored summed together.
    """
    part = ENDPOINT_LABEL if ENDPOINT_LABEL in labels else ""
    steps = select_steps(context, query, labels, step_ns, limits.max_steps, "steps", "series", part)
    table = steps.table
    if steps.needs_single_rows:
        others = [name for name in labels if name != ENDPOINT_LABEL]
        require_single_rows(_number_rows(table, others)[1], " and ".join(others))
    names, table = _number_rows(table, labels)
    table = table.append_column("samples", add_columns(table, STATES_BY_TYPE[kind]))
    series = _sum_series(table, names, steps.step_ns, steps.first)
    bound = min(limits.max_series, max(limits.max_points // max(steps.count, 1), 1))
    return GroupedSeries(steps.step_ns, steps.first, steps.count, _limit_series(series, labels, top, bound))


def _number_rows(table: pa.Table, labels: Sequence[str]) -> tuple[list[dict[str, str]], pa.Table]:
    """Number the combinations of label values.

    Returns the labels of each, without empty values, and the table with the column `series`.
    """
    if not labels:
        return [{}], table.append_column(_ROW, repeat_value(0, pa.int32(), len(table)))
    keys = pa.table({str(at): _get_column(table, name) for at, name in enumerate(labels)})
    numbers = factorize_rows(keys)
    distinct = drop_duplicates(keys.append_column(_ROW, numbers), [_ROW])
    columns = [to_strings(distinct[str(at)]) for at in range(len(labels))]
    names = [
        {label: value for label, value in zip(labels, values, strict=True) if value}
        for values in zip(*columns, strict=True)
    ]
    return names, table.append_column(_ROW, numbers)


def _get_column(table: pa.Table, name: str) -> Array:
    return combine_chunks(table[ENDPOINT_LABEL]) if name == ENDPOINT_LABEL else get_label_column(table, name)


def _sum_series(
    table: pa.Table, names: Sequence[Mapping[str, str]], step: int, first: int
) -> list[LabelledSeries]:
    steps = pc.subtract(pc.divide(table["ts"], step), first)
    grouped = (
        table.append_column("step", steps)
        .group_by([_ROW, "step", "period_ns"], use_threads=False)
        .aggregate([("samples", "sum")])
    )
    points: list[dict[int, int]] = [{} for _ in names]
    for row, at, period, samples in zip(*map(to_ints, grouped.columns), strict=True):
        points[row][at] = points[row].get(at, 0) + samples * period
    return [
        LabelledSeries(labels, dict(sorted(of_row.items())))
        for labels, of_row in zip(names, points, strict=True)
        if of_row
    ]


def _limit_series(
    series: Sequence[LabelledSeries], labels: Sequence[str], top: int | None, bound: int
) -> list[LabelledSeries]:
    """Return the series with the most time, and the sum of the others."""
    ranked = sorted(series, key=lambda series: (-series.total_ns, sorted(series.labels.items())))
    if top is not None and top <= bound:
        return ranked[:top]
    if len(ranked) <= bound:
        return ranked
    rest: dict[int, int] = {}
    for one in ranked[bound:top]:
        for at, ns in one.points.items():
            rest[at] = rest.get(at, 0) + ns
    other = LabelledSeries(dict.fromkeys(labels, OTHER), dict(sorted(rest.items())))
    return [*ranked[:bound], other]
