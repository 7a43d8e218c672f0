"""What there is: services, their versions, labels and values; read off windows, without their stacks."""

from operator import itemgetter
from typing import Any, TypedDict, cast

import pyarrow as pa
import pyarrow.compute as pc

from sidelight_collector.answers.usage import WindowUsage, summarize_usage
from sidelight_collector.arrow_ops import combine_chunks, list_unique_strings, to_ints, to_strings
from sidelight_collector.query.data_basis import DataBasis, build_basis
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.matchers import get_label_column
from sidelight_collector.query.select.window_query import (
    select_windows,
)
from sidelight_collector.query.windows import (
    WindowQuery,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType
from sidelight_model.labels import RESERVED_LABELS


class VersionLifetime(TypedDict):
    """When a version was seen: Unix seconds of its first window's start and its last window's end."""

    version: str
    first_seen: float
    last_seen: float


class UsageSummary(TypedDict):
    """How much was seen of something; `cpu_cores` is CPU seconds per pod-second, None if not known."""

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


# `from` is a word of the language, so this one is written as a call.
ServiceList = TypedDict(
    "ServiceList", {"services": list[ServiceUsage], "from": float, "until": float, "basis": DataBasis}
)


class LabelNames(TypedDict):
    labels: list[str]
    basis: DataBasis


class LabelValues(TypedDict):
    values: list[str]
    basis: DataBasis


def list_services(context: QueryContext, query: WindowQuery) -> ServiceList:
    """Every service with windows in the range, and its versions in the order in which they appeared."""
    chosen = select_windows(context, query, with_stacks=False)
    versions: dict[str, list[VersionUsage]] = {}
    by_version = summarize_usage(chosen, ProfileType.CPU, "service", "version")
    for of in sorted(by_version, key=lambda of: (of.first_ns, of.key)):
        service, version = of.key
        versions.setdefault(service, []).append({"version": version, **_to_usage_summary(of)})
    return {
        "services": [
            {"service": of.key[0], **_to_usage_summary(of), "versions": versions[of.key[0]]}
            for of in summarize_usage(chosen, ProfileType.CPU, "service")
        ],
        "from": query.from_ns / SECOND_NS,
        "until": query.until_ns / SECOND_NS,
        "basis": build_basis([chosen], ProfileType.WALL, context.unreadable_count),
    }


def list_label_names(context: QueryContext, query: WindowQuery) -> LabelNames:
    """Labels that at least one window of the question has."""
    chosen = select_windows(context, query, with_stacks=False)
    known = [name for name in RESERVED_LABELS if any(list_unique_strings(chosen.table[name]))]
    return {
        "labels": sorted({*known, *_list_custom_labels(chosen.table)}),
        "basis": build_basis([chosen], ProfileType.WALL, context.unreadable_count),
    }


def list_label_values(context: QueryContext, query: WindowQuery, name: str) -> LabelValues:
    """The values that a label has on the windows of the question."""
    chosen = select_windows(context, query, with_stacks=False)
    return {
        "values": [value for value in list_unique_strings(get_label_column(chosen.table, name)) if value],
        "basis": build_basis([chosen], ProfileType.WALL, context.unreadable_count),
    }


def list_versions(table: pa.Table) -> list[VersionLifetime]:
    """When each version was seen, in the order in which they appeared."""
    added = table.group_by("version", use_threads=False).aggregate([("ts", "min"), ("end_ns", "max")])
    columns = to_ints(added["ts_min"]), to_ints(added["end_ns_max"])
    found = zip(to_strings(added["version"]), *columns, strict=True)
    return [
        {"version": version, "first_seen": first / SECOND_NS, "last_seen": last / SECOND_NS}
        for version, first, last in sorted(found, key=itemgetter(1, 0))
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
