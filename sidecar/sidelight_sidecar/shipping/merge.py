"""Merge windows that wait in the spool.

Windows can be merged if they sampled the same process in the same way: then their durations follow each
other and are added, and rates stay the same. The merge loses the exact time of each stack, so a merged
window never spans more than an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from sidelight_model.labels import Labels
from sidelight_model.window import TaskReadings, Window
from sidelight_sidecar.samplers.sampler import add_counts, add_quality

MAX_SPAN_NS = 3600 * 10**9
MAX_STACKS = 50_000


@dataclass(frozen=True, slots=True)
class MergeKey:
    """The properties that windows must share to be merged."""

    labels: Labels
    period_ns: int
    pid: int
    mode: str
    sampler: str
    python: str
    missing_states: tuple[str, ...]
    reader: str


@dataclass(frozen=True, slots=True)
class WindowSummary:
    """The properties of a window that the spool keeps in memory, without its stacks."""

    merge_key: MergeKey
    start_ns: int
    end_ns: int
    duration_ns: int
    stack_count: int
    sample_count: int


def summarize_window(window: Window) -> WindowSummary:
    quality = window.quality
    merge_key = MergeKey(
        window.labels,
        window.period_ns,
        quality.pid,
        quality.mode,
        quality.sampler,
        quality.python,
        quality.missing_states,
        quality.reader,
    )
    end_ns = window.start_ns + window.duration_ns
    return WindowSummary(
        merge_key, window.start_ns, end_ns, window.duration_ns, len(window.counts), window.total.wall
    )


def can_merge(group: Sequence[WindowSummary], candidate: WindowSummary) -> bool:
    """Return whether `candidate` can be merged with the windows of `group`."""
    summaries = [*group, candidate]
    span = max(f.end_ns for f in summaries) - min(f.start_ns for f in summaries)
    return (
        all(f.merge_key == candidate.merge_key for f in group)
        and max(span, sum(f.duration_ns for f in summaries)) <= MAX_SPAN_NS
        and sum(f.stack_count for f in summaries) <= MAX_STACKS
    )


def merge_windows(windows: Sequence[Window], new_id: Callable[[int], str]) -> Window:
    """Merge one or more windows with the same MergeKey into a window of its own.

    `new_id` makes an id with the time of a start (ns).
    """
    start_ns = min(window.start_ns for window in windows)
    tasks = [window.tasks for window in windows if window.tasks is not None]
    return replace(
        windows[0],
        id=new_id(start_ns),
        start_ns=start_ns,
        duration_ns=sum(window.duration_ns for window in windows),
        counts=reduce(add_counts, (window.counts for window in windows), {}),
        quality=reduce(add_quality, (window.quality for window in windows)),
        tasks=reduce(TaskReadings.plus, tasks) if tasks else None,
    )
