"""Services, versions, label names and values, from windows without their stacks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.answers.usage import WindowUsage, summarize_usage
from sidelight_collector.arrow_ops import (
    add_columns,
    combine_chunks,
    list_unique_strings,
    to_ints,
    to_strings,
)
from sidelight_collector.query.data_basis import DataBasis, build_basis
from sidelight_collector.query.engine.stack_text import resolve_stacks, weigh_stacks
from sidelight_collector.query.engine.window_sums import sum_stacks
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_errors import BadParameter
from sidelight_collector.query.select.matchers import get_label_column
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.stack_filter import NO_FILTER, EndpointPool, apply_filter
from sidelight_collector.query.windows import SelectedWindows, WindowQuery
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import STATES_BY_TYPE, ProfileType
from sidelight_model.labels import RESERVED_LABELS
from sidelight_model.selectors import ENDPOINT_LABEL


class VersionLifetime(TypedDict):
    """The lifetime of a version, in Unix seconds.

    `first_seen` is the start of its first window, `last_seen` the end of its last window.
    """

    version: str
    first_seen: float
    last_seen: float


class UsageSummary(TypedDict):
    """The usage of a service or version.

    `cpu_cores` is CPU seconds per pod-second, None if unknown.
    """

    first_seen: float
    last_seen: float
    windows: int
    samples: int
    pods: int
    cpu_cores: float | None


class VersionUsage(UsageSummary):
    version: str


class ServiceUsage(UsageSummary):
    service: str
    versions: list[VersionUsage]


# `from` is a keyword, which the class syntax does not allow as a field.
ServiceList = TypedDict(
    "ServiceList", {"services": list[ServiceUsage], "from": float, "until": float, "basis": DataBasis}
)


class LabelNames(TypedDict):
    labels: list[str]
    basis: DataBasis


class LabelValues(TypedDict):
    values: list[str]
    basis: DataBasis


@dataclass(frozen=True, slots=True)
class LabelSet:
    """Values of some labels of windows, and the profile types with samples there."""

    labels: Mapping[str, str]
    kinds: frozenset[ProfileType]


def list_services(context: QueryContext, query: WindowQuery) -> ServiceList:
    """List the services with windows in the range.

    The versions of each service are in the order of their first window.
    """
    windows = select_windows(context, query, with_stacks=False)
    versions: dict[str, list[VersionUsage]] = {}
    by_version = summarize_usage(windows, ProfileType.CPU, "service", "version")
    for usage in sorted(by_version, key=lambda usage: (usage.first_ns, usage.key)):
        service, version = usage.key
        versions.setdefault(service, []).append({"version": version, **_to_usage_summary(usage)})
    return {
        "services": [
            {"service": usage.key[0], **_to_usage_summary(usage), "versions": versions[usage.key[0]]}
            for usage in summarize_usage(windows, ProfileType.CPU, "service")
        ],
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "basis": build_basis([windows], ProfileType.WALL, context.unreadable_count),
    }


def list_label_names(context: QueryContext, query: WindowQuery) -> LabelNames:
    """List the labels that at least one window of the query has."""
    windows = select_windows(context, query, with_stacks=False)
    reserved = [name for name in RESERVED_LABELS if any(list_unique_strings(windows.table[name]))]
    return {
        "labels": sorted({*reserved, *_list_custom_labels(windows.table)}),
        "basis": build_basis([windows], ProfileType.WALL, context.unreadable_count),
    }


def list_label_values(context: QueryContext, query: WindowQuery, name: str) -> LabelValues:
    """List the values of a label on the windows of a query, or its endpoints."""
    if name == ENDPOINT_LABEL:
        windows = select_windows(context, query)
        return _build_label_values(context, windows, _list_endpoints(context, windows))
    windows = select_windows(context, query, with_stacks=False)
    return _build_label_values(context, windows, list_unique_strings(get_label_column(windows.table, name)))


def _build_label_values(
    context: QueryContext, windows: SelectedWindows, values: Sequence[str]
) -> LabelValues:
    return {
        "values": [value for value in values if value],
        "basis": build_basis([windows], ProfileType.WALL, context.unreadable_count),
    }


def _list_endpoints(context: QueryContext, windows: SelectedWindows) -> list[str]:
    """List the endpoints of the stacks that match, sorted."""
    weights = weigh_stacks(sum_stacks(context, windows), ProfileType.WALL)
    weights = apply_filter(context, windows, weights, NO_FILTER)
    pool = EndpointPool()
    stack_ids = resolve_stacks(context, windows, weights.service, weights.hashes, pool)
    return list_unique_strings(pool.endpoints()["endpoint"].take(stack_ids))


def list_label_sets(
    context: QueryContext, query: WindowQuery, names: Sequence[str], max_sets: int
) -> list[LabelSet]:
    """List the distinct values of some labels, sorted; without names, of all.

    Raises BadParameter for more than `max_sets`.
    """
    table = select_windows(context, query, with_stacks=False).table
    if not names:
        names = [*RESERVED_LABELS, *_list_custom_labels(table)]
    columns = {f"label {at}": get_label_column(table, name) for at, name in enumerate(names)}
    samples = {kind.value: add_columns(table, STATES_BY_TYPE[kind]) for kind in ProfileType}
    grouped = (
        pa.table({**columns, **samples})
        .group_by(list(columns), use_threads=False)
        .aggregate([(kind, "sum") for kind in samples])
    )
    if len(grouped) > max_sets:
        raise BadParameter(
            f"{len(grouped):,} label sets are more than the {max_sets:,} that an answer may have",
            hint="Ask for fewer labels or a shorter range.",
        )
    sums = {kind: to_ints(grouped[f"{kind}_sum"]) for kind in samples}
    values = zip(*(to_strings(grouped[column]) for column in columns), strict=True)
    sets = [
        LabelSet(
            {name: value for name, value in zip(names, row, strict=True) if value},
            frozenset(ProfileType(kind) for kind in samples if sums[kind][at]),
        )
        for at, row in enumerate(values)
    ]
    return sorted(sets, key=lambda label_set: sorted(label_set.labels.items()))


def list_versions(table: pa.Table) -> list[VersionLifetime]:
    """List the lifetimes of all versions, in the order of their first window."""
    grouped = table.group_by("version", use_threads=False).aggregate([("ts", "min"), ("end_ns", "max")])
    columns = to_ints(grouped["ts_min"]), to_ints(grouped["end_ns_max"])
    rows = zip(to_strings(grouped["version"]), *columns, strict=True)
    return [
        {"version": version, "first_seen": first / SECOND_NS, "last_seen": last / SECOND_NS}
        for version, first, last in sorted(rows, key=itemgetter(1, 0))
    ]


def _to_usage_summary(usage: WindowUsage) -> UsageSummary:
    return {
        "first_seen": usage.first_ns / SECOND_NS,
        "last_seen": usage.last_ns / SECOND_NS,
        "windows": usage.windows,
        "samples": usage.all_samples,
        "pods": len(usage.pod_ends_ns),
        "cpu_cores": usage.rate,
    }


def _list_custom_labels(table: pa.Table) -> list[str]:
    pairs = cast("pa.MapArray[Any, Any]", combine_chunks(table["labels"]))
    return to_strings(pc.unique(pairs.keys))
