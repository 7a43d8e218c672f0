"""Which versions of which services were seen, by the windows that came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from sidelight_collector.arrow_ops import (
    firsts,
    int64_array,
    numbered,
    strings,
)
from sidelight_collector.deploys.deploy import Span
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.select.window_query import (
    choose,
)
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.selectors import Matcher, Op, Selector

CAPTURE: Final = "capture"
_KEYS: Final = ["namespace", "service", "version"]


@dataclass(frozen=True, slots=True)
class Seen:
    """From when until when windows of a version began and ended, without a pause as long as one asks for."""

    namespace: str
    service: str
    version: str
    span: Span


def versions_seen(reading: Reading, question: Question, pause_seconds: float = inf) -> list[Seen]:
    """All of a range, those that began first before others; a version that pauses is there once more."""
    table = choose(reading, question, stacks=False).table
    if not len(table):
        return []
    named = firsts(table, _KEYS)
    names = list(zip(*(strings(named[key]) for key in _KEYS), strict=True))
    number, start, end = (
        int64_array(numbered(table.select(_KEYS))),
        int64_array(table["ts"]),
        int64_array(table["end_ns"]),
    )
    order = np.lexsort((start, number))
    found = []
    for (namespace, service, version), rows in zip(
        names, np.split(order, np.flatnonzero(np.diff(number[order])) + 1), strict=True
    ):
        ends = np.maximum.accumulate(end[rows])
        again = np.flatnonzero(start[rows][1:] - ends[:-1] >= pause_seconds * SECOND_NS) + 1
        first, last = start[rows][np.append(0, again)], ends[np.append(again - 1, len(rows) - 1)]
        found += [
            Seen(namespace, service, version, Span(one / SECOND_NS, other / SECOND_NS))
            for one, other in zip(first.tolist(), last.tolist(), strict=True)
        ]
    return sorted(found, key=lambda one: (one.span.first, one.namespace, one.service, one.version))


def of_version(namespace: str, service: str, version: str) -> Selector:
    """What selects the windows of one version of a service in one namespace.

    Those of captures are left out: somebody took them, at a rate of its own, because something was wrong.
    """
    values = {"service": service, "namespace": namespace, "version": version, CAPTURE: ""}
    return Selector(tuple(Matcher(name, Op.EQUAL, value) for name, value in values.items()))


def span_of(reading: Reading, selector: Selector, start: float, until: float) -> Span | None:
    """From when until when there are windows of a range (Unix seconds); None if there are none."""
    question = Question(selector, round(start * SECOND_NS), round(until * SECOND_NS))
    spans = [one.span for one in versions_seen(reading, question)]
    return Span(min(one.first for one in spans), max(one.last for one in spans)) if spans else None


def chunks(start: float, until: float, most: float) -> Iterator[tuple[float, float]]:
    """A range in pieces of at most so many seconds."""
    while start < until:
        yield start, min(start + most, until)
        start += most
