"""Every service in columns, small enough to ask for tens of thousands at once.

The current version is the one that appeared last of those that were still seen when the service was; the
previous one is, of all others, the one seen last. After a rollback the previous version appeared later.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypedDict

from sidelight_collector.answers.usage import WindowUsage, summarize_usage
from sidelight_collector.query.data_basis import DataBasis, build_basis
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import (
    select_windows,
)
from sidelight_collector.query.windows import (
    WindowQuery,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType

RECENT_NS: Final = 600 * SECOND_NS
"""What was seen so shortly before the last of its service is there now."""
_DIGITS: Final = 3


class VersionColumns(TypedDict):
    """Columns about one version of each service; `version` is None where a service has none such."""

    version: list[str | None]
    first_seen: list[float | None]
    pods_now: list[int]
    samples: list[int]
    seconds: list[float]
    pod_seconds: list[float]


# `from` is a word of the language, so this one is written as a call.
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
        "omitted": int,
        "from": float,
        "until": float,
        "basis": DataBasis,
    },
)


def query_service_overview(
    context: QueryContext, query: WindowQuery, kind: ProfileType, *, max_services: int
) -> ServiceOverview:
    """What each service took, by name; of more than `max_services` services those that took most time."""
    chosen = select_windows(context, query, with_stacks=False)
    services = summarize_usage(chosen, kind, "service", with_concurrency=True)
    dearest = {of.key for of in sorted(services, key=lambda of: (-of.sampled_ns, of.key))[:max_services]}
    shown = [of for of in services if of.key in dearest]
    versions: dict[str, list[WindowUsage]] = defaultdict(list)
    for of in summarize_usage(chosen, kind, "service", "version"):
        versions[of.key[0]].append(of)
    both = [_find_current_and_previous(versions[of.key[0]], of.last_ns) for of in shown]
    return {
        "type": kind.value,
        "service": [of.key[0] for of in shown],
        "first_seen": [_to_seconds(of.first_ns) for of in shown],
        "last_seen": [_to_seconds(of.last_ns) for of in shown],
        "samples": [of.samples for of in shown],
        "seconds": [_to_seconds(of.sampled_ns) for of in shown],
        "pod_seconds": [round(of.pod_seconds, _DIGITS) for of in shown],
        "cores": [_compute_cores(of) for of in shown],
        "pods": [len(of.pod_ends_ns) for of in shown],
        "pods_now": [_count_recent_pods(of, of.last_ns) for of in shown],
        "versions": [len(versions[of.key[0]]) for of in shown],
        "current": _build_version_columns([current for current, _ in both], shown),
        "previous": _build_version_columns([previous for _, previous in both], shown),
        "omitted": len(services) - len(shown),
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "basis": build_basis([chosen], kind, context.unreadable_count),
    }


def _count_recent_pods(usage: WindowUsage, last_ns: int) -> int:
    """How many pods there are when their service was last seen."""
    return sum(last > last_ns - RECENT_NS for last in usage.pod_ends_ns)


def _find_current_and_previous(
    versions: Sequence[WindowUsage], last_ns: int
) -> tuple[WindowUsage, WindowUsage | None]:
    there = (of for of in versions if of.last_ns > last_ns - RECENT_NS)
    current = max(there, key=lambda of: (of.first_ns, of.key))
    others = (of for of in versions if of is not current)
    return current, max(others, key=lambda of: (of.last_ns, of.first_ns), default=None)


def _compute_cores(usage: WindowUsage) -> float | None:
    """How many cores (or threads) all pods kept busy, on average while any of them was watched."""
    return None if usage.rate is None else round(usage.rate * usage.mean_concurrent_pods, 6)


def _build_version_columns(
    versions: Sequence[WindowUsage | None], services: Sequence[WindowUsage]
) -> VersionColumns:
    return {
        "version": [of.key[1] if of else None for of in versions],
        "first_seen": [_to_seconds(of.first_ns) if of else None for of in versions],
        "pods_now": [
            _count_recent_pods(of, all_.last_ns) if of else 0
            for of, all_ in zip(versions, services, strict=True)
        ],
        "samples": [of.samples if of else 0 for of in versions],
        "seconds": [_to_seconds(of.sampled_ns) if of else 0.0 for of in versions],
        "pod_seconds": [round(of.pod_seconds, _DIGITS) if of else 0.0 for of in versions],
    }


def _to_seconds(ns: int) -> float:
    return round(ns / SECOND_NS, _DIGITS)
