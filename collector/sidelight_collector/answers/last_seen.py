"""The pods and services that shipped windows in a time range."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight_collector.arrow_ops import to_ints, to_strings
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS


@dataclass(frozen=True, slots=True)
class LastSeen:
    """Pods and services with windows in a time range.

    `pods` maps (namespace, pod) to the end of its last window, in Unix seconds. `services` has (namespace,
    service).
    """

    pods: dict[tuple[str, str], float]
    services: frozenset[tuple[str, str]]


def query_last_seen(context: QueryContext, query: WindowQuery) -> LastSeen:
    """Find the pods and services with windows that match the query."""
    table = select_windows(context, query, with_stacks=False).table
    keys = ["namespace", "pod", "service"]
    last = table.group_by(keys, use_threads=False).aggregate([("end_ns", "max")])
    pods: dict[tuple[str, str], float] = {}
    services = set[tuple[str, str]]()
    columns = (*(to_strings(last[name]) for name in keys), to_ints(last["end_ns_max"]))
    for namespace, pod, service, end_ns in zip(*columns, strict=True):
        pods[namespace, pod] = max(end_ns / SECOND_NS, pods.get((namespace, pod), 0.0))
        services.add((namespace, service))
    return LastSeen(pods, frozenset(services))
