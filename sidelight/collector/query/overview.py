"""Every service in columns, small enough to ask for tens of thousands at once.

The current version is the one that appeared last of those that were still seen when the service was; the
previous one is, of all others, the one seen last. After a rollback the previous version appeared later.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from operator import itemgetter
from typing import Final, TypedDict

from sidelight.collector.query.basis import Basis, basis
from sidelight.collector.query.reading import Reading
from sidelight.collector.query.seen import Key, Seen, coverage, last_of_pods, seen
from sidelight.collector.query.watched import processes
from sidelight.collector.query.windows import Question, choose
from sidelight.collector.times import SECOND_NS
from sidelight.stacks.counts import ProfileType

NOW_NS: Final = 600 * SECOND_NS
"""What was seen so shortly before the last of its service is there now."""
_DIGITS: Final = 3


class OfVersions(TypedDict):
    """Columns about one version of each service; `version` is None where a service has none such."""

    version: list[str | None]
    first_seen: list[float | None]
    pods_now: list[int]
    samples: list[int]
    seconds: list[float]
    pod_seconds: list[float]


# `from` is a word of the language, so this one is written as a call.
Overview = TypedDict(
    "Overview",
    {
        "type": str,
        "service": list[str],
        "first_seen": list[float],
        "last_seen": list[float],
        "samples": list[int],
        "seconds": list[float],
        "pod_seconds": list[float],
        "cores": list[float | None],
        "pods": list[int],
        "pods_now": list[int],
        "versions": list[int],
        "current": OfVersions,
        "previous": OfVersions,
        "left_out": int,
        "from": float,
        "until": float,
        "basis": Basis,
    },
)


def overview(reading: Reading, question: Question, kind: ProfileType, *, most: int) -> Overview:
    """What each service took, by name; of more than `most` services those that took most time."""
    chosen = choose(reading, question, stacks=False)
    table, whole = chosen.table, processes(chosen.watched)
    services = {name: of for (name,), of in seen(table, whole, ("service",), kind).items()}
    kept = sorted(sorted(services, key=lambda name: (-services[name].ns, name))[:most])
    versions: dict[str, dict[str, Seen]] = defaultdict(dict)
    for (service, version), of in seen(table, whole, ("service", "version"), kind).items():
        versions[service][version] = of
    now = _now(last_of_pods(whole, ("service", "version")), services)
    both = {name: _current_and_previous(versions[name], services[name].last_ns) for name in kept}
    covered = coverage(whole, "service")
    return {
        "type": kind.value,
        "service": kept,
        "first_seen": [_seconds(services[name].first_ns) for name in kept],
        "last_seen": [_seconds(services[name].last_ns) for name in kept],
        "samples": [services[name].samples for name in kept],
        "seconds": [_seconds(services[name].ns) for name in kept],
        "pod_seconds": [round(services[name].pod_seconds, _DIGITS) for name in kept],
        "cores": [_cores(services[name], covered.get(name, 0.0)) for name in kept],
        "pods": [services[name].pods for name in kept],
        "pods_now": [sum(now[name].values()) for name in kept],
        "versions": [len(versions[name]) for name in kept],
        "current": _columns(kept, lambda name: both[name][0], versions, now),
        "previous": _columns(kept, lambda name: both[name][1], versions, now),
        "left_out": len(services) - len(kept),
        "from": question.from_ns / SECOND_NS,
        "until": question.until_ns / SECOND_NS,
        "basis": basis([chosen], kind, reading.unreadable),
    }


def _now(pods: Iterable[tuple[Key, int]], services: Mapping[str, Seen]) -> dict[str, Counter[str]]:
    """For each service how many pods of each version there are when it was last seen."""
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for (service, version), last in pods:
        if service in services and last > services[service].last_ns - NOW_NS:
            found[service][version] += 1
    return found


def _current_and_previous(versions: Mapping[str, Seen], last_ns: int) -> tuple[str, str | None]:
    there = [(of.first_ns, version) for version, of in versions.items() if of.last_ns > last_ns - NOW_NS]
    current = max(there)[1]
    others = [(of.last_ns, of.first_ns, version) for version, of in versions.items() if version != current]
    return current, max(others, default=(0, 0, None), key=itemgetter(0, 1))[2]


def _cores(of: Seen, covered: float) -> float | None:
    """How many cores (or threads) all pods kept busy, on average from the first window to the last."""
    span = of.last_ns - of.first_ns
    return round(of.ns / covered / span, 6) if span and covered else None


def _columns(
    services: Iterable[str],
    which: Callable[[str], str | None],
    versions: Mapping[str, Mapping[str, Seen]],
    now: Mapping[str, Counter[str]],
) -> OfVersions:
    columns: OfVersions = {
        "version": [],
        "first_seen": [],
        "pods_now": [],
        "samples": [],
        "seconds": [],
        "pod_seconds": [],
    }
    for name in services:
        version = which(name)
        of = versions[name].get(version) if version is not None else None
        columns["version"].append(version)
        columns["first_seen"].append(_seconds(of.first_ns) if of else None)
        columns["pods_now"].append(now[name][version] if version is not None else 0)
        columns["samples"].append(of.samples if of else 0)
        columns["seconds"].append(_seconds(of.ns) if of else 0.0)
        columns["pod_seconds"].append(round(of.pod_seconds, _DIGITS) if of else 0.0)
    return columns


def _seconds(ns: int) -> float:
    return round(ns / SECOND_NS, _DIGITS)
