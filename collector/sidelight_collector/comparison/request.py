"""What is wanted of a verdict, and what a side tells besides its stacks: how it was watched, and waiting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.arrow_ops import (
    F64,
    Column,
    float64_array,
    int64_array,
    is_word,
    one,
)
from sidelight_collector.comparison.matrix import (
    ON_CPU,
    Cut,
)
from sidelight_collector.query.call_tree import Flags
from sidelight_collector.query.sampling_quality import added, flattened, said, seconds, share
from sidelight_collector.query.select.pod_time import processes
from sidelight_collector.statistics.comparability import LEAST_COVERAGE, Taken
from sidelight_collector.statistics.inference.design import Side
from sidelight_collector.storage.tables import STATES
from sidelight_collector.times import SECOND_NS
from sidelight_model.gates import Condition

THREADS: Final = ("main", "other")
"""The kinds of threads."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is wanted of a verdict.

    detect: the relative change one wants to be able to see; look: the how manieth time these sides are looked
    at, 0 where it is the only one; alpha: how often a change may be found where there is none. limit: most
    functions that are listed.
    requests: of each side, where rates are per request; trouble: why they are not. least_coverage: below it
    is warned. most_rows: of samples that are read one by one; most_tested: most functions, and most nodes,
    that are tested. conditions: to be judged. assume_equal_load: sides at different times had the same load.
    """

    detect: float = 0.05
    look: int = 0
    alpha: float = 0.05
    limit: int = 200
    requests: tuple[float, float] | None = None
    trouble: str = ""
    conditions: tuple[Condition, ...] = ()
    least_coverage: float = LEAST_COVERAGE
    most_rows: int = 5_000_000
    most_tested: int = 10_000
    assume_equal_load: bool = False


def waited(own: Cut, thread: str | None) -> tuple[F64, Side, float]:
    """Seconds in which threads waited in each cell, all of their time, and the samples of waiting."""
    rows = _telling(own.windows.table, thread)
    idle, every = own.seconds(("idle",), rows), own.seconds(STATES, rows)
    samples = float(float64_array(own.windows.table["idle"])[rows].sum())
    return idle, Side(every, own.side.pods, own.side.seconds), samples


def _telling(table: pa.Table, thread: str | None) -> Flags:
    """Windows whose sampler sees waiting threads, of one kind of thread or of all."""
    lists = one(table["missing_states"])
    blind = int64_array(pc.list_parent_indices(lists))[_bools(is_word(pc.list_flatten(lists), "idle"))]
    telling = np.ones(len(table), bool)
    telling[blind] = False
    return telling if thread is None else telling & _bools(is_word(table["thread"], thread))


def _bools(column: Column) -> Flags:
    return np.array(column.to_pylist(), bool)


def served(own: Cut, requests: float) -> F64:
    """Requests in each cell, (P, T), that came as evenly as pods were there."""
    share: F64 = own.alive / max(float(own.alive.sum()), 1e-9)
    return share * requests


def scaled(own: Cut, requests: F64 | None, *, clock: bool = False) -> Side:
    """What was watched, in requests where those of each cell are known.

    Of the requests of a cell those are counted that came while somebody watched. The kernel's `clock` goes
    on while ticks fail: for it all the time counts in which pods were there.
    """
    watched = own.alive if clock else own.side.watched
    if requests is not None:
        watched = watched * np.divide(requests, own.alive, out=np.zeros_like(watched), where=own.alive > 0)
    return Side(watched, own.side.pods, own.side.seconds)


def taken(own: Cut, requests: F64 | None) -> Taken:
    """How a side was watched, for the checks."""
    table, watched = own.windows.table, processes(own.windows.watched)
    pod_seconds, alive = own.side.whole, float(own.alive.sum())
    cpu = seconds(watched["target_cpu_ns"])
    samples = sum(int(int64_array(table[state]).sum()) for state in STATES)
    truncated = added(table["truncated"])
    return Taken(
        windows=int(int64_array(table["windows"]).sum()),
        pods=own.pods,
        pod_seconds=pod_seconds,
        modes=said(watched["mode"]),
        periods_us=sorted({period / 1000 for period in int64_array(watched["period_ns"]).tolist()}),
        samplers=said(watched["sampler"]),
        readers=said(watched["reader"]),
        pythons=said(watched["python"]),
        missing_states=flattened(watched["missing_states"]),
        kinds=said(table["thread"]),
        truncated=truncated / max(samples, truncated, 1),
        coverage=share(added(watched["covered_ns"]), added(watched["ticking_ns"])),
        cpu=cpu / alive if cpu > 0 and alive > 0 else None,
        sampled=float(own.seconds(ON_CPU).sum()) / pod_seconds if own.clocked and pod_seconds > 0 else None,
        requests=None if requests is None or not alive else float(requests.sum()) / alive,
        first=(pc.min(table["ts"]).as_py() or 0) / SECOND_NS,
        last=(pc.max(table["end_ns"]).as_py() or 0) / SECOND_NS,
    )
