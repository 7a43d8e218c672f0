"""Finds when versions of services have stored windows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.observed_time import list_version_spans
from sidelight_collector.query.windows import WindowQuery
from sidelight_collector.times import SECOND_NS, ObservedSpan
from sidelight_model.selectors import Matcher, Op, Selector

CAPTURE_LABEL: Final = "capture"


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
