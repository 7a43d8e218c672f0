"""All services in columns: tens of thousands fit into one response.

The current version of a service is its newest version among those that were still reporting when the
service was last seen. The previous version is the other version that was last seen most recently. After a
rollback the previous version is newer than the current one.
"""

from itertools import pairwise
from math import isnan
from typing import Any, Final, TypedDict, cast

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from sidelight_collector.answers.usage import UsageColumns, summarize_usage_columns
from sidelight_collector.arrow_ops import I64, to_strings
from sidelight_collector.query.data_basis import DataBasis, build_basis
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.matchers import get_label_column
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.windows import SelectedWindows, WindowQuery
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType

RECENT_NS: Final = 600 * SECOND_NS
"""A pod or version counts as present if last seen within this time before its service was."""


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
    services = summarize_usage_columns(windows, kind, "service", with_concurrency=True)
    versions = summarize_usage_columns(windows, kind, "service", "version")
    costliest = np.argsort(-services.sampled_ns, kind="stable")[:max_services]
    shown = np.sort(costliest)
    names = [name for (name,) in services.keys]
    label_values = _find_latest_values(windows, label) if label else None
    service_of = _number_services(versions)
    recent_ns = services.last_ns - RECENT_NS
    current, previous = _find_current_and_previous(versions, service_of, recent_ns)
    pods_now = versions.count_pods_after(recent_ns[service_of])
    return {
        "type": kind.value,
        "service": [names[at] for at in shown.tolist()],
        "first_seen": _to_seconds(services.first_ns[shown]),
        "last_seen": _to_seconds(services.last_ns[shown]),
        "samples": services.samples[shown].tolist(),
        "seconds": _to_seconds(services.sampled_ns[shown]),
        "pod_seconds": _to_seconds(services.pod_ns[shown]),
        "cores": [
            None if isnan(cores) else cores
            for cores in np.round(services.compute_mean_cores()[shown], 6).tolist()
        ],
        "pods": services.count_pods()[shown].tolist(),
        "pods_now": services.count_pods_after(recent_ns)[shown].tolist(),
        "versions": np.bincount(service_of, minlength=len(names))[shown].tolist(),
        "current": _build_version_columns(versions, pods_now, current[shown]),
        "previous": _build_version_columns(versions, pods_now, previous[shown]),
        "label": None if label_values is None else [label_values[names[at]] for at in shown.tolist()],
        "omitted": len(names) - len(shown),
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "basis": build_basis([windows], kind, context.unreadable_count),
    }


def _number_services(versions: UsageColumns) -> I64:
    """Return the row of the service of each version.

    Services and versions are sorted by the name of the service.
    """
    names = [service for service, _ in versions.keys]
    is_new = [after != before for before, after in pairwise(names)]
    return np.cumsum([0, *is_new][: len(names)], dtype=np.int64)


def _find_latest_values(windows: SelectedWindows, label: str) -> dict[str, str]:
    """Find the latest value of a label in each service, empty without one."""
    table = windows.table.select(["service", "end_ns"])
    table = table.append_column("value", get_label_column(windows.table, label))
    ends = table.group_by(["service", "value"], use_threads=False).aggregate([("end_ns", "max")])
    ends = ends.take(pc.sort_indices(ends, sort_keys=[("end_ns_max", "ascending")]))
    return dict(zip(to_strings(ends["service"]), to_strings(ends["value"]), strict=True))


def _find_current_and_previous(versions: UsageColumns, service_of: I64, recent_ns: I64) -> tuple[I64, I64]:
    """Return the rows of the current and previous versions; -1: none."""
    rows = np.arange(len(versions.keys))
    recent = rows[versions.last_ns > recent_ns[service_of]]
    current = np.full(len(recent_ns), -1)
    # Of equal rows the last in this order is assigned last, and stays.
    by_start = recent[np.argsort(versions.first_ns[recent], kind="stable")]
    current[service_of[by_start]] = by_start
    others = np.setdiff1d(rows, current)
    previous = np.full(len(recent_ns), -1)
    by_end = others[np.lexsort((-others, versions.first_ns[others], versions.last_ns[others]))]
    previous[service_of[by_end]] = by_end
    return current, previous


def _build_version_columns(versions: UsageColumns, pods_now: I64, rows: I64) -> VersionColumns:
    """Build the columns of these rows of `versions`; -1: no version."""
    is_missing = rows < 0

    def choose(column: NDArray[Any]) -> NDArray[Any]:
        return np.where(is_missing, 0, column[rows]) if len(column) else np.zeros(0, np.int64)

    missing = is_missing.tolist()
    first_seen = _to_seconds(choose(versions.first_ns))
    return {
        "version": [None if at < 0 else versions.keys[at][1] for at in rows.tolist()],
        "first_seen": [None if no else first for no, first in zip(missing, first_seen, strict=True)],
        "pods_now": choose(pods_now).tolist(),
        "samples": choose(versions.samples).tolist(),
        "seconds": _to_seconds(choose(versions.sampled_ns)),
        "pod_seconds": _to_seconds(choose(versions.pod_ns)),
    }


def _to_seconds(ns: NDArray[Any]) -> list[float]:
    """Round to milliseconds."""
    return cast("list[float]", ((ns + 500_000) // 1_000_000 / 1000).tolist())
