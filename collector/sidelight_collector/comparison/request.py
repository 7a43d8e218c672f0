"""Options of a comparison, and the observations of a side besides its stacks.

These are how the side was sampled and how long its threads were idle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    F64,
    Column,
    combine_chunks,
    is_equal_string,
    to_float64_numpy,
    to_int64_numpy,
)
from sidelight_collector.comparison.matrix import (
    SideObservations,
)
from sidelight_collector.query.call_tree import Flags
from sidelight_collector.query.sampling_quality import (
    compute_share,
    list_nested_strings,
    list_nonempty_strings,
    sum_floats,
    sum_seconds,
)
from sidelight_collector.statistics.basis import Basis
from sidelight_collector.statistics.comparability.sampling_summary import MIN_COVERAGE, SamplingSummary
from sidelight_collector.statistics.inference.design import SideMatrix
from sidelight_collector.storage.rollups.pod_time import filter_process_rows
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import OFF_CPU_STATES, ON_CPU_STATES, THREAD_STATES
from sidelight_model.gates import Condition

THREAD_KINDS: Final = ("main", "other")
"""The kinds of threads."""


@dataclass(frozen=True, slots=True)
class ComparisonOptions:
    """The options of one comparison.

    `min_effect` is the relative change that should be detectable, `analysis_index` the number of this
    analysis of the same sides (0 if it is the only one), and `alpha` the rate of false alarms.
    `request_counts` makes rates per request; `missing_requests_reason` says why there are no counts. A
    coverage below `min_coverage` gives a warning. Beyond `max_rows` windows whole hours are read. At most
    `max_functions` functions are listed, and at most `max_tests` functions and as many nodes are tested.
    `conditions` are evaluated. `basis` is what is tested; None chooses the best that is possible. Changes
    below `min_relevant_share` of the profile or `min_relevant_depth` frames are minor.
    """

    min_effect: float = 0.05
    analysis_index: int = 0
    alpha: float = 0.05
    max_functions: int = 200
    request_counts: tuple[float, float] | None = None
    missing_requests_reason: str = ""
    conditions: tuple[Condition, ...] = ()
    min_coverage: float = MIN_COVERAGE
    max_rows: int = 5_000_000
    max_tests: int = 10_000
    basis: Basis | None = None
    min_relevant_share: float = 0.01
    min_relevant_depth: float = 0.1


def measure_idle_time(observations: SideObservations, thread: str | None) -> tuple[F64, SideMatrix, float]:
    """Measure the idle time of a side, of all threads or of one kind.

    Idle threads wait for something other than a CPU or the GIL. Returns the idle seconds in each cell, the
    matrix of all thread time, and the number of idle samples.
    """
    rows = _mask_idle_windows(observations.windows.table, thread)
    idle, all_seconds = (observations.sum_seconds(states, rows) for states in (OFF_CPU_STATES, THREAD_STATES))
    table = observations.windows.table
    samples = float(sum(to_float64_numpy(table[state])[rows].sum() for state in OFF_CPU_STATES))
    return idle, SideMatrix(all_seconds, observations.matrix.pods, observations.matrix.block_seconds), samples


def _mask_idle_windows(table: pa.Table, thread: str | None) -> Flags:
    """Return which windows have a sampler that records waiting threads.

    `thread` selects one kind of thread; None means all.
    """
    lists = combine_chunks(table["missing_states"])
    blind = to_int64_numpy(pc.list_parent_indices(lists))[
        _to_bool_array(is_equal_string(pc.list_flatten(lists), "idle"))
    ]
    records_idle = np.ones(len(table), bool)
    records_idle[blind] = False
    return (
        records_idle
        if thread is None
        else records_idle & _to_bool_array(is_equal_string(table["thread"], thread))
    )


def _to_bool_array(column: Column) -> Flags:
    return np.array(column.to_pylist(), bool)


def distribute_requests(observations: SideObservations, requests: float) -> F64:
    """Return the requests in each cell, (P, T).

    They are distributed evenly over the time in which pods existed.
    """
    share: F64 = observations.alive_seconds / max(float(observations.alive_seconds.sum()), 1e-9)
    return share * requests


def build_exposure_matrix(
    observations: SideObservations, requests: F64 | None, *, by_clock: bool = False
) -> SideMatrix:
    """Build the exposure of a side, in requests if their counts are available.

    Only the part of a cell's requests that came during the observed time counts. The kernel's clock
    (`by_clock`) continues while ticks fail, so for it all the time in which pods existed counts.
    """
    exposure = observations.alive_seconds if by_clock else observations.matrix.exposure
    if requests is not None:
        exposure = exposure * np.divide(
            requests,
            observations.alive_seconds,
            out=np.zeros_like(exposure),
            where=observations.alive_seconds > 0,
        )
    return SideMatrix(exposure, observations.matrix.pods, observations.matrix.block_seconds)


def _compute_cpu_wait_share(observations: SideObservations) -> float | None:
    table = observations.windows.table
    if not len(table) or "cpu_wait" in list_nested_strings(table["missing_states"]):
        return None
    waited, on_cpu = (
        float(observations.sum_seconds(states).sum()) for states in (("cpu_wait",), ON_CPU_STATES)
    )
    return waited / max(waited + on_cpu, 1e-9)


def summarize_sampling(observations: SideObservations, requests: F64 | None) -> SamplingSummary:
    """Summarize how a side was sampled, for the checks."""
    table, process_rows = (
        observations.windows.table,
        filter_process_rows(observations.windows.process_windows),
    )
    pod_seconds, alive = observations.matrix.total_exposure, float(observations.alive_seconds.sum())
    cpu = sum_seconds(process_rows["target_cpu_ns"])
    samples = sum(int(to_int64_numpy(table[state]).sum()) for state in THREAD_STATES)
    truncated = sum_floats(table["truncated"])
    return SamplingSummary(
        windows=int(to_int64_numpy(table["windows"]).sum()),
        pods=observations.pod_count,
        pod_seconds=pod_seconds,
        modes=list_nonempty_strings(process_rows["mode"]),
        periods_us=sorted({period / 1000 for period in to_int64_numpy(process_rows["period_ns"]).tolist()}),
        samplers=list_nonempty_strings(process_rows["sampler"]),
        readers=list_nonempty_strings(process_rows["reader"]),
        python_versions=list_nonempty_strings(process_rows["python"]),
        missing_states=list_nested_strings(process_rows["missing_states"]),
        thread_kinds=list_nonempty_strings(table["thread"]),
        truncated_share=truncated / max(samples, truncated, 1),
        coverage=compute_share(
            sum_floats(process_rows["covered_ns"]), sum_floats(process_rows["ticking_ns"])
        ),
        cpu_rate=cpu / alive if cpu > 0 and alive > 0 else None,
        sampled_cpu_rate=float(observations.sum_seconds(ON_CPU_STATES).sum()) / pod_seconds
        if observations.has_cpu_clock and pod_seconds > 0
        else None,
        cpu_wait_share=_compute_cpu_wait_share(observations),
        request_rate=None if requests is None or not alive else float(requests.sum()) / alive,
        start_seconds=(pc.min(table["ts"]).as_py() or 0) / SECOND_NS,
        end_seconds=(pc.max(table["end_ns"]).as_py() or 0) / SECOND_NS,
    )
