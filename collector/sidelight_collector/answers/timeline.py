"""The timeline: what was seen when, in steps of equal length."""

from collections.abc import Sequence
from typing import Final, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.answers.catalog import Version, versions
from sidelight_collector.arrow_ops import integers, is_word, one, sum_of
from sidelight_collector.query.data_basis import Basis, basis
from sidelight_collector.query.engine.stack_text import STATES_OF
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.sampling_quality import Quality, quality, said, share
from sidelight_collector.query.select.pod_time import processes, watched_seconds
from sidelight_collector.query.select.window_query import (
    choose,
)
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType

STEPS: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800),
)
"""Lengths of a step in seconds that read well on an axis."""
WANTED_POINTS: Final = 240
HOUR_SECONDS: Final = 3600


class Rolled(TypedDict):
    """When a revision of a workload began to roll out and was complete (Unix seconds; None while not)."""

    namespace: str
    kind: str
    workload: str
    revision: int
    version: str
    started: float
    ended: float | None


class RolledVersion(Version):
    """A version and its rollouts, where the collector watches the cluster."""

    rollouts: list[Rolled]


class Timeline(TypedDict):
    """Columns by step; a window counts whole in the step in which it began.

    `start` is Unix seconds, a multiple of the step; `seconds` is sampled time of the profile type;
    `seconds / pod_seconds` is the rate. `coverage` and `stopped_share` are those of the step, `modes` and
    `quality` of the range.
    """

    type: str
    step_seconds: float
    start: list[float]
    seconds: list[float]
    pod_seconds: list[float]
    samples: list[int]
    windows: list[int]
    pods: list[int]
    coverage: list[float | None]
    stopped_share: list[float | None]
    versions: list[RolledVersion]
    modes: list[str]
    quality: Quality
    basis: Basis


def timeline(
    reading: Reading,
    question: Question,
    kind: ProfileType,
    *,
    step_ns: int | None,
    most: int,
    rolled: Sequence[Rolled] = (),
) -> Timeline:
    """What was seen in each step of the range; without `step_ns` one is chosen. `rolled` goes to versions."""
    least = step_ns or suitable_step(question.until_ns - question.from_ns)
    chosen = choose(reading, question, stacks=False, step_ns=least)
    table = chosen.table
    step = step_ns or suitable_step(question.until_ns - question.from_ns, table)
    first = question.from_ns // step
    count = max(-(-question.until_ns // step) - first, 0)
    if count > most:
        raise BadParameter(
            f"{count} steps are more than the {most} that a timeline may have",
            hint="Use a longer step or a shorter range.",
        )
    whole = processes(chosen.watched)
    table, whole = (
        rows.append_column("step", pc.subtract(pc.divide(rows["ts"], step), first)) for rows in (table, whole)
    )
    table = table.append_column("samples", sum_of(table, STATES_OF[kind]))
    added = table.group_by(["step", "period_ns"], use_threads=False).aggregate(
        [("samples", "sum"), ("windows", "sum")]
    )
    samples, ns, windows = [0] * count, [0] * count, [0] * count
    for at, period, sampled, began in zip(*map(integers, added.columns), strict=True):
        samples[at] += sampled
        ns[at] += sampled * period
        windows[at] += began
    watched, pods = [0.0] * count, [0] * count
    steps = integers(whole["step"])
    for row, seconds in watched_seconds(whole, "step"):
        watched[steps[row]] += seconds
        pods[steps[row]] += 1
    covered, stopped = _told(whole, count)
    return {
        "type": kind.value,
        "step_seconds": step / SECOND_NS,
        "start": [(first + index) * step / SECOND_NS for index in range(count)],
        "seconds": [one / SECOND_NS for one in ns],
        "pod_seconds": watched,
        "samples": samples,
        "windows": windows,
        "pods": pods,
        "coverage": covered,
        "stopped_share": stopped,
        "versions": [_with_rollouts(one, rolled) for one in versions(table)],
        "modes": said(whole["mode"]),
        "quality": quality(table, whole),
        "basis": basis([chosen], kind, reading.unreadable),
    }


def _with_rollouts(version: Version, rolled: Sequence[Rolled]) -> RolledVersion:
    own = [one for one in rolled if one["version"] == version["version"]]
    return {**version, "rollouts": own}


def _told(processes: pa.Table, count: int) -> tuple[list[float | None], list[float | None]]:
    """Coverage and the share of time lost in each step."""
    names = ("covered_ns", "ticking_ns", "stopped_ns", "stopping_ns")
    sums = processes.group_by("step", use_threads=False).aggregate([(name, "sum") for name in names])
    covered: list[float | None] = [None] * count
    stopped: list[float | None] = [None] * count
    for row in sums.to_pylist():
        at = int(row["step"])
        covered[at] = share(row["covered_ns_sum"], row["ticking_ns_sum"])
        stopped[at] = share(row["stopped_ns_sum"], row["stopping_ns_sum"])
    return covered, stopped


def suitable_step(range_ns: int, windows: pa.Table | None = None) -> int:
    """A step in ns that gives a readable number of points, and no shorter than windows are long.

    Captures may be longer; hours of windows that are not kept one by one any longer are taken as such.
    """
    wanted = range_ns / WANTED_POINTS / SECOND_NS
    if windows is not None:
        whole = windows.filter(is_word(windows["capture"], ""))
        usual = pc.max((whole if len(whole) else windows)["longest_ns"]).as_py() or 0
        by_hour = one(windows["group"]).null_count < len(windows)
        wanted = max(wanted, usual / SECOND_NS, HOUR_SECONDS if by_hour else 0)
    return next((step for step in STEPS if step >= wanted), STEPS[-1]) * SECOND_NS
