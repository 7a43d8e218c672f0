"""The package that each stack of a segment ends in, found once and cached."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import cast

import numpy as np
import pyarrow as pa

from sidelight_collector.arrow_ops import (
    ListColumn,
    combine_chunks,
    dictionary_encode,
    to_int64_numpy,
    to_strings,
)
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.storage.segments import SegmentRef
from sidelight_model.frames import unescape_frame
from sidelight_model.packages import classify_frame


def read_packages(
    context: QueryContext, refs: Sequence[SegmentRef], services: Collection[str]
) -> list[pa.Table]:
    """Read the packages of the last frames of stacks, from each segment.

    They are the stacks of some services. The tables have the columns `h` and `package`, which is empty for
    a frame without a file.
    """
    key = ("package", *sorted(services))
    return context.derive_tables(refs, "stacks", key, _build_package_table, services)


def _build_package_table(table: pa.Table) -> pa.Table:
    frames = cast("ListColumn", combine_chunks(table["frames"]))
    ends = np.cumsum(to_int64_numpy(frames.value_lengths()))
    last = dictionary_encode(frames.flatten().take(pa.array(ends - 1, pa.int64())))
    names = [classify_frame(unescape_frame(frame)).name for frame in to_strings(last.dictionary)]
    return pa.table({"h": table["h"], "package": pa.array(names, pa.string()).take(last.indices)})
