"""How the pods of a side were sampled, to find those that differ from the rest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

import pyarrow as pa

from sidelight_collector.arrow_ops import sort_table, to_float64_numpy, to_strings
from sidelight_collector.comparison.matrix import SideObservations
from sidelight_collector.query.sampling_quality import (
    compute_share,
    list_nested_strings,
    list_nonempty_strings,
    sum_floats,
)
from sidelight_collector.statistics.comparability.sampling_summary import PodSampling
from sidelight_collector.storage.rollups.pod_time import filter_process_rows
from sidelight_model.counts import ON_CPU_STATES


def summarize_pods(observations: SideObservations) -> list[PodSampling]:
    """Summarize how each pod of a side was sampled, sorted by name."""
    windows = dict(_iter_pods(observations.windows.table))
    return [
        PodSampling(
            pod,
            modes=list_nonempty_strings(rows["mode"]),
            samplers=list_nonempty_strings(rows["sampler"]),
            readers=list_nonempty_strings(rows["reader"]),
            python_versions=list_nonempty_strings(rows["python"]),
            missing_states=list_nested_strings(rows["missing_states"]),
            coverage=compute_share(sum_floats(rows["covered_ns"]), sum_floats(rows["ticking_ns"])),
            cpu_wait_share=_compute_cpu_wait_share(windows[pod]) if pod in windows else None,
        )
        for pod, rows in _iter_pods(filter_process_rows(observations.windows.process_windows))
    ]


def _iter_pods(table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yield the name of each pod and its rows."""
    rows = sort_table(table, ["pod"])
    start = 0
    for pod, run in groupby(to_strings(rows["pod"])):
        length = sum(1 for _ in run)
        yield pod, rows.slice(start, length)
        start += length


def _compute_cpu_wait_share(windows: pa.Table) -> float | None:
    """Compute the part of the samples without idle ones that waited for a CPU."""
    if "cpu_wait" in list_nested_strings(windows["missing_states"]):
        return None
    periods = to_float64_numpy(windows["period_ns"])
    waited = float(to_float64_numpy(windows["cpu_wait"]) @ periods)
    on_cpu = sum(float(to_float64_numpy(windows[state]) @ periods) for state in ON_CPU_STATES)
    return waited / max(waited + on_cpu, 1e-9)
