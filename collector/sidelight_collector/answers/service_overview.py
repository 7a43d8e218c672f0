"""All services in columns: tens of thousands fit into one response.

The current version of a service is its newest version among those that were still reporting when the
service was last seen. The previous version is the other version that was last seen most recently. After a
rollback the previous version is newer than the current one.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypedDict

import pyarrow.compute as pc

from sidelight_collector.answers.usage import WindowUsage, summarize_usage
from sidelight_collector.arrow_ops import to_strings
from sidelight_collector.query.data_basis import DataBasis, build_basis
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.matchers import get_label_column
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.windows import SelectedWindows, WindowQuery
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType

RECENT_NS: Final = 600 * SECOND_NS
"""A pod or version counts as present if last seen within this time before its service was."""
_DIGITS: Final = 3


class VersionColumns(TypedDict):
    """Columns about one version of each service.

    `version` is None for a service without such a version.
    """

    version: list[str | None]
    first_seen: list[float | None]
    pods_now: list[int]
    samples: list[int]
    seconds: list[float]
    pod_seconds: list[float]


# `from` is a keyword, which the class syntax does not allow as a field.
ServiceOverview = TypedDict(
    "ServiceOverview",
    {
        "type": str,
        "service": list[str],
        "first_seen": list[float],
        "last_seen": list[float],
        "samples": list[int],
        "seconds": list[float],
        "pod_seconds": list[float],
        "cores": list[float | None],
        "pods": list[int],
        "pods_now": list[int],
        "versions": list[int],
        "current": VersionColumns,
        "previous": VersionColumns,
        "label": list[str] | None,
        "omitted": int,
        "from": float,
        "until": float,
        "basis": DataBasis,
    },
)


def query_service_overview(
    context: QueryContext, query: WindowQuery, kind: ProfileType, *, max_services: int, label: str = ""
) -> ServiceOverview:
    """Summarize every service, sorted by name.

    Beyond `max_services` services the cheapest (by sampled time) are omitted; `omitted` counts them. With
    `label` there is a column of its latest value in each service.
    """
    windows = select_windows(context, query, with_stacks=False)
    services = summarize_usage(windows, kind, "service", with_concurrency=True)
    ranked = sorted(services, key=lambda usage: (-usage.sampled_ns, usage.key))
    costliest = {usage.key for usage in ranked[:max_services]}
    shown = [usage for usage in services if usage.key in costliest]
    versions: dict[str, list[WindowUsage]] = defaultdict(list)
    for usage in summarize_usage(windows, kind, "service", "version"):
        versions[usage.key[0]].append(usage)
    label_values = _find_latest_values(windows, label) if label else None
    version_pairs = [_find_current_and_previous(versions[usage.key[0]], usage.last_ns) for usage in shown]
    return {
        "type": kind.value,
        "service": [usage.key[0] for usage in shown],
        "first_seen": [_to_seconds(usage.first_ns) for usage in shown],
        "last_seen": [_to_seconds(usage.last_ns) for usage in shown],
        "samples": [usage.samples for usage in shown],
        "seconds": [_to_seconds(usage.sampled_ns) for usage in shown],
        "pod_seconds": [round(usage.pod_seconds, _DIGITS) for usage in shown],
        "cores": [_round_cores(usage.mean_cores) for usage in shown],
        "pods": [len(usage.pod_ends_ns) for usage in shown],
        "pods_now": [_count_recent_pods(usage, usage.last_ns) for usage in shown],
        "versions": [len(versions[usage.key[0]]) for usage in shown],
        "current": _build_version_columns([current for current, _ in version_pairs], shown),
        "previous": _build_version_columns([previous for _, previous in version_pairs], shown),
        "label": None if label_values is None else [label_values[usage.key[0]] for usage in shown],
        "omitted": len(services) - len(shown),
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "basis": build_basis([windows], kind, context.unreadable_count),
    }


def _find_latest_values(windows: SelectedWindows, label: str) -> dict[str, str]:
    """Find the latest value of a label in each service, empty without one."""
    table = windows.table.select(["service", "end_ns"])
    table = table.append_column("value", get_label_column(windows.table, label))
    ends = table.group_by(["service", "value"], use_threads=False).aggregate([("end_ns", "max")])
    ends = ends.take(pc.sort_indices(ends, sort_keys=[("end_ns_max", "ascending")]))
    return dict(zip(to_strings(ends["service"]), to_strings(ends["value"]), strict=True))


def _count_recent_pods(usage: WindowUsage, last_ns: int) -> int:
    """Count the pods that were present when their service was last seen."""
    return sum(pod_end_ns > last_ns - RECENT_NS for pod_end_ns in usage.pod_ends_ns)


def _find_current_and_previous(
    versions: Sequence[WindowUsage], last_ns: int
) -> tuple[WindowUsage, WindowUsage | None]:
    recent = (usage for usage in versions if usage.last_ns > last_ns - RECENT_NS)
    current = max(recent, key=lambda usage: (usage.first_ns, usage.key))
    others = (usage for usage in versions if usage is not current)
    return current, max(others, key=lambda usage: (usage.last_ns, usage.first_ns), default=None)


def _round_cores(cores: float | None) -> float | None:
    return None if cores is None else round(cores, 6)


def _build_version_columns(
    versions: Sequence[WindowUsage | None], services: Sequence[WindowUsage]
) -> VersionColumns:
    return {
        "version": [version.key[1] if version else None for version in versions],
        "first_seen": [_to_seconds(version.first_ns) if version else None for version in versions],
        "pods_now": [
            _count_recent_pods(version, service.last_ns) if version else 0
            for version, service in zip(versions, services, strict=True)
        ],
        "samples": [version.samples if version else 0 for version in versions],
        "seconds": [_to_seconds(version.sampled_ns) if version else 0.0 for version in versions],
        "pod_seconds": [round(version.pod_seconds, _DIGITS) if version else 0.0 for version in versions],
    }


def _to_seconds(ns: int) -> float:
    """Round to milliseconds, in integers: `round` costs four times as much."""
    return (ns + 500_000) // 1_000_000 / 1000
