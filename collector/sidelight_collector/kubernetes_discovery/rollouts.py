"""When each revision of a workload began to roll out and was complete.

A cluster keeps when a revision was made and when its last rollout was complete; of one that came back after a
rollback it keeps neither. So what was seen once is kept in the store, and what any two processes saw is added
up: the earliest start and the earliest end count, in whatever order they are told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

import orjson

from sidelight_collector.kubernetes_discovery.cluster_cache import Known
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod, Revision, Workload
from sidelight_collector.query.select.matchers import fullmatch
from sidelight_model.selectors import Selector

FORMAT: Final = 1
MOST_WITHIN: Final = 500
_LABELS: Final = ("service", "version", "namespace")


@dataclass(frozen=True, slots=True)
class Rollout:
    """One revision rolled out: when it began and was complete (Unix seconds), None while nothing tells.

    `uid` is that of the ReplicaSet or ControllerRevision, `revision` its number at that time.
    """

    uid: str
    revision: int
    namespace: str
    kind: str
    workload: str
    service: str
    version: str
    started: float
    ended: float | None = None

    @property
    def key(self) -> tuple[str, int]:
        return self.uid, self.revision


Rollouts = Mapping[tuple[str, int], Rollout]


def derived(known: Known) -> dict[tuple[str, int], Rollout]:
    """The rollouts that a cluster's objects tell of."""
    workloads = {(one.kind, one.namespace, one.name): one for one in known.workloads}
    pods: dict[tuple[str, str, str, str], list[Pod]] = defaultdict(list)
    for pod in known.pods:
        pods[pod.kind, pod.namespace, pod.workload, pod.revision].append(pod)
    siblings: dict[tuple[str, str, str], list[Revision]] = defaultdict(list)
    for revision in known.revisions:
        siblings[revision.kind, revision.namespace, revision.workload].append(revision)
    found: dict[tuple[str, int], Rollout] = {}
    for owner, revisions in siblings.items():
        workload, latest = workloads.get(owner), max(one.number for one in revisions)
        for one in revisions:
            current = _is_current(one, workload, latest)
            again = one.reused or _came_back(one, revisions)
            own = pods.get((*owner, one.hash), [])
            if again and not (current and own):
                continue
            started = min(pod.created for pod in own) if again else one.created
            ended = _ended(workload, own) if current and workload else None
            rollout = Rollout(
                one.uid,
                one.number,
                one.namespace,
                one.kind,
                one.workload,
                # What runs may be named by more than its template tells: by the digest of its image.
                own[0].service if own else one.service,
                own[0].version if own else one.version,
                started,
                ended if ended is not None and ended >= started else None,
            )
            found[rollout.key] = rollout
    return found


def added(one: Rollouts, other: Rollouts, most: int) -> dict[tuple[str, int], Rollout]:
    """What two know together, at most so many, those that began last."""
    both = dict(one)
    for key, rollout in other.items():
        known = both.get(key)
        both[key] = rollout if known is None else _together(known, rollout)
    if len(both) <= most:
        return both
    latest = sorted(both.values(), key=lambda each: (-each.started, each.key))[:most]
    return {rollout.key: rollout for rollout in latest}


def within(rollouts: Iterable[Rollout], selector: Selector, begin: float, end: float) -> list[Rollout]:
    """Those of a range of time (Unix seconds) whose service, version and namespace a selector accepts.

    The earliest first; of too many the last.
    """
    own = Selector(tuple(one for one in selector.matchers if one.name in _LABELS))
    matches = cache(fullmatch)
    found = [
        one
        for one in rollouts
        if one.started < end
        and (one.ended or one.started) >= begin
        and own.matches({"service": one.service, "version": one.version, "namespace": one.namespace}, matches)
    ]
    return sorted(found, key=lambda one: (one.started, one.key))[-MOST_WITHIN:]


def encode(rollouts: Rollouts) -> bytes:
    """As JSON, the same for equal rollouts."""
    rows = [rollouts[key] for key in sorted(rollouts)]
    return orjson.dumps({"format": FORMAT, "rollouts": rows}, option=orjson.OPT_SORT_KEYS)


def decode(content: bytes) -> dict[tuple[str, int], Rollout]:
    """As it was written; nothing where it cannot be read."""
    try:
        told: Any = orjson.loads(content)
        if told["format"] != FORMAT:
            return {}
        found = [Rollout(**row) for row in told["rollouts"]]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return {}
    return {rollout.key: rollout for rollout in found}


def _together(one: Rollout, other: Rollout) -> Rollout:
    ends = [end for end in (one.ended, other.ended) if end is not None]
    return replace(
        one,
        service=max(one.service, other.service),
        version=max(one.version, other.version),
        started=min(one.started, other.started),
        ended=min(ends, default=None),
    )


def _is_current(one: Revision, workload: Workload | None, latest: int) -> bool:
    if workload is None or not workload.revision:
        return one.number == latest
    return workload.revision in (one.name, str(one.number))


def _came_back(one: Revision, siblings: Sequence[Revision]) -> bool:
    """Whether an older number was made later: its own number is not that with which it was made."""
    return any(other.number < one.number and other.created > one.created for other in siblings)


def _ended(workload: Workload, pods: Iterable[Pod]) -> float | None:
    if not workload.done:
        return None
    if workload.complete is not None:
        return workload.complete
    moments = [pod.ready for pod in pods if not pod.over]
    known = [moment for moment in moments if moment is not None]
    return max(known) if known and len(known) == len(moments) else None
