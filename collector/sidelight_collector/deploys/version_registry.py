"""What is known of the versions of all services, and what newly seen windows say beside it.

It is kept in the store, so that a collector that starts does not take every version for a new one. Of each
service the versions seen last are kept, at most MOST_VERSIONS.

A version is gone when its service was seen without it for `gone_seconds`: so long, all in all, one or another
of its other versions was. It comes back when it is seen after that, which is an arrival like its first. A
pause of all versions, such as a night without load, makes none of them gone, whichever is the first after it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from math import inf
from typing import Any, Final

import orjson
import zstandard

from sidelight_collector.decompress import unpack
from sidelight_collector.deploys.deploy import Deploy, Over, Span, Why
from sidelight_collector.deploys.version_discovery import Seen
from sidelight_model.errors import SidelightError

FORMAT: Final = 2
MOST_VERSIONS: Final = 20
MOST_BYTES: Final = 1 << 30
"""What the object may unfold to."""

Service = tuple[str, str]
"""Namespace and service."""


@dataclass(frozen=True, slots=True)
class Run:
    """From one arrival of a version on: when it was seen `first` and `last`.

    `since`: from when on without a pause; `before`: when it was seen last before it came back, 0 where it was
    never gone; `gone`: whether it is.
    """

    first: float
    last: float
    since: float
    before: float = 0.0
    gone: bool = False

    def again(self, seen: Span, gone_seconds: float) -> Run:
        """The same arrival, once it was seen once more."""
        since = self.since
        if seen.first >= self.last + gone_seconds:
            since = seen.first
        elif seen.last + gone_seconds > self.since:
            since = min(self.since, seen.first)
        gone = self.gone and seen.last <= self.last
        return Run(min(self.first, seen.first), max(self.last, seen.last), since, self.before, gone)


@dataclass(frozen=True, slots=True)
class Appeared:
    """A version that was not known, or was gone, and the one of its service that it comes after.

    `before` is when it was seen last before it came back, 0 where it is new.
    """

    namespace: str
    service: str
    version: str
    first_seen: float
    previous: str
    previous_seen: Span
    before: float = 0.0


@dataclass(slots=True)
class Known:
    """The versions of each service, and until when (Unix seconds) windows were looked through."""

    until: float = 0.0
    services: dict[Service, dict[str, Run]] = field(default_factory=dict)

    def learn(self, seen: Iterable[Seen], gone_seconds: float, since: float = 0.0) -> list[Appeared]:
        """Take in what was seen, in the order in which it appeared; what arrived and comes after another.

        `seen` has each version without pauses of `gone_seconds`. What appeared within `gone_seconds` after
        `since` was there before anybody looked, and is not new.
        """
        arrived, touched = [], set()
        for one in seen:
            service = one.namespace, one.service
            touched.add(service)
            versions = self.services.setdefault(service, {})
            _go(versions, one.span.first, gone_seconds)
            run = versions.get(one.version)
            if run is not None and run.before and one.span.last <= run.first - gone_seconds:
                # What was there before it came back, looked through once more.
                versions[one.version] = replace(run, before=max(run.before, one.span.last))
                continue
            back = run is not None and run.gone and one.span.first >= run.last + gone_seconds
            if run is None or back:
                before = run.last if run else 0.0
                if one.version and one.span.first >= since + gone_seconds:
                    arrived += _arrival(one, before, versions, gone_seconds)
                first, last = one.span.first, one.span.last
                versions[one.version] = Run(first, last, first, before)
            else:
                versions[one.version] = run.again(one.span, gone_seconds)
            if len(versions) > MOST_VERSIONS:
                del versions[min(versions, key=lambda name: (versions[name].last, name))]
        for service in touched:
            _go(self.services[service], inf, gone_seconds)
        return arrived

    def over(self, deploy: Deploy) -> Over | None:
        """Whether a deploy was replaced or rolled back, and by what."""
        versions = self.services.get((deploy.namespace, deploy.service), {})
        others = {name: run for name, run in versions.items() if name != deploy.version}
        # One that comes back ends nothing: it may run beside. What it takes the place of will be gone.
        later = [
            (run.first, name)
            for name, run in others.items()
            if name and not run.before and run.first > deploy.first_seen
        ]
        own = versions.get(deploy.version)
        if own is not None and own.before >= deploy.first_seen:  # and has come back: that is another deploy
            ended: float | None = own.before
        else:
            ended = own.last if own is not None and own.gone else None
        if later and (ended is None or min(later)[0] <= ended):
            first, name = min(later)
            return Over(first, Why.REPLACED, name)
        if ended is None:
            return None
        return Over(
            ended,
            Why.ROLLED_BACK,
            max(((run.last, name) for name, run in others.items()), default=(0, ""))[1],
        )

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
        [*service, [[name, *astuple(run)] for name, run in sorted(versions.items())]]
        for service, versions in sorted(known.services.items())
    ]
    told = {"format": FORMAT, "until": known.until, "services": rows}
    return zstandard.ZstdCompressor(level=3).compress(orjson.dumps(told))


def decode(content: bytes) -> Known | None:
    """As it was written; None where it cannot be read."""
    try:
        told: Any = orjson.loads(unpack(content, "zstd", MOST_BYTES))
        if told["format"] not in (1, FORMAT):
            return None
        return Known(float(told["until"]), dict(_services(told["services"])))
    except (SidelightError, ValueError, KeyError, TypeError):
        return None


def _services(rows: Any) -> Iterator[tuple[Service, dict[str, Run]]]:
    for namespace, service, versions in rows:
        yield (str(namespace), str(service)), {str(name): _run(*numbers) for name, *numbers in versions}


def _run(first: float, last: float, since: float | None = None, before: float = 0.0, gone: object = 0) -> Run:
    """As it was written, in format 1 with its first two numbers alone."""
    return Run(float(first), float(last), float(first if since is None else since), float(before), bool(gone))


def _arrival(one: Seen, before: float, versions: Mapping[str, Run], gone_seconds: float) -> list[Appeared]:
    """The arrival of a version, if it comes after another."""
    others = {name: run for name, run in versions.items() if name != one.version}
    previous = _before(others, one.span.first, gone_seconds)
    if previous is None:
        return []
    labels = one.namespace, one.service, one.version
    ran = Span(others[previous].first, others[previous].last)
    return [Appeared(*labels, one.span.first, previous, ran, before)]


def _go(versions: dict[str, Run], at: float, gone_seconds: float) -> None:
    """Mark what is gone at a moment: others were seen for long enough since it was."""
    if len(versions) < 2:
        return
    for name, run in versions.items():
        if not run.gone and _without(versions, name, at) >= gone_seconds:
            versions[name] = replace(run, gone=True)


def _without(versions: Mapping[str, Run], name: str, at: float) -> float:
    """For how long until a moment other versions were seen since one was."""
    start, seen = versions[name].last, 0.0
    spans = sorted((other.since, min(other.last, at)) for own, other in versions.items() if own != name)
    for since, last in spans:
        if last > max(start, since):
            seen += last - max(start, since)
            start = last
    return seen


def _before(versions: Mapping[str, Run], first: float, gone_seconds: float) -> str | None:
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
