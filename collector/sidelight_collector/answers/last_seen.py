"""Which pods were heard of, and which services, by the windows that came."""

from __future__ import annotations

from dataclasses import dataclass

from sidelight_collector.arrow_ops import integers, strings, used
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.select.window_query import (
    choose,
)
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_collector.times import SECOND_NS


@dataclass(frozen=True, slots=True)
class Presence:
    """When the last window of each (namespace, pod) ended, in Unix seconds, and the services there are."""

    pods: dict[tuple[str, str], float]
    services: frozenset[str]


def presence(reading: Reading, question: Question) -> Presence:
    """Who shipped windows of this range."""
    table = choose(reading, question, stacks=False).table
    keys = ["namespace", "pod"]
    last = table.group_by(keys, use_threads=False).aggregate([("end_ns", "max")])
    names = zip(*(strings(last[name]) for name in keys), strict=True)
    pods = dict(zip(names, (end / SECOND_NS for end in integers(last["end_ns_max"])), strict=True))
    return Presence(pods, frozenset(used(table["service"])))
