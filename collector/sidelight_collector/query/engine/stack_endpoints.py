"""The endpoints of stacks, found once for each stack of a segment and cached."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Final, cast

import numpy as np
import pyarrow as pa

from sidelight_collector.arrow_ops import (
    ListColumn,
    build_dictionary_array,
    combine_chunks,
    dictionary_encode,
    to_int64_numpy,
    to_strings,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.storage.segments import SegmentRef
from sidelight_collector.storage.tables import filter_services
from sidelight_model.endpoints.endpoint_search import NO_ENDPOINT, Endpoint, search_roles
from sidelight_model.endpoints.frame_roles import FrameRole, classify_frame
from sidelight_model.frames import escape_frame

UNKNOWN: Final = Endpoint("", NO_ENDPOINT)
"""Stands for the endpoint of stacks without one."""
_GROUP_PREFIX: Final = "endpoint "
"""Begins the frame of an endpoint, so that it is not taken for the frame of its function."""


def read_endpoints(
    context: QueryContext, refs: Sequence[SegmentRef], services: Collection[str]
) -> list[pa.Table]:
    """Read the endpoints of the stacks of some services, from each segment.

    The tables have the columns `service`, `h`, `endpoint` and `framework`.
    """
    names = tuple(sorted(services))
    derive = partial(_build_endpoint_table, services=names)
    return context.derive_tables(refs, "stacks", names, derive, names)


def group_stacks(context: QueryContext, table: pa.Table, services: Collection[str]) -> pa.Table:
    """Return the stacks of some services, each below a frame for its endpoint."""
    table = filter_services(table, services)
    frames = cast("ListColumn", combine_chunks(table["frames"]))
    found = dictionary_encode(_build_endpoint_table(table, services)["endpoint"])
    context.deadline.remaining()
    flat = dictionary_encode(frames.flatten())
    groups = [
        escape_frame(name if name == NO_ENDPOINT else _GROUP_PREFIX + name)
        for name in to_strings(found.dictionary)
    ]
    dictionary = pa.concat_arrays([flat.dictionary, pa.array(groups, flat.dictionary.type)])
    lengths = to_int64_numpy(frames.value_lengths())
    starts = np.cumsum(lengths) - lengths
    roots = to_int64_numpy(found.indices) + len(flat.dictionary)
    codes = np.insert(to_int64_numpy(flat.indices), starts, roots)
    offsets = np.append(0, np.cumsum(lengths + 1))
    values = build_dictionary_array(pa.array(codes, pa.int32()), dictionary)
    grouped = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values)
    return pa.table({"service": table["service"], "h": table["h"], "frames": grouped})


def _build_endpoint_table(table: pa.Table, services: Collection[str]) -> pa.Table:
    table = filter_services(table, services)
    codes, distinct = find_endpoints(cast("ListColumn", combine_chunks(table["frames"])))
    indices = pa.array(codes, pa.int32())
    columns = {
        name: build_dictionary_array(indices, pa.array([getattr(endpoint, field) for endpoint in distinct]))
        for name, field in (("endpoint", "name"), ("framework", "framework"))
    }
    return pa.table({"service": table["service"], "h": table["h"], **columns})


def find_endpoints(frames: ListColumn) -> tuple[list[int], list[Endpoint]]:
    """Find the endpoint of each stack: a number for each, and the endpoints by number."""
    flat = dictionary_encode(frames.flatten())
    distinct, codes = np.unique(to_int64_numpy(flat.indices), return_inverse=True)
    roles = [classify_frame(text) for text in to_strings(flat.dictionary.take(distinct))]
    is_caller = np.array([role.calls > 0 for role in roles], bool)
    lengths = to_int64_numpy(frames.value_lengths())
    ends = np.cumsum(lengths)
    callers = np.flatnonzero(is_caller[codes])
    stacks = np.searchsorted(ends, callers, side="right")
    numbers = {UNKNOWN: 0}
    found = [0] * len(frames)
    all_codes: list[int] = codes.tolist()

    def get_role(at: int) -> FrameRole:
        return roles[all_codes[at]]

    for stack, pairs in groupby(zip(stacks.tolist(), callers.tolist(), strict=True), itemgetter(0)):
        endpoint = search_roles((at for _, at in pairs), int(ends[stack]), get_role)
        if endpoint is not None:
            found[stack] = numbers.setdefault(endpoint, len(numbers))
    return found, list(numbers)
