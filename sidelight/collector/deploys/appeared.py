"""Which versions of which services were seen, by the windows that came."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sidelight.collector.columns import integers, strings
from sidelight.collector.deploys.deploy import Span
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.windows import Question, choose
from sidelight.collector.times import SECOND_NS
from sidelight.stacks.selectors import Matcher, Op, Selector

_KEYS = ("namespace", "service", "version")


@dataclass(frozen=True, slots=True)
class Seen:
    """From when until when windows of a version began and ended."""

    namespace: str
    service: str
    version: str
    span: Span


def versions_seen(reading: Reading, question: Question) -> list[Seen]:
    """All of a range, those that appeared first before others."""
    table = choose(reading, question, stacks=False).table
    added = table.group_by(list(_KEYS), use_threads=False).aggregate([("ts", "min"), ("end_ns", "max")])
    names = zip(*(strings(added[name]) for name in _KEYS), strict=True)
    spans = zip(integers(added["ts_min"]), integers(added["end_ns_max"]), strict=True)
    found = [
        Seen(namespace, service, version, Span(first / SECOND_NS, last / SECOND_NS))
        for (namespace, service, version), (first, last) in zip(names, spans, strict=True)
    ]
    return sorted(found, key=lambda one: (one.span.first, one.namespace, one.service, one.version))


def of_version(namespace: str, service: str, version: str) -> Selector:
    """What selects the windows of one version of a service in one namespace."""
    values = zip(("service", "namespace", "version"), (service, namespace, version), strict=True)
    return Selector(tuple(Matcher(name, Op.EQUAL, value) for name, value in values))


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
