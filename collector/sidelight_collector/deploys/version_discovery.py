"""Finds which versions of which services have stored windows."""

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
from sidelight_collector.query.select.window_query import select_windows
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS
from sidelight_model.selectors import Matcher, Op, Selector

CAPTURE_LABEL: Final = "capture"
_VERSION_COLUMNS: Final = ["namespace", "service", "version"]


@dataclass(frozen=True, slots=True)
class VersionSpan:
    """A time in which a version had windows, without a pause of a given length."""

    namespace: str
    service: str
    version: str
    span: ObservedSpan


def list_version_spans(
    reading: QueryContext, question: WindowQuery, pause_seconds: float = inf
) -> list[VersionSpan]:
    """List the spans of all versions in a time range, earliest first.

    A version that pauses for `pause_seconds` has several spans.
    """
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
    spans = []
    for (namespace, service, version), rows in zip(
        names, np.split(order, np.flatnonzero(np.diff(number[order])) + 1), strict=True
    ):
        ends = np.maximum.accumulate(end[rows])
        resumed = np.flatnonzero(start[rows][1:] - ends[:-1] >= pause_seconds * SECOND_NS) + 1
        first, last = start[rows][np.append(0, resumed)], ends[np.append(resumed - 1, len(rows) - 1)]
        spans += [
            VersionSpan(namespace, service, version, ObservedSpan(begin / SECOND_NS, until / SECOND_NS))
            for begin, until in zip(first.tolist(), last.tolist(), strict=True)
        ]
    return sorted(spans, key=lambda span: (span.span.first, span.namespace, span.service, span.version))


def build_version_selector(namespace: str, service: str, version: str) -> Selector:
    """Select the windows of one version of a service in one namespace.

    Windows of captures are excluded: a user took them because of a problem, at a rate of their own.
    """
    values = {"service": service, "namespace": namespace, "version": version, CAPTURE_LABEL: ""}
    return Selector(tuple(Matcher(name, Op.EQUAL, value) for name, value in values.items()))


def find_observed_span(
    reading: QueryContext, selector: Selector, start: float, until: float
) -> ObservedSpan | None:
    """Find when the windows in a range (Unix seconds) begin and end.

    None if there are none.
    """
    query = WindowQuery(selector, round(start * SECOND_NS), round(until * SECOND_NS))
    spans = [version.span for version in list_version_spans(reading, query)]
    return (
        ObservedSpan(min(span.first for span in spans), max(span.last for span in spans)) if spans else None
    )


def split_range(start: float, until: float, max_seconds: float) -> Iterator[tuple[float, float]]:
    """Split a time range into pieces of at most `max_seconds`."""
    while start < until:
        yield start, min(start + max_seconds, until)
        start += max_seconds
