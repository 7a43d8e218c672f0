"""The pods and services that shipped windows in a time range."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight_collector.arrow_ops import list_unique_strings, to_ints, to_strings
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS


@dataclass(frozen=True, slots=True)
class LastSeen:
    """Pods and services with windows in a time range.

    `pods` maps (namespace, pod) to the end of its last window, in Unix seconds.
    """

    pods: dict[tuple[str, str], float]
    services: frozenset[str]


def query_last_seen(context: QueryContext, query: WindowQuery) -> LastSeen:
    """Find the pods and services with windows that match the query."""
    table = select_windows(context, query, with_stacks=False).table
    keys = ["namespace", "pod"]
    last = table.group_by(keys, use_threads=False).aggregate([("end_ns", "max")])
    names = zip(*(to_strings(last[name]) for name in keys), strict=True)
    pods = dict(zip(names, (end / SECOND_NS for end in to_ints(last["end_ns_max"])), strict=True))
    return LastSeen(pods, frozenset(list_unique_strings(table["service"])))
