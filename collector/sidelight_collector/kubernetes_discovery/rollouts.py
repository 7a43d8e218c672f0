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

from sidelight_collector.kubernetes_discovery.cluster_cache import ClusterInventory
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod, Revision, Workload
from sidelight_collector.query.select.matchers import is_full_match
from sidelight_model.selectors import Selector

FORMAT: Final = 1
MAX_ROLLOUTS: Final = 500
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


RolloutsByKey = Mapping[tuple[str, int], Rollout]


def derive_rollouts(inventory: ClusterInventory) -> dict[tuple[str, int], Rollout]:
    """The rollouts that a cluster's objects tell of."""
    workloads = {(one.kind, one.namespace, one.name): one for one in inventory.workloads}
    pods: dict[tuple[str, str, str, str], list[Pod]] = defaultdict(list)
    for pod in inventory.pods:
        pods[pod.kind, pod.namespace, pod.workload, pod.revision].append(pod)
    siblings: dict[tuple[str, str, str], list[Revision]] = defaultdict(list)
    for revision in inventory.revisions:
        siblings[revision.kind, revision.namespace, revision.workload].append(revision)
    rollouts: dict[tuple[str, int], Rollout] = {}
    for owner, revisions in siblings.items():
        workload, latest = workloads.get(owner), max(one.number for one in revisions)
        for one in revisions:
            current = _is_current(one, workload, latest)
            is_reused = one.is_reused or _is_rolled_back(one, revisions)
            matching_pods = pods.get((*owner, one.hash), [])
            if is_reused and not (current and matching_pods):
                continue
            started = min(pod.created for pod in matching_pods) if is_reused else one.created_at
            ended = _find_completion(workload, matching_pods) if current and workload else None
            rollout = Rollout(
                one.uid,
                one.number,
                one.namespace,
                one.kind,
                one.workload,
                # What runs may be named by more than its template tells: by the digest of its image.
                matching_pods[0].service if matching_pods else one.service,
                matching_pods[0].version if matching_pods else one.version,
                started,
                ended if ended is not None and ended >= started else None,
            )
            rollouts[rollout.key] = rollout
    return rollouts


def merge_rollouts(
    first: RolloutsByKey, second: RolloutsByKey, max_rollouts: int
) -> dict[tuple[str, int], Rollout]:
    """What two know together, at most so many, those that began last."""
    merged = dict(first)
    for key, rollout in second.items():
        known = merged.get(key)
        merged[key] = rollout if known is None else _merge_pair(known, rollout)
    if len(merged) <= max_rollouts:
        return merged
    latest = sorted(merged.values(), key=lambda each: (-each.started, each.key))[:max_rollouts]
    return {rollout.key: rollout for rollout in latest}


def select_rollouts(
    rollouts: Iterable[Rollout], selector: Selector, begin: float, end: float
) -> list[Rollout]:
    """Those of a range of time (Unix seconds) whose service, version and namespace a selector accepts.

    The earliest first; of too many the last.
    """
    label_selector = Selector(tuple(one for one in selector.matchers if one.name in _LABELS))
    match_pattern = cache(is_full_match)
    found = [
        one
        for one in rollouts
        if one.started < end
        and (one.ended or one.started) >= begin
        and label_selector.matches(
            {"service": one.service, "version": one.version, "namespace": one.namespace}, match_pattern
        )
    ]
    return sorted(found, key=lambda one: (one.started, one.key))[-MAX_ROLLOUTS:]


def encode_rollouts(rollouts: RolloutsByKey) -> bytes:
    """As JSON, the same for equal rollouts."""
    rows = [rollouts[key] for key in sorted(rollouts)]
    return orjson.dumps({"format": FORMAT, "rollouts": rows}, option=orjson.OPT_SORT_KEYS)


def decode_rollouts(content: bytes) -> dict[tuple[str, int], Rollout]:
    """As it was written; nothing where it cannot be read."""
    try:
        told: Any = orjson.loads(content)
        if told["format"] != FORMAT:
            return {}
        found = [Rollout(**row) for row in told["rollouts"]]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return {}
    return {rollout.key: rollout for rollout in found}


def _merge_pair(first: Rollout, second: Rollout) -> Rollout:
    ends = [end for end in (first.ended, second.ended) if end is not None]
    return replace(
        first,
        service=max(first.service, second.service),
        version=max(first.version, second.version),
        started=min(first.started, second.started),
        ended=min(ends, default=None),
    )


def _is_current(revision: Revision, workload: Workload | None, latest: int) -> bool:
    if workload is None or not workload.revision:
        return revision.number == latest
    return workload.revision in (revision.name, str(revision.number))


def _is_rolled_back(revision: Revision, siblings: Sequence[Revision]) -> bool:
    """Whether an older number was made later: its own number is not that with which it was made."""
    return any(
        other.number < revision.number and other.created_at > revision.created_at for other in siblings
    )


def _find_completion(workload: Workload, pods: Iterable[Pod]) -> float | None:
    if not workload.is_complete:
        return None
    if workload.completed_at is not None:
        return workload.completed_at
    ready_at = [pod.ready for pod in pods if not pod.has_ended]
    ready_times = [moment for moment in ready_at if moment is not None]
    return max(ready_times) if ready_times and len(ready_times) == len(ready_at) else None
