"""When each revision of a workload began to roll out and when it was complete.

A cluster has the creation time of a revision and the completion time of its last rollout. Of a revision
that came back after a rollback it has neither. The collector therefore stores every rollout that it
observes, and merges what two processes observed: the earliest start and the earliest end count, in any
order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Final

import orjson

from sidelight_collector.kubernetes_discovery.cluster_cache import ClusterInventory
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod, Revision, Workload
from sidelight_collector.query.select.matchers import is_full_match
from sidelight_collector.storage.documents import parse_document
from sidelight_collector.storage.objects import ObjectDamaged
from sidelight_model.selectors import Selector

FORMAT: Final = 1
MAX_ROLLOUTS: Final = 500
_LABELS: Final = ("service", "version", "namespace")


@dataclass(frozen=True, slots=True)
class Rollout:
    """The rollout of a revision: when it began and was complete (Unix seconds).

    `ended` is None while it is unknown. `uid` is that of the ReplicaSet or ControllerRevision, `revision`
    its number at that time.
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


@dataclass(frozen=True, slots=True)
class RunningVersion:
    """A version that a pod of a workload runs."""

    namespace: str
    service: str
    version: str
    kind: str
    workload: str


RolloutsByKey = Mapping[tuple[str, int], Rollout]


def derive_rollouts(inventory: ClusterInventory) -> dict[tuple[str, int], Rollout]:
    """Derive the rollouts from a cluster's objects."""
    workloads = {
        (workload.kind, workload.namespace, workload.name): workload for workload in inventory.workloads
    }
    pods: dict[tuple[str, str, str, str], list[Pod]] = defaultdict(list)
    for pod in inventory.pods:
        pods[pod.kind, pod.namespace, pod.workload, pod.revision].append(pod)
    siblings: dict[tuple[str, str, str], list[Revision]] = defaultdict(list)
    for revision in inventory.revisions:
        siblings[revision.kind, revision.namespace, revision.workload].append(revision)
    rollouts: dict[tuple[str, int], Rollout] = {}
    for owner, revisions in siblings.items():
        workload, latest = workloads.get(owner), max(revision.number for revision in revisions)
        for revision in revisions:
            current = _is_current(revision, workload, latest)
            is_reused = revision.is_reused or _is_rolled_back(revision, revisions)
            matching_pods = pods.get((*owner, revision.hash), [])
            if is_reused and not (current and matching_pods):
                continue
            started = min(pod.created for pod in matching_pods) if is_reused else revision.created_at
            ended = _find_completion(workload, matching_pods) if current and workload else None
            rollout = Rollout(
                revision.uid,
                revision.number,
                revision.namespace,
                revision.kind,
                revision.workload,
                # Running pods may have a more precise version than their template: the image's digest.
                matching_pods[0].service if matching_pods else revision.service,
                matching_pods[0].version if matching_pods else revision.version,
                started,
                ended if ended is not None and ended >= started else None,
            )
            rollouts[rollout.key] = rollout
    return rollouts


def merge_rollouts(
    first: RolloutsByKey, second: RolloutsByKey, max_rollouts: int
) -> dict[tuple[str, int], Rollout]:
    """Merge two sets of rollouts, keeping the `max_rollouts` that began last."""
    merged = dict(first)
    for key, rollout in second.items():
        existing = merged.get(key)
        merged[key] = rollout if existing is None else _merge_pair(existing, rollout)
    if len(merged) <= max_rollouts:
        return merged
    latest = sorted(merged.values(), key=lambda rollout: (-rollout.started, rollout.key))[:max_rollouts]
    return {rollout.key: rollout for rollout in latest}


def select_rollouts(
    rollouts: Iterable[Rollout], selector: Selector, begin: float, end: float
) -> list[Rollout]:
    """Select the rollouts in a time range (Unix seconds), the earliest first.

    The selector's matchers of service, version and namespace apply. At most the last `MAX_ROLLOUTS` are
    returned.
    """
    label_selector = Selector(tuple(matcher for matcher in selector.matchers if matcher.name in _LABELS))
    match_pattern = cache(is_full_match)
    selected = [
        rollout
        for rollout in rollouts
        if rollout.started < end
        and (rollout.ended or rollout.started) >= begin
        and label_selector.matches(
            {"service": rollout.service, "version": rollout.version, "namespace": rollout.namespace},
            match_pattern,
        )
    ]
    return sorted(selected, key=lambda rollout: (rollout.started, rollout.key))[-MAX_ROLLOUTS:]


def encode_rollouts(rollouts: RolloutsByKey) -> bytes:
    """Encode rollouts as JSON, with equal bytes for equal rollouts."""
    rows = [rollouts[key] for key in sorted(rollouts)]
    return orjson.dumps({"format": FORMAT, "rollouts": rows}, option=orjson.OPT_SORT_KEYS)


def decode_rollouts(key: str, content: bytes) -> dict[tuple[str, int], Rollout]:
    """Decode stored rollouts. Raises ObjectDamaged."""
    document = parse_document(key, content, FORMAT)
    try:
        rollouts = [Rollout(**row) for row in document["rollouts"]]
    except (KeyError, TypeError) as error:
        raise ObjectDamaged(key, f"{type(error).__name__}: {error}") from error
    return {rollout.key: rollout for rollout in rollouts}


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
    """Return whether a revision came back after a rollback.

    An older number was then created later, because a rollback gives the revision a new number.
    """
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
