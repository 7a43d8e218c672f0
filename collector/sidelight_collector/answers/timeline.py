"""The timeline: samples, pods and quality over time, in steps of equal length."""

from collections import defaultdict
from collections.abc import Sequence
from math import fsum
from typing import Final, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.answers.catalog import VersionLifetime, list_versions
from sidelight_collector.arrow_ops import (
    add_columns,
    combine_chunks,
    concat_tables,
    is_equal_string,
    to_ints,
    to_strings,
)
from sidelight_collector.query.data_basis import DataBasis, build_basis
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.sampling_quality import (
    QualitySummary,
    compute_share,
    list_nonempty_strings,
    summarize_quality,
)
from sidelight_collector.query.select.matchers import get_label_column
from sidelight_collector.query.select.step_query import count_step_pods, list_step_pods, select_steps
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.window_parts import count_matching_samples, find_least_step_ns
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.storage.rollups.pod_time import filter_process_rows, iter_pod_seconds
from sidelight_collector.storage.tables import STEP_NS, STEPS
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import STATES_BY_TYPE, ProfileType

STEP_SECONDS: Final = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800),
)
"""Step lengths in seconds that are easy to read on an axis."""
TARGET_POINTS: Final = 240
HOUR_SECONDS: Final = 3600
MAX_BOOSTS: Final = 100


class VersionRollout(TypedDict):
    """The rollout of a revision of a workload, in Unix seconds.

    `ended` is None until the rollout is complete.
    """

    namespace: str
    kind: str
    workload: str
    revision: int
    version: str
    started: float
    ended: float | None


class VersionWithRollouts(VersionLifetime):
    """A version and its rollouts, if the collector watches the cluster."""

    rollouts: list[VersionRollout]


class TriggerBoost(TypedDict):
    """Adjacent steps in which triggers raised the sampling rate of pods.

    `trigger` is the label of their windows, such as `cpu` or `cpu+rss`. Times are in Unix seconds.
    """

    trigger: str
    started: float
    ended: float
    pods: int


