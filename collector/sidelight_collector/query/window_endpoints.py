"""The samples of single windows by endpoint, for answers over time.

Where stacks are stored summed over an hour or a day, one window of the group has all of its samples.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    Array,
    build_dictionary_array,
    combine_chunks,
    concat_tables,
    dictionary_encode,
    filter_rows,
    list_unique_strings,
    row_numbers,
    to_int64_numpy,
    to_strings,
)
from sidelight_collector.query.engine.stack_endpoints import UNKNOWN, read_endpoints
from sidelight_collector.query.engine.window_cells import CellLookup
from sidelight_collector.query.engine.window_sums import plan_scans, read_scans
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.matchers import match_endpoints
from sidelight_collector.query.windows import SelectedWindows
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import DAY_NS
from sidelight_model.counts import STATES


def count_matching_samples(context: QueryContext, windows: SelectedWindows) -> pa.Table:
    """Return the windows' table with the samples of stacks that match on `endpoint`."""
    if not windows.endpoint_matchers:
        return windows.table
    sums = _sum_by_endpoint(context, windows)
    rows, table = to_int64_numpy(sums["row"]), windows.table
    for state in STATES:
        counts = np.zeros(len(table), np.int64)
        np.add.at(counts, rows, to_int64_numpy(sums[state]))
        at = table.schema.get_field_index(state)
        table = table.set_column(at, table.field(at), pa.array(counts))
    return table


def divide_by_endpoint(context: QueryContext, windows: SelectedWindows) -> pa.Table:
    """Return a row for each window and `endpoint`, with their samples."""
    sums = _sum_by_endpoint(context, windows)
    table = windows.table.take(sums["row"])
    for state in STATES:
        at = table.schema.get_field_index(state)
        table = table.set_column(at, table.field(at), sums[state])
    return table.append_column("endpoint", sums["endpoint"])


def find_least_step_ns(windows: SelectedWindows) -> int:
    """Return a day if stacks are stored summed over days, else 0."""
    return DAY_NS if any(windows.resolution_of(ref) == "day" for ref in windows.block_hours) else 0


def _sum_by_endpoint(context: QueryContext, windows: SelectedWindows) -> pa.Table:
    """Sum the samples by state of each window and endpoint that the query accepts.

    `row` is the row of the window in the windows' table.
    """
    services = list_unique_strings(windows.table["service"])
    lookup = CellLookup(windows, row_numbers(len(windows.table)))
    codes: dict[str, int] = {}
    endpoints: dict[SegmentRef, tuple[Array, Array]] = {}
    parts: list[pa.Table] = []
    for scan, table in read_scans(context, plan_scans(context, windows, use_days=False)):
        context.deadline.remaining()
        if scan.ref not in endpoints:
            endpoints[scan.ref] = _number_endpoints(context, scan.ref, services, codes)
        hashes, numbers = endpoints[scan.ref]
        unknown = codes.setdefault(UNKNOWN.name, len(codes))
        at = numbers.take(pc.index_in(combine_chunks(table["h"]), value_set=hashes))
        columns = {"row": lookup.find_cells(scan, table), "code": pc.fill_null(at, pa.scalar(unknown))}
        keyed = pa.table({**columns, **{state: table[state] for state in STATES}})
        parts.append(_merge(keyed.filter(keyed["row"].is_valid())))
    if not parts:
        parts = [_merge(pa.table({name: pa.array([], pa.int64()) for name in ("row", "code", *STATES)}))]
    sums = _merge(concat_tables(parts))
    names = build_dictionary_array(sums["code"].cast(pa.int32()), pa.array(list(codes), pa.string()))
    sums = sums.append_column("endpoint", names)
    return filter_rows(sums, match_endpoints(names.dictionary, windows.endpoint_matchers).take(names.indices))


def _merge(table: pa.Table) -> pa.Table:
    sums = table.group_by(["row", "code"], use_threads=False).aggregate([(state, "sum") for state in STATES])
    return pa.table(
        {"row": sums["row"], "code": sums["code"], **{state: sums[f"{state}_sum"] for state in STATES}}
    )


def _number_endpoints(
    context: QueryContext, ref: SegmentRef, services: list[str], codes: dict[str, int]
) -> tuple[Array, Array]:
    """Return the hashes of a segment's stacks, and the number of the endpoint of each."""
    table = read_endpoints(context, [ref], services)[0]
    names = dictionary_encode(table["endpoint"])
    numbers = [codes.setdefault(name, len(codes)) for name in to_strings(names.dictionary)]
    return combine_chunks(table["h"]), pa.array(numbers, pa.int64()).take(names.indices)
