"""The `steps` table of a closed day: its windows in steps of ten minutes.

A row stands for the windows of a step that have the same service, version, namespace, capture, period, mode,
reader and `trigger` label, of all pods together. So a timeline of a service costs the same whatever the
number of its pods. Its pod-seconds cannot be computed from sums, so a row has them: `pod_seconds` and
`pod_count` are those of the service in its namespace, in the first row of each step, and 0 in others.
"""

from __future__ import annotations

from math import fsum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    combine_chunks,
    dictionary_encode,
    factorize_rows,
    sort_table,
    to_int64_numpy,
    to_ints,
    to_strings,
)
from sidelight_collector.storage.rollups.hourly_rollup import add_up_rows, build_window_rows
from sidelight_collector.storage.rollups.pod_time import filter_process_rows, iter_pod_seconds
from sidelight_collector.storage.tables import STEP_KEY_COLUMNS, STEP_NS, STEPS


def roll_up_steps(profiles: pa.Table) -> pa.Table:
    """Build the `steps` table of whole steps."""
    rows = build_window_rows(sort_table(profiles, ["service", "pod", "ts", "wid"]))
    triggers = pc.map_lookup(combine_chunks(rows["labels"]), pa.scalar("trigger"), "first")
    rows = rows.append_column("step", pc.divide(rows["ts"], pa.scalar(STEP_NS)))
    rows = rows.append_column("trigger", dictionary_encode(pc.fill_null(triggers, "")))
    keys = [name for name in STEP_KEY_COLUMNS if name != "labels"]
    rows = sort_table(rows, ["step"])
    rows = rows.append_column("number", factorize_rows(rows.select(["step", *keys, "trigger"])))
    columns = add_up_rows(rows)
    count = len(columns["ts"])
    first_triggers = dict(zip(to_ints(rows["number"])[::-1], to_strings(rows["trigger"])[::-1], strict=True))
    labels = [[("trigger", first_triggers[at])] if first_triggers[at] else [] for at in range(count)]
    process_rows = filter_process_rows(rows)
    numbers = to_int64_numpy(process_rows["number"])
    pod_times: list[list[float]] = [[] for _ in range(count)]
    place = _find_first_numbers(process_rows, numbers)
    for row, pod_seconds in iter_pod_seconds(process_rows, "service", "step"):
        pod_times[place[row]].append(pod_seconds)
    pods = process_rows.select(["number", "pod"]).group_by(["number", "pod"], use_threads=False).aggregate([])
    pods = sort_table(pods, ["number", "pod"])
    ends = np.searchsorted(to_int64_numpy(pods["number"]), np.arange(count + 1))
    columns |= {
        "labels": pa.array(labels, STEPS.field("labels").type),
        "pods": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), dictionary_encode(pods["pod"])),
        "pod_count": pa.array([len(times) for times in pod_times], pa.int64()),
        "pod_seconds": pa.array([fsum(times) for times in pod_times], pa.float64()),
    }
    return pa.table({name: columns[name] for name in STEPS.names}, schema=STEPS)


def _find_first_numbers(process_rows: pa.Table, numbers: np.ndarray) -> np.ndarray:
    """Return for each row the least number of its service and namespace in its step."""
    groups = to_int64_numpy(factorize_rows(process_rows.select(["step", "service", "namespace"])))
    least = np.full(groups.max(initial=-1) + 1, np.iinfo(np.int64).max)
    np.minimum.at(least, groups, numbers)
    return least[groups]