class Timeline(TypedDict):
    """Columns by step; a window counts entirely in the step in which it began.

    `start` is in Unix seconds, a multiple of the step. `seconds` is sampled time of the profile type, and
    `seconds / pod_seconds` is the rate. `coverage` and `stopped_share` are per step; `modes` and `quality`
    are those of the whole range. `ready_task_seconds / pod_seconds` is the mean number of ready tasks,
    `longest_ready_seconds` the longest time that one waited for its event loop, None without readings.
    `boosts` has the last MAX_BOOSTS, in order.
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
    ready_task_seconds: list[float]
    longest_ready_seconds: list[float | None]
    versions: list[VersionWithRollouts]
    boosts: list[TriggerBoost]
    modes: list[str]
    quality: QualitySummary
    basis: DataBasis


def query_timeline(
    context: QueryContext,
    query: WindowQuery,
    kind: ProfileType,
    *,
    step_ns: int | None,
    max_steps: int,
    rollouts: Sequence[VersionRollout] = (),
) -> Timeline:
    """Compute the timeline of a range.

    If `step_ns` is None, a readable step is chosen. `rollouts` are assigned to the versions by name. Raises
    BadParameter if the range has more than `max_steps` steps.
    """
    initial_step = step_ns or choose_step_ns(query.until_ns - query.from_ns)
    with_stacks = bool(query.endpoint_matchers)
    by_step = select_steps(context, query) if initial_step == STEP_NS else None
    if by_step and (step_ns or choose_step_ns(query.until_ns - query.from_ns, by_step[0].table)) != STEP_NS:
        by_step = None
    if by_step:
        selected, rolled_up = by_step
    else:
        selected = select_windows(context, query, with_stacks=with_stacks, step_ns=initial_step)
        rolled_up = STEPS.empty_table()
    table = selected.table if by_step else count_matching_samples(context, selected)
    least_step = find_least_step_ns(selected) if with_stacks else 0
    step = step_ns or choose_step_ns(query.until_ns - query.from_ns, table, least_step)
    first = query.from_ns // step
    count = max(-(-query.until_ns // step) - first, 0)
    if count > max_steps:
        raise BadParameter(
            f"{count} steps are more than the {max_steps} that a timeline may have",
            hint="Use a longer step or a shorter range.",
        )
    table, own_pods, rolled_up = (
        rows.append_column("step", pc.subtract(pc.divide(rows["ts"], step), first))
        for rows in (table, filter_process_rows(selected.process_windows), rolled_up)
    )
    process_rows = filter_process_rows(table) if by_step else own_pods
    table = table.append_column("samples", add_columns(table, STATES_BY_TYPE[kind]))
    grouped = table.group_by(["step", "period_ns"], use_threads=False).aggregate(
        [("samples", "sum"), ("windows", "sum")]
    )
    samples, ns, windows = [0] * count, [0] * count, [0] * count
    for at, period, sampled, window_count in zip(*map(to_ints, grouped.columns), strict=True):
        samples[at] += sampled
        ns[at] += sampled * period
        windows[at] += window_count
    # Added up at the end: the last digit of a running sum depends on the order of pods.
    pod_times: list[list[float]] = [[] for _ in range(count)]
    pods = [0] * count
    steps = to_ints(own_pods["step"])
    for row, seconds in iter_pod_seconds(own_pods, "step"):
        pod_times[steps[row]].append(seconds)
        pods[steps[row]] += 1
    pod_columns = (rolled_up[name].to_pylist() for name in ("step", "pod_count", "pod_seconds"))
    for at, pod_count, seconds in zip(*pod_columns, strict=True):
        pod_times[at].append(seconds)
        pods[at] += pod_count
    coverage, stopped_share = _compute_coverage(process_rows, count)
    ready_task_seconds, longest_ready_seconds = _compute_ready_tasks(table, count)
    basis = build_basis([selected], kind, context.unreadable_count)
    if by_step:
        basis["pods"] = count_step_pods(own_pods, rolled_up)
    return {
        "type": kind.value,
        "step_seconds": step / SECOND_NS,
        "start": [(first + index) * step / SECOND_NS for index in range(count)],
        "seconds": [step_time_ns / SECOND_NS for step_time_ns in ns],
        "pod_seconds": list(map(fsum, pod_times)),
        "samples": samples,
        "windows": windows,
        "pods": pods,
        "coverage": coverage,
        "stopped_share": stopped_share,
        "ready_task_seconds": ready_task_seconds,
        "longest_ready_seconds": longest_ready_seconds,
        "versions": [_add_rollouts(version, rollouts) for version in list_versions(table)],
        "boosts": _list_boosts(own_pods, rolled_up, first, step / SECOND_NS),
        "modes": list_nonempty_strings(process_rows["mode"]),
        "quality": summarize_quality(table, process_rows),
        "basis": basis,
    }


def _add_rollouts(version: VersionLifetime, rollouts: Sequence[VersionRollout]) -> VersionWithRollouts:
    version_rollouts = [rollout for rollout in rollouts if rollout["version"] == version["version"]]
    return {**version, "rollouts": version_rollouts}


def _list_boosts(
    process_rows: pa.Table, rolled_up: pa.Table, first: int, step_seconds: float
) -> list[TriggerBoost]:
    """List the boosts by the label `trigger`; `first` numbers the first step."""
    rows = concat_tables(
        [
            table.select(["step", "pod"]).append_column("trigger", get_label_column(table, "trigger"))
            for table in (_filter_boosts(process_rows), list_step_pods(_filter_boosts(rolled_up)))
        ]
    )
    grouped = rows.group_by(["trigger", "step", "pod"], use_threads=False).aggregate([])
    pods: dict[tuple[str, int], set[str]] = defaultdict(set)
    columns = to_strings(grouped["trigger"]), to_ints(grouped["step"]), to_strings(grouped["pod"])
    for trigger, at, pod in zip(*columns, strict=True):
        pods[trigger, at].add(pod)
    boosts: list[TriggerBoost] = []
    previous, members = ("", 0), set[str]()
    for trigger, at in sorted(pods):
        started = (first + at) * step_seconds
        if (trigger, at - 1) == previous:
            members |= pods[trigger, at]
            boosts[-1] |= {"ended": started + step_seconds, "pods": len(members)}
        else:
            members = pods[trigger, at]
            ended = started + step_seconds
            boosts.append({"trigger": trigger, "started": started, "ended": ended, "pods": len(members)})
        previous = trigger, at
    return sorted(boosts, key=lambda boost: boost["started"])[-MAX_BOOSTS:]


def _filter_boosts(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(is_equal_string(get_label_column(rows, "trigger"), "")))


def _compute_coverage(process_rows: pa.Table, count: int) -> tuple[list[float | None], list[float | None]]:
    """Compute the coverage and the share of time stopped, for each step."""
    names = ("covered_ns", "ticking_ns", "stopped_ns", "stopping_ns")
    sums = process_rows.group_by("step", use_threads=False).aggregate([(name, "sum") for name in names])
    coverage: list[float | None] = [None] * count
    stopped_share: list[float | None] = [None] * count
    columns = (sums[name].to_pylist() for name in ("step", *(f"{name}_sum" for name in names)))
    for step, covered, ticking, stopped, stopping in zip(*columns, strict=True):
        coverage[step] = compute_share(covered, ticking)
        stopped_share[step] = compute_share(stopped, stopping)
    return coverage, stopped_share


def _compute_ready_tasks(table: pa.Table, count: int) -> tuple[list[float], list[float | None]]:
    """Compute the time of ready asyncio tasks and their longest wait, by step."""
    ns, longest = [0] * count, [cast("float | None", None)] * count
    grouped = table.group_by(["step", "period_ns"], use_threads=False).aggregate(
        [("task_ready", "sum"), ("longest_ready_ns", "max"), ("task_readings", "sum")]
    )
    for step, period, samples, wait_ns, readings in zip(*map(to_ints, grouped.columns), strict=True):
        ns[step] += samples * period
        if readings:
            longest[step] = max(longest[step] or 0.0, wait_ns / SECOND_NS)
    return [step_ns / SECOND_NS for step_ns in ns], longest


def choose_step_ns(range_ns: int, windows: pa.Table | None = None, least_step_ns: int = 0) -> int:
    """Choose a step (ns) that gives a readable number of points.

    The step is at least `least_step_ns`, and at least as long as the longest window, where only windows
    outside captures count if there are any. It is at least an hour if a part of the windows is available
    only by the hour.
    """
    min_seconds = max(range_ns / TARGET_POINTS, least_step_ns) / SECOND_NS
    if windows is not None:
        longest = combine_chunks(windows["longest_ns"])
        continuous = longest.filter(is_equal_string(windows["capture"], ""))
        usual = pc.max(continuous if len(continuous) else longest).as_py() or 0
        by_hour = combine_chunks(windows["group"]).null_count < len(windows)
        min_seconds = max(min_seconds, usual / SECOND_NS, HOUR_SECONDS if by_hour else 0)
    return next((step for step in STEP_SECONDS if step >= min_seconds), STEP_SECONDS[-1]) * SECOND_NS
