"""Which versions of which services were seen, by the windows that came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from typing import Final

import numpy as np

from sidelight_collector.arrow_ops import (
    drop_duplicates,
    factorize_rows,
    to_int64_numpy,
    to_strings,
)
from sidelight_collector.deploys.deploy import ObservedSpan
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import (
    select_windows,
)
from sidelight_collector.query.windows import (
    WindowQuery,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.selectors import Matcher, Op, Selector

CAPTURE_LABEL: Final = "capture"
_VERSION_COLUMNS: Final = ["namespace", "service", "version"]


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """From when until when windows of a version began and ended, without a pause as long as one asks for."""

    namespace: str
    service: str
    version: str
    span: ObservedSpan


def list_version_spans(
    reading: QueryContext, question: WindowQuery, pause_seconds: float = inf
) -> list[VersionSpan]:
    """All of a range, those that began first before others; a version that pauses is there once more."""
    table = select_windows(reading, question, with_stacks=False).table
    if not len(table):
        return []
    distinct = drop_duplicates(table, _VERSION_COLUMNS)
    names = list(zip(*(to_strings(distinct[key]) for key in _VERSION_COLUMNS), strict=True))
    number, start, end = (
        to_int64_numpy(factorize_rows(table.select(_VERSION_COLUMNS))),
        to_int64_numpy(table["ts"]),
        to_int64_numpy(table["end_ns"]),
    )
    order = np.lexsort((start, number))
    found = []
    for (namespace, service, version), rows in zip(
        names, np.split(order, np.flatnonzero(np.diff(number[order])) + 1), strict=True
    ):
        ends = np.maximum.accumulate(end[rows])
        resumed = np.flatnonzero(start[rows][1:] - ends[:-1] >= pause_seconds * SECOND_NS) + 1
        first, last = start[rows][np.append(0, resumed)], ends[np.append(resumed - 1, len(rows) - 1)]
        found += [
            VersionSpan(namespace, service, version, ObservedSpan(one / SECOND_NS, other / SECOND_NS))
            for one, other in zip(first.tolist(), last.tolist(), strict=True)
        ]
    return sorted(found, key=lambda one: (one.span.first, one.namespace, one.service, one.version))


def build_version_selector(namespace: str, service: str, version: str) -> Selector:
    """What selects the windows of one version of a service in one namespace.

    Those of captures are left out: somebody took them, at a rate of its own, because something was wrong.
    """
    values = {"service": service, "namespace": namespace, "version": version, CAPTURE_LABEL: ""}
    return Selector(tuple(Matcher(name, Op.EQUAL, value) for name, value in values.items()))


def find_observed_span(
    reading: QueryContext, selector: Selector, start: float, until: float
) -> ObservedSpan | None:
    """From when until when there are windows of a range (Unix seconds); None if there are none."""
    question = WindowQuery(selector, round(start * SECOND_NS), round(until * SECOND_NS))
    spans = [one.span for one in list_version_spans(reading, question)]
    return ObservedSpan(min(one.first for one in spans), max(one.last for one in spans)) if spans else None


def split_range(start: float, until: float, max_seconds: float) -> Iterator[tuple[float, float]]:
    """A range in pieces of at most so many seconds."""
    while start < until:
        yield start, min(start + max_seconds, until)
        start += max_seconds
