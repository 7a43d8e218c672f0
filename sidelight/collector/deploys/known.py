"""What is known of the versions of all services, and what newly seen windows say beside it.

It is kept in the store, so that a collector that starts does not take every version for a new one. Of each
service the versions seen last are kept, at most MOST_VERSIONS. A version that comes back, after a rollback or
a night in which its service did not run, is not a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import zstandard

from sidelight.collector.deploys.appeared import Seen
from sidelight.collector.deploys.deploy import Deploy, Over, Span, Why
from sidelight.collector.unpack import unpack
from sidelight.stacks.errors import SidelightError

FORMAT: Final = 1
MOST_VERSIONS: Final = 20
MOST_BYTES: Final = 1 << 30
"""What the object may unfold to."""

Service = tuple[str, str]
"""Namespace and service."""


@dataclass(frozen=True, slots=True)
class Appeared:
    """A version that was not known, and the one of its service that it comes after."""

    namespace: str
    service: str
    version: str
    first_seen: float
    previous: str
    previous_seen: Span


@dataclass(slots=True)
class Known:
    """The versions of each service, and until when (Unix seconds) windows were looked through."""

    until: float = 0.0
    services: dict[Service, dict[str, Span]] = field(default_factory=dict)

    def learn(self, seen: Iterable[Seen], gone_seconds: float, since: float = 0.0) -> list[Appeared]:
        """Take in what was seen, in the order in which it appeared; what is new and comes after another.

        What appeared within `gone_seconds` after `since` was there before anybody looked, and is not new.
        """
        new = []
        for one in seen:
            versions = self.services.setdefault((one.namespace, one.service), {})
            span = versions.get(one.version)
            if span is None and one.version and one.span.first >= since + gone_seconds:
                previous = _before(versions, one.span.first, gone_seconds)
                if previous is not None:
                    labels = one.namespace, one.service, one.version
                    new.append(Appeared(*labels, one.span.first, previous, versions[previous]))
            versions[one.version] = _both(span, one.span)
            if len(versions) > MOST_VERSIONS:
                del versions[min(versions, key=lambda name: (versions[name].last, name))]
        return new

    def over(self, deploy: Deploy, gone_seconds: float) -> Over | None:
        """Whether a deploy was replaced or rolled back, and by what."""
        versions = self.services.get((deploy.namespace, deploy.service), {})
        later = [
            (span.first, name)
            for name, span in versions.items()
            if name and name != deploy.version and span.first > deploy.first_seen
        ]
        if later:
            first, name = min(later)
            return Over(first, Why.REPLACED, name)
        own = versions.get(deploy.version)
        others = [(span.last, name) for name, span in versions.items() if name != deploy.version]
        if own is None or not others:
            return None
        last, name = max(others)
        return Over(own.last, Why.ROLLED_BACK, name) if last - own.last >= gone_seconds else None

    def forget(self, before: float) -> None:
        """Leave out what was not seen since a moment."""
        for service, versions in list(self.services.items()):
            kept = {name: span for name, span in versions.items() if span.last >= before}
            if kept:
                self.services[service] = kept
            else:
                del self.services[service]


def encode(known: Known) -> bytes:
    """As compressed JSON, the same for what is equal."""
    rows = [
        [*service, [[name, span.first, span.last] for name, span in sorted(versions.items())]]
        for service, versions in sorted(known.services.items())
    ]
    told = {"format": FORMAT, "until": known.until, "services": rows}
    return zstandard.ZstdCompressor(level=3).compress(orjson.dumps(told))


def decode(content: bytes) -> Known | None:
    """As it was written; None where it cannot be read."""
    try:
        told: Any = orjson.loads(unpack(content, "zstd", MOST_BYTES))
        if told["format"] != FORMAT:
            return None
        return Known(float(told["until"]), dict(_services(told["services"])))
    except (SidelightError, ValueError, KeyError, TypeError):
        return None


def _services(rows: Any) -> Iterator[tuple[Service, dict[str, Span]]]:
    for namespace, service, versions in rows:
        yield (str(namespace), str(service)), {str(name): Span(*span) for name, *span in versions}


def _both(one: Span | None, other: Span) -> Span:
    return other if one is None else Span(min(one.first, other.first), max(one.last, other.last))


def _before(versions: dict[str, Span], first: float, gone_seconds: float) -> str | None:
    """The version before one that appears: the youngest of those still there, else the one seen last.

    Those that appeared at about the same time, or later, come beside it and not before it.
    """
    earlier = {name: span for name, span in versions.items() if span.first < first}
    if not earlier:
        return None
    there = [name for name, span in earlier.items() if span.last > first - gone_seconds]
    if there:
        return max(there, key=lambda name: (earlier[name].first, name))
    return max(earlier, key=lambda name: (earlier[name].last, earlier[name].first, name))
