"""Every service in columns, small enough to ask for tens of thousands at once.

The current version is the one that appeared last of those that were still seen when the service was; the
previous one is, of all others, the one seen last. After a rollback the previous version appeared later.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final, TypedDict

from sidelight_collector.answers.usage import Seen, seen
from sidelight_collector.query.data_basis import Basis, basis
from sidelight_collector.query.query_context import Reading
from sidelight_collector.query.select.window_query import (
    choose,
)
from sidelight_collector.query.windows import (
    Question,
)
from sidelight_collector.times import SECOND_NS
from sidelight_model.counts import ProfileType

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
        "omitted": int,
        "from": float,
        "until": float,
        "basis": Basis,
    },
)


def overview(reading: Reading, question: Question, kind: ProfileType, *, most: int) -> Overview:
    """What each service took, by name; of more than `most` services those that took most time."""
    chosen = choose(reading, question, stacks=False)
    services = seen(chosen, kind, "service", at_once=True)
    dearest = {of.key for of in sorted(services, key=lambda of: (-of.ns, of.key))[:most]}
    kept = [of for of in services if of.key in dearest]
    versions: dict[str, list[Seen]] = defaultdict(list)
    for of in seen(chosen, kind, "service", "version"):
        versions[of.key[0]].append(of)
    both = [_current_and_previous(versions[of.key[0]], of.last_ns) for of in kept]
    return {
        "type": kind.value,
        "service": [of.key[0] for of in kept],
        "first_seen": [_seconds(of.first_ns) for of in kept],
        "last_seen": [_seconds(of.last_ns) for of in kept],
        "samples": [of.samples for of in kept],
        "seconds": [_seconds(of.ns) for of in kept],
        "pod_seconds": [round(of.pod_seconds, _DIGITS) for of in kept],
        "cores": [_cores(of) for of in kept],
        "pods": [len(of.pods) for of in kept],
        "pods_now": [_now(of, of.last_ns) for of in kept],
        "versions": [len(versions[of.key[0]]) for of in kept],
        "current": _columns([current for current, _ in both], kept),
        "previous": _columns([previous for _, previous in both], kept),
        "omitted": len(services) - len(kept),
        "from": question.from_ns / SECOND_NS,
        "until": question.until_ns / SECOND_NS,
        "basis": basis([chosen], kind, reading.unreadable),
    }


def _now(of: Seen, last_ns: int) -> int:
    """How many pods there are when their service was last seen."""
    return sum(last > last_ns - NOW_NS for last in of.pods)


def _current_and_previous(versions: Sequence[Seen], last_ns: int) -> tuple[Seen, Seen | None]:
    there = (of for of in versions if of.last_ns > last_ns - NOW_NS)
    current = max(there, key=lambda of: (of.first_ns, of.key))
    others = (of for of in versions if of is not current)
    return current, max(others, key=lambda of: (of.last_ns, of.first_ns), default=None)


def _cores(of: Seen) -> float | None:
    """How many cores (or threads) all pods kept busy, on average while any of them was watched."""
    return None if of.rate is None else round(of.rate * of.pods_at_once, 6)


def _columns(versions: Sequence[Seen | None], services: Sequence[Seen]) -> OfVersions:
    return {
        "version": [of.key[1] if of else None for of in versions],
        "first_seen": [_seconds(of.first_ns) if of else None for of in versions],
        "pods_now": [
            _now(of, all_.last_ns) if of else 0 for of, all_ in zip(versions, services, strict=True)
        ],
        "samples": [of.samples if of else 0 for of in versions],
        "seconds": [_seconds(of.ns) if of else 0.0 for of in versions],
        "pod_seconds": [round(of.pod_seconds, _DIGITS) if of else 0.0 for of in versions],
    }


def _seconds(ns: int) -> float:
    return round(ns / SECOND_NS, _DIGITS)
