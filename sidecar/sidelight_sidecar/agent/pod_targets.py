"""Chooses the processes of the node's pods that ask to be profiled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from sidelight_model.errors import Reason
from sidelight_model.labels import Labels
from sidelight_model.regular_expressions.pattern import Pattern
from sidelight_sidecar.agent.node_pod import NodePod, PodDecision
from sidelight_sidecar.agent.pod_watcher import PodWatcher
from sidelight_sidecar.discovery.processes import (
    Proc,
    ProcessFilter,
    ProcessKey,
    SelectedProcess,
    select_processes,
)
from sidelight_sidecar.health import HealthBoard, HealthIssue
from sidelight_sidecar.metrics import SidecarMetrics

_CHECK_SECONDS: Final = 1.0
_STARTING: Final = HealthIssue(
    Reason.NOTHING_TO_WATCH,
    "the pods of the node are not listed yet",
    "If this stays, check --kubernetes, and that the agent may list pods and namespaces.",
)
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.agent")


@dataclass(frozen=True, slots=True)
class PodTarget:
    """A profiled pod: which of its processes, and the labels of their windows."""

    pod: NodePod
    process_filter: ProcessFilter
    labels: Labels

    @classmethod
    def build(cls, pod: NodePod, labels: Mapping[str, str]) -> PodTarget:
        """Build the target of a pod; `labels` are those of the agent."""
        pattern = Pattern(pod.match) if pod.match else None
        process_filter = ProcessFilter(pattern=pattern, match_all=pattern is None, include_nested=True)
        own = {
            "service": pod.service,
            "version": pod.version,
            "namespace": pod.namespace,
            "pod": pod.name,
        }
        return cls(pod, process_filter, Labels({**labels, **own}))

    def includes(self, container_id: str) -> bool:
        """Return whether the processes of a container are profiled."""
        name = self.pod.sampled_container
        return not name or self.pod.containers.get(container_id) == name


class PodTargets:
    """The target source of a node agent; `labels` are those of all its windows."""

    def __init__(self, pods: PodWatcher, labels: Mapping[str, str], own_pid: int) -> None:
        self._pods = pods
        self._labels = labels
        self._own_pid = own_pid
        self._targets: dict[str, PodTarget] = {}
        self._targets_version = -1
        self._decisions: dict[str, PodDecision] = {}

    @property
    def version(self) -> int:
        return self._pods.version

    def select(
        self, procs: Sequence[Proc], previous_roles: Mapping[ProcessKey, str]
    ) -> dict[ProcessKey, SelectedProcess]:
        self._update_targets()
        by_pod: dict[str, list[Proc]] = {}
        for proc in procs:
            target = self._targets.get(proc.pod.pod_uid) if proc.pod is not None else None
            if proc.pod is not None and target is not None and target.includes(proc.pod.container_id):
                by_pod.setdefault(proc.pod.pod_uid, []).append(proc)
        selected: dict[ProcessKey, SelectedProcess] = {}
        for uid, members in by_pod.items():
            selected |= select_processes(
                members,
                self._targets[uid].process_filter,
                own_pid=self._own_pid,
                previous_roles=previous_roles,
            )
        return selected

    def labels_for(self, proc: Proc) -> Labels:
        if proc.pod is None:
            raise ValueError(f"process {proc.pid} is in no pod")
        target = self._targets[proc.pod.pod_uid]
        container = target.pod.containers.get(proc.pod.container_id, "")
        return Labels({**target.labels, "container": container}) if container else target.labels

    def explain_empty(self, procs: Sequence[Proc]) -> HealthIssue | None:
        return None if self._pods.is_listed else _STARTING

    async def report(self, metrics: SidecarMetrics, health: HealthBoard) -> None:
        """Keep the metrics of pods and the problem of the API server current."""
        while True:
            counts = Counter(decision for _, decision in self._pods.decide_pods())
            for decision in PodDecision:
                metrics.agent_pods.labels(decision.value).set(counts[decision])
            if (error := self._pods.error) is None:
                health.clear("cluster")
            else:
                health.report("cluster", HealthIssue.from_error(error))
            await asyncio.sleep(_CHECK_SECONDS)

    def _update_targets(self) -> None:
        if self._targets_version == self._pods.version:
            return
        self._targets_version = self._pods.version
        decided = self._pods.decide_pods()
        self._targets = {
            pod.uid: PodTarget.build(pod, self._labels)
            for pod, decision in decided
            if decision is PodDecision.PROFILED
        }
        decisions = {pod.uid: decision for pod, decision in decided}
        for pod, decision in decided:
            if decision is not self._decisions.get(pod.uid, PodDecision.NOT_REQUESTED):
                _log_decision(pod, decision)
        self._decisions = decisions


def _log_decision(pod: NodePod, decision: PodDecision) -> None:
    name = f"{pod.namespace}/{pod.name}"
    if decision is PodDecision.PROFILED:
        _log.info("a pod is profiled", pod=name, service=pod.service, version=pod.version)
        if pod.unused_annotations:
            _log.warning(
                "a pod has annotations that only a sidecar follows",
                pod=name,
                annotations=pod.unused_annotations,
            )
    else:
        _log.info("a pod is not profiled", pod=name, reason=decision.value)
