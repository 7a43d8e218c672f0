"""Chooses the processes of the node's pods that ask to be profiled."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import structlog

from sidelight.settings import BadSetting, change_settings
from sidelight_kubernetes import label_names
from sidelight_kubernetes.setting_annotations import SETTINGS, list_changes
from sidelight_model.capture_protocol import Attachment
from sidelight_model.errors import Reason
from sidelight_model.labels import Labels
from sidelight_model.regular_expressions.pattern import Pattern
from sidelight_model.regular_expressions.program import BadPattern
from sidelight_sidecar.agent.attached_pods import AttachedPods
from sidelight_sidecar.agent.node_pod import NodePod, PodDecision
from sidelight_sidecar.agent.pod_watcher import PodWatcher
from sidelight_sidecar.agent.settings import AgentSettings
from sidelight_sidecar.discovery.pod_cgroup import PodContainer
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
_MATCH: Final = SETTINGS[label_names.MATCH]
_BUDGET: Final = SETTINGS[label_names.BUDGET_CPU_PERCENT]
_CAPTURES_ONLY: Final[Mapping[str, str | None]] = {
    "on_demand": "true",
    **dict.fromkeys(
        (
            *("interval_seconds", "jitter_seconds", "preroll_seconds", "trigger_cpu_percent"),
            *("trigger_throttled_percent", "trigger_rss_growth", "trigger_ready", "trigger_sigterm"),
        )
    ),
}
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.agent")


@dataclass(frozen=True, slots=True)
class PodTarget:
    """A profiled pod: its processes, settings, and labels of windows.

    `container` is the name of the only container to sample; empty for all.
    """

    pod: NodePod
    process_filter: ProcessFilter
    labels: Labels
    settings: AgentSettings
    container: str

    @classmethod
    def build(cls, pod: NodePod, settings: AgentSettings, attachment: Attachment | None) -> PodTarget:
        """Build the target of a pod.

        Its annotations change `settings`, which are the agent's. Raises BadSetting and BadPattern for an
        annotation. Only the capture of an `attachment` samples.
        """
        changes = list_changes(pod.annotations)
        match = changes.pop(_MATCH, "")
        if _BUDGET in changes:
            # The budget of a pod, as a sidecar's is.
            changes["budget_pod_cpu_percent"] = changes.pop(_BUDGET)
        settings = change_settings(settings, changes)
        if attachment is not None:
            settings = change_settings(settings, _CAPTURES_ONLY)
        pattern = Pattern(match) if match else None
        process_filter = ProcessFilter(pattern=pattern, match_all=pattern is None, include_nested=True)
        own = {
            "service": pod.service,
            "version": pod.version,
            "namespace": pod.namespace,
            "pod": pod.name,
        }
        container = (attachment.container if attachment else "") or pod.sampled_container
        return cls(pod, process_filter, Labels({**settings.labels, **own}), settings, container)

    def includes(self, container_id: str) -> bool:
        """Return whether the processes of a container are profiled."""
        return not self.container or self.pod.containers.get(container_id) == self.container


class PodTargets:
    """The target source of a node agent."""

    def __init__(
        self, pods: PodWatcher, attached: AttachedPods, settings: AgentSettings, own_pid: int
    ) -> None:
        self._pods = pods
        self._attached = attached
        self._settings = settings
        self._own_pid = own_pid
        self._targets: dict[str, PodTarget] = {}
        self._targets_version = -1
        self._profiled: AbstractSet[str] = frozenset()
        self.decisions: Mapping[str, PodDecision] = {}
        """What is decided about each pod, by its UID."""

    @property
    def version(self) -> int:
        return self._pods.version + self._attached.version

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
        pod, target = self._get_target(proc)
        container = target.pod.containers.get(pod.container_id, "")
        return Labels({**target.labels, "container": container}) if container else target.labels

    def settings_for(self, proc: Proc) -> AgentSettings:
        return self._get_target(proc)[1].settings

    def _get_target(self, proc: Proc) -> tuple[PodContainer, PodTarget]:
        if proc.pod is None:
            raise ValueError(f"process {proc.pid} is in no pod")
        return proc.pod, self._targets[proc.pod.pod_uid]

    def is_profiled(self, pod: str) -> bool:
        """Return whether a pod (NAMESPACE/NAME) is profiled because it asks."""
        return pod in self._profiled

    def explain_empty(self, procs: Sequence[Proc]) -> HealthIssue | None:
        return None if self._pods.is_listed else _STARTING

    async def report(self, metrics: SidecarMetrics, health: HealthBoard) -> None:
        """Keep the metrics of pods and the problem of the API server current."""
        while True:
            self._attached.drop_expired()
            self._update_targets()
            counts = Counter(self.decisions.values())
            for decision in PodDecision:
                metrics.agent_pods.labels(decision.value).set(counts[decision])
            if (error := self._pods.error) is None:
                health.clear("cluster")
            else:
                health.report("cluster", HealthIssue.from_error(error))
            await asyncio.sleep(_CHECK_SECONDS)

    def _update_targets(self) -> None:
        version = self.version
        if self._targets_version == version:
            return
        self._targets_version = version
        targets: dict[str, PodTarget] = {}
        decisions: dict[str, PodDecision] = {}
        for pod, decision in self._pods.decide_pods(self._attached):
            problem = ""
            if decision in (PodDecision.PROFILED, PodDecision.ATTACHED):
                attachment = None
                if decision is PodDecision.ATTACHED:
                    attachment = self._attached.find(pod.namespace, pod.name)
                try:
                    targets[pod.uid] = PodTarget.build(pod, self._settings, attachment)
                except (BadSetting, BadPattern) as error:
                    decision, problem = PodDecision.BAD_ANNOTATION, str(error)
            if decision is not self.decisions.get(pod.uid, PodDecision.NOT_REQUESTED):
                _log_decision(pod, decision, problem)
            decisions[pod.uid] = decision
        self._targets, self.decisions = targets, decisions
        self._profiled = {
            f"{target.pod.namespace}/{target.pod.name}"
            for uid, target in targets.items()
            if decisions[uid] is PodDecision.PROFILED
        }


def _log_decision(pod: NodePod, decision: PodDecision, problem: str) -> None:
    name = f"{pod.namespace}/{pod.name}"
    if decision in (PodDecision.PROFILED, PodDecision.ATTACHED):
        _log.info("a pod is profiled", pod=name, service=pod.service, version=pod.version)
    elif problem:
        _log.warning("a pod is not profiled", pod=name, reason=decision.value, problem=problem)
    else:
        _log.info("a pod is not profiled", pod=name, reason=decision.value)
