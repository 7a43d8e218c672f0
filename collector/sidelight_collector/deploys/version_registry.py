"""The known versions of all services, and the arrivals in new windows.

The registry is kept in the store, so that a collector that starts does not take every version for a new
one. Of each service it keeps the versions seen last, at most `MAX_VERSIONS`, and present ones before absent
ones.

A version becomes absent when other versions of its service were seen for `absent_seconds` in all without
it. When it is seen again after that, this is an arrival like its first. A pause of all versions, such as a
night without load, makes none of them absent, whichever is seen first afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field, replace
from math import inf
from typing import Any, Final

import orjson
import zstandard

from sidelight_collector.decompress import decompress_body
from sidelight_collector.deploys.deploy import Deploy, DeployEnd, FinishReason
from sidelight_collector.query.select.observed_time import VersionSpan, find_previous_version
from sidelight_collector.storage.documents import parse_document
from sidelight_collector.storage.objects import ObjectDamaged
from sidelight_collector.times import ObservedSpan
from sidelight_model.errors import SidelightError

FORMAT: Final = 2
MAX_VERSIONS: Final = 20
MAX_BYTES: Final = 1 << 30
"""Maximum size of the decompressed object."""

ServiceKey = tuple[str, str]
"""Namespace and service."""


@dataclass(frozen=True, slots=True)
class VersionRun:
    """The time of a version since one of its arrivals.

    It was seen from `first_seen` to `last_seen`, and without a pause since `continuous_since`.
    `previous_last_seen` is when it was last seen before it came back, 0 if it never left. `is_absent` says
    whether it has left.
    """

    first_seen: float
    last_seen: float
    continuous_since: float
    previous_last_seen: float = 0.0
    is_absent: bool = False

    def extend(self, span: ObservedSpan, absent_seconds: float) -> VersionRun:
        """Return the run extended by a span in which the version was seen."""
        since = self.continuous_since
        if span.first >= self.last_seen + absent_seconds:
            since = span.first
        elif span.last + absent_seconds > self.continuous_since:
            since = min(self.continuous_since, span.first)
        is_absent = self.is_absent and span.last <= self.last_seen
        return VersionRun(
            min(self.first_seen, span.first),
            max(self.last_seen, span.last),
            since,
            self.previous_last_seen,
            is_absent,
        )


@dataclass(frozen=True, slots=True)
class VersionArrival:
    """A version that is new or comes back, and the version that it follows.

    `previous_last_seen` is when it was last seen before it came back, 0 if it is new.
    """

    namespace: str
    service: str
    version: str
    first_seen: float
    previous: str
    previous_seen: ObservedSpan
    previous_last_seen: float = 0.0


AcceptVersion = Callable[[VersionSpan, float, Mapping[str, VersionRun]], bool]
"""Whether a version counts: its span, when it was last seen before, and the known versions."""
IsRollout = Callable[[str, VersionRun, Mapping[str, VersionRun]], bool]
"""Whether Kubernetes rolled out a version: its name, its run, and the known versions."""


@dataclass(slots=True)
class VersionRegistry:
    """The versions of each service, and how far windows were scanned (Unix seconds)."""

    scanned_until: float = 0.0
    services: dict[ServiceKey, dict[str, VersionRun]] = field(default_factory=dict)

    def record_spans(
        self,
        spans: Iterable[VersionSpan],
        absent_seconds: float,
        history_start: float = 0.0,
        accept: AcceptVersion = lambda *_: True,
    ) -> list[VersionArrival]:
        """Record spans of versions, in order of their start, and return the arrivals.

        `spans` has each version without pauses of `absent_seconds`. A version that appears within
        `absent_seconds` after `history_start` ran before the first scan, and does not count as new. Neither
        does a version that follows no other. `accept` decides about each other new or returning version; the
        registry ignores those that it rejects.
        """
        arrivals, touched = [], set()
        for version_span in spans:
            service = version_span.namespace, version_span.service
            touched.add(service)
            versions = self.services.setdefault(service, {})
            _mark_absent(versions, version_span.span.first, absent_seconds)
            run = versions.get(version_span.version)
            if (
                run is not None
                and run.previous_last_seen
                and version_span.span.last <= run.first_seen - absent_seconds
            ):
                # The span is from before the version came back, scanned once more.
                versions[version_span.version] = replace(
                    run, previous_last_seen=max(run.previous_last_seen, version_span.span.last)
                )
                continue
            is_returning = (
                run is not None
                and run.is_absent
                and version_span.span.first >= run.last_seen + absent_seconds
            )
            if run is None or is_returning:
                previous_last_seen = run.last_seen if run else 0.0
                if version_span.version and version_span.span.first >= history_start + absent_seconds:
                    if versions and not accept(version_span, previous_last_seen, versions):
                        continue
                    arrivals += _build_arrival(version_span, previous_last_seen, versions, absent_seconds)
                first, last = version_span.span.first, version_span.span.last
                versions[version_span.version] = VersionRun(first, last, first, previous_last_seen)
            else:
                versions[version_span.version] = run.extend(version_span.span, absent_seconds)
            if len(versions) > MAX_VERSIONS:
                ranks = {name: (not run.is_absent, run.last_seen, name) for name, run in versions.items()}
                del versions[min(versions, key=ranks.__getitem__)]
        for service in touched:
            _mark_absent(self.services[service], inf, absent_seconds)
        return arrivals

    def find_end(self, deploy: Deploy, is_rollout: IsRollout = lambda *_: False) -> DeployEnd | None:
        """Return when a deploy was replaced or rolled back, and by which version.

        None if it goes on. A newer version replaces it at once if `is_rollout`; otherwise once the deploy's
        version is absent, because a version may be made up.
        """
        versions = self.services.get((deploy.namespace, deploy.service), {})
        others = {name: run for name, run in versions.items() if name != deploy.version}
        # A version that comes back may run beside this one; if it replaces it, this one becomes absent.
        successors = [
            (run.first_seen, name)
            for name, run in others.items()
            if name and not run.previous_last_seen and run.first_seen > deploy.first_seen
        ]
        current = versions.get(deploy.version)
        if current is not None and current.previous_last_seen >= deploy.first_seen:
            # The version has come back since, which is another deploy.
            ended: float | None = current.previous_last_seen
        else:
            ended = current.last_seen if current is not None and current.is_absent else None
        if ended is not None:
            successors = [successor for successor in successors if successor[0] <= ended]
        rollouts = [
            successor for successor in successors if is_rollout(successor[1], others[successor[1]], versions)
        ]
        successors = rollouts or (successors if ended is not None else [])
        if successors:
            first, name = min(successors)
            return DeployEnd(first, FinishReason.REPLACED, name)
        if ended is None:
            return None
        return DeployEnd(
            ended,
            FinishReason.ROLLED_BACK,
            max(((run.last_seen, name) for name, run in others.items()), default=(0, ""))[1],
        )

    def drop_unseen(self, cutoff: float) -> None:
        """Drop the versions that were not seen since `cutoff`."""
        for service, versions in list(self.services.items()):
            retained = {name: span for name, span in versions.items() if span.last_seen >= cutoff}
            if retained:
                self.services[service] = retained
            else:
                del self.services[service]


def encode_registry(registry: VersionRegistry) -> bytes:
    """Encode a registry as compressed JSON, with equal bytes for equal registries."""
    rows = [
        [*service, [[name, *astuple(run)] for name, run in sorted(versions.items())]]
        for service, versions in sorted(registry.services.items())
    ]
    document = {"format": FORMAT, "until": registry.scanned_until, "services": rows}
    return zstandard.ZstdCompressor(level=3).compress(orjson.dumps(document))


def decode_registry(key: str, content: bytes) -> VersionRegistry:
    """Decode a stored registry. Raises ObjectDamaged."""
    try:
        document = parse_document(key, decompress_body(content, "zstd", MAX_BYTES), FORMAT)
        return VersionRegistry(float(document["until"]), dict(_parse_services(document["services"])))
    except (SidelightError, ValueError, KeyError, TypeError) as error:
        raise ObjectDamaged(key, f"{type(error).__name__}: {error}") from error


def _parse_services(rows: Any) -> Iterator[tuple[ServiceKey, dict[str, VersionRun]]]:
    for namespace, service, versions in rows:
        yield (str(namespace), str(service)), {str(name): _parse_run(*numbers) for name, *numbers in versions}


def _parse_run(
    first_seen: float,
    last_seen: float,
    continuous_since: float | None = None,
    previous_last_seen: float = 0.0,
    is_absent: object = 0,
) -> VersionRun:
    """Parse a run; format 1 has only its first two numbers."""
    return VersionRun(
        float(first_seen),
        float(last_seen),
        float(first_seen if continuous_since is None else continuous_since),
        float(previous_last_seen),
        bool(is_absent),
    )


def _build_arrival(
    version_span: VersionSpan,
    previous_last_seen: float,
    versions: Mapping[str, VersionRun],
    absent_seconds: float,
) -> list[VersionArrival]:
    """Build the arrival of a version; an empty list if it follows no other."""
    others = {
        name: ObservedSpan(run.first_seen, run.last_seen)
        for name, run in versions.items()
        if name != version_span.version
    }
    previous = find_previous_version(others, version_span.span.first, absent_seconds)
    if previous is None:
        return []
    labels = version_span.namespace, version_span.service, version_span.version
    first = version_span.span.first
    return [VersionArrival(*labels, first, previous, others[previous], previous_last_seen)]


def _mark_absent(versions: dict[str, VersionRun], at: float, absent_seconds: float) -> None:
    """Mark the versions absent at a time: others were seen long enough since."""
    if len(versions) < 2:
        return
    for name, run in versions.items():
        if not run.is_absent and _measure_absence(versions, name, at) >= absent_seconds:
            versions[name] = replace(run, is_absent=True)


def _measure_absence(versions: Mapping[str, VersionRun], name: str, at: float) -> float:
    """Return for how long until `at` other versions were seen without this one."""
    start, observed_seconds = versions[name].last_seen, 0.0
    spans = sorted(
        (other.continuous_since, min(other.last_seen, at)) for own, other in versions.items() if own != name
    )
    for since, last in spans:
        if last > max(start, since):
            observed_seconds += last - max(start, since)
            start = last
    return observed_seconds
