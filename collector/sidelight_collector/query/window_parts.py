"""The samples of single windows by endpoint or package, for answers over time.

Where stacks are stored summed over an hour or a day, one window of the group has all of its samples.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    Column,
    build_dictionary_array,
    combine_chunks,
    concat_tables,
    dictionary_encode,
    filter_rows,
    row_numbers,
    to_int64_numpy,
    to_strings,
)
from sidelight_collector.query.engine.stack_endpoints import UNKNOWN, read_endpoints
from sidelight_collector.query.engine.stack_packages import read_packages
from sidelight_collector.query.engine.window_cells import CellLookup
from sidelight_collector.query.engine.window_sums import plan_scans, read_scans
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.matchers import match_endpoints
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import DAY_NS
from sidelight_model.counts import STATES
from sidelight_model.selectors import ENDPOINT_LABEL

PACKAGE: Final = "package"
STACK_PARTS: Final = {ENDPOINT_LABEL: (read_endpoints, UNKNOWN.name), PACKAGE: (read_packages, "")}
"""What reads each part of a stack, and what an unknown stack has."""


def count_matching_samples(context: QueryContext, windows: SelectedWindows) -> pa.Table:
    """Return the windows' table with the samples of stacks that match on `endpoint`."""
    if not windows.endpoint_matchers:
        return windows.table
    sums = _sum_by_parts(context, windows, [ENDPOINT_LABEL])
    rows, table = to_int64_numpy(sums["row"]), windows.table
    for state in STATES:
        counts = np.zeros(len(table), np.int64)
        np.add.at(counts, rows, to_int64_numpy(sums[state]))
        at = table.schema.get_field_index(state)
        table = table.set_column(at, table.field(at), pa.array(counts))
    return table


def divide_by_part(context: QueryContext, windows: SelectedWindows, part: str) -> pa.Table:
    """Return rows for each window and value of a part of stacks, with their samples.

    `part` is one of STACK_PARTS, and a column of the table.
    """
    parts = {part, ENDPOINT_LABEL} if windows.endpoint_matchers else {part}
    sums = _sum_by_parts(context, windows, sorted(parts))
    table = windows.table.take(sums["row"])
    for state in STATES:
        at = table.schema.get_field_index(state)
        table = table.set_column(at, table.field(at), sums[state])
    return table.append_column(part, sums[part])


def find_least_step_ns(windows: SelectedWindows) -> int:
    """Return a day if stacks are stored summed over days, else 0."""
    return DAY_NS if any(windows.resolution_of(ref) == "day" for ref in windows.block_hours) else 0


def _sum_by_parts(context: QueryContext, windows: SelectedWindows, parts: Collection[str]) -> pa.Table:
    """Sum the samples by state of each window and part of its accepted stacks.

    `row` is the row of the window in the windows' table.
    """
    services = windows.services
    lookup = CellLookup(windows, row_numbers(len(windows.table)))
    codes: dict[str, dict[str, int]] = {part: {STACK_PARTS[part][1]: 0} for part in parts}
    numbered: dict[tuple[SegmentRef, str], tuple[Array, Array]] = {}
    keys = ["row", *parts]
    empty = pa.table({name: pa.array([], pa.int64()) for name in (*keys, *STATES)})
    summed = [_merge(empty, keys)]
    for scan, table in read_scans(context, plan_scans(context, windows, use_days=False), services):
        context.deadline.remaining()
        columns: dict[str, Column] = {state: table[state] for state in STATES}
        columns["row"] = lookup.find_cells(scan, table)
        for part in parts:
            if (scan.ref, part) not in numbered:
                numbered[scan.ref, part] = _number_stacks(context, scan.ref, services, part, codes[part])
            hashes, numbers = numbered[scan.ref, part]
            at = pc.index_in(combine_chunks(table["h"]), value_set=hashes)
            columns[part] = numbers.take(at).fill_null(0)
        keyed = pa.table(columns)
        summed.append(_merge(keyed.filter(keyed["row"].is_valid()), keys))
    sums = _merge(concat_tables(summed), keys)
    for part in parts:
        names = build_dictionary_array(sums[part].cast(pa.int32()), pa.array(list(codes[part]), pa.string()))
        sums = sums.set_column(sums.schema.get_field_index(part), part, names)
    if ENDPOINT_LABEL not in parts:
        return sums
    names = dictionary_encode(sums[ENDPOINT_LABEL])
    return filter_rows(sums, match_endpoints(names.dictionary, windows.endpoint_matchers).take(names.indices))


def _merge(table: pa.Table, keys: list[str]) -> pa.Table:
    sums = table.group_by(keys, use_threads=False).aggregate([(state, "sum") for state in STATES])
    return sums.rename_columns([name.removesuffix("_sum") for name in sums.column_names])


def _number_stacks(
    context: QueryContext, ref: SegmentRef, services: list[str], part: str, codes: dict[str, int]
) -> tuple[Array, Array]:
    """Return the hashes of a segment's stacks, and the number of a part of each."""
    table = STACK_PARTS[part][0](context, [ref], services)[0]
    names = dictionary_encode(table[part])
    numbers = [codes.setdefault(name, len(codes)) for name in to_strings(names.dictionary)]
    return combine_chunks(table["h"]), pa.array(numbers, pa.int64()).take(names.indices)
