"""Which versions of services are rollouts that Kubernetes shows.

Everybody who may send windows of a service can name any version. Where the collector sees the service's
workload, only versions of its rollouts, and of its running pods, are genuine.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from itertools import pairwise
from math import inf
from typing import Final

from sidelight_collector.deploys.deploy import DeployRollout
from sidelight_collector.deploys.version_registry import ServiceKey, VersionArrival
from sidelight_collector.kubernetes_discovery.rollouts import Rollout, RunningVersion

_DAY_SECONDS: Final = 86_400.0
_SLACK_SECONDS: Final = 60.0
"""How far the first window of a version may precede its rollout, by different clocks."""


class RolloutMatcher:
    """The rollouts that were observed, and the versions that pods run now."""

    def __init__(self, rollouts: Iterable[Rollout], running: Iterable[RunningVersion]) -> None:
        self._rollouts: dict[ServiceKey, list[Rollout]] = defaultdict(list)
        by_workload: dict[tuple[str, str, str], list[Rollout]] = defaultdict(list)
        for rollout in rollouts:
            self._rollouts[rollout.namespace, rollout.service].append(rollout)
            by_workload[rollout.namespace, rollout.kind, rollout.workload].append(rollout)
        self._replaced_at: dict[tuple[str, int], float] = {}
        for siblings in by_workload.values():
            ordered = sorted(siblings, key=lambda rollout: rollout.started)
            self._replaced_at |= {first.key: second.started for first, second in pairwise(ordered)}
        self._running: dict[ServiceKey, set[str]] = defaultdict(set)
        for pod in running:
            if (pod.namespace, pod.kind, pod.workload) in by_workload:
                self._running[pod.namespace, pod.service].add(pod.version)

    def is_covered(self, service: ServiceKey, versions: Collection[str]) -> bool:
        """Return whether Kubernetes tells which versions of a service are genuine.

        It does if a pod of the service runs in a workload whose rollouts are known, and if windows and
        Kubernetes name versions alike: one of `versions`, those known from windows, is among its versions.
        """
        running = self._running.get(service)
        if not running:
            return False
        names = running | {rollout.version for rollout in self._rollouts.get(service, ())}
        return not names.isdisjoint(versions)

    def is_rollout(
        self, service: ServiceKey, version: str, first_seen: float, previous_last_seen: float
    ) -> bool:
        """Return whether a version was rolled out when its windows began (Unix seconds).

        It runs in a pod now, or its workload rolled it out and did not replace it a day before. If it came
        back and was replaced since, it was rolled out after it was last seen.
        """
        if version in self._running.get(service, ()):
            return True
        for rollout in self._rollouts.get(service, ()):
            replaced_at = self._replaced_at.get(rollout.key, inf)
            if (
                rollout.version == version
                and rollout.started <= first_seen + _SLACK_SECONDS
                and replaced_at >= first_seen - _DAY_SECONDS
                and (replaced_at == inf or rollout.started >= previous_last_seen)
            ):
                return True
        return False

    def find_rollout(self, arrival: VersionArrival) -> DeployRollout | None:
        """Return the rollout of an arrival: the last that began before its first window."""
        matching = [
            rollout
            for rollout in self._rollouts.get((arrival.namespace, arrival.service), ())
            if rollout.version == arrival.version
            and max(arrival.first_seen - _DAY_SECONDS, arrival.previous_last_seen)
            <= rollout.started
            <= arrival.first_seen + _SLACK_SECONDS
        ]
        if not matching:
            return None
        last = max(matching, key=lambda rollout: rollout.started)
        return DeployRollout(
            last.kind, last.workload, last.revision, min(last.started, arrival.first_seen), last.ended
        )
