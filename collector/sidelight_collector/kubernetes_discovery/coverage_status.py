"""Coverage of pods: profiled (and by what), or why not.

Grouped by workload.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sidelight_collector.kubernetes_discovery.cluster_cache import ClusterInventory
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod, SidecarContainer
from sidelight_kubernetes.label_names import INJECT, SIDECAR

_STARTING_REASONS: Final = ("", "ContainerCreating", "PodInitializing")
LastSeenByPod = Mapping[tuple[str, str], float]
"""When a pod's sidecar was last seen (Unix seconds), by namespace and pod."""


class CoverageState(StrEnum):
    """Whether a pod is profiled, or why not."""

    PROFILED = "profiled"
    STARTING = "starting"
    NO_SIDECAR = "no_sidecar"
    DEAD = "dead"
    STALE = "stale"
    ENDED = "finished"


class Coverer(StrEnum):
    """A sidecar, the node's agent, or a program that sends profiles itself."""

    SIDECAR = "sidecar"
    AGENT = "agent"
    OTHER = "other"


UNPROFILED_STATES: Final = (CoverageState.NO_SIDECAR, CoverageState.DEAD, CoverageState.STALE)
"""States that need a user's attention."""
SORT_ORDER: Final = (*UNPROFILED_STATES, CoverageState.STARTING, CoverageState.PROFILED, CoverageState.ENDED)


@dataclass(frozen=True, slots=True)
class PodCoverage:
    """A pod and its state, with a problem and a hint if a user has to act.

    `covered_by` is what profiles the pod, or should; None if nothing does.
    """

    pod: Pod
    state: CoverageState
    problem: str = ""
    hint: str = ""
    last_seen: float | None = None
    covered_by: Coverer | None = None


@dataclass(frozen=True, slots=True)
class WorkloadCoverage:
    """The pods of a workload that run one service.

    `is_expected` says whether they should be profiled.
    """

    namespace: str
    kind: str
    workload: str
    service: str
    is_expected: bool
    pods: tuple[PodCoverage, ...]

    def count_coverers(self) -> dict[str, int]:
        """Count the profiled pods by what profiles them."""
        profiled = (pod for pod in self.pods if pod.state is CoverageState.PROFILED)
        counts = Counter(pod.covered_by for pod in profiled)
        return {str(coverer): counts[coverer] for coverer in Coverer}

    def count_pods(self, state: CoverageState) -> int:
        return sum(pod.state is state for pod in self.pods)

    @property
    def is_unprofiled(self) -> bool:
        """Return whether any pod that should be profiled is not."""
        return self.is_expected and any(pod.state in UNPROFILED_STATES for pod in self.pods)


def assess_pod(
    pod: Pod, last_seen: LastSeenByPod, now: float, stale_seconds: float, agent: Pod | None = None
) -> PodCoverage:
    """Determine the state of a pod.

    `last_seen` and `now` are in Unix seconds. A sidecar is stale after `stale_seconds` without a report.
    `agent` is the pod of the node agent that should profile this pod if it has no sidecar.
    """
    sidecar = pod.sidecar
    seen_at = max(
        (last_seen[key] for key in ((pod.namespace, pod.name), ("", pod.name)) if key in last_seen),
        default=None,
    )
    if pod.has_ended:
        return PodCoverage(pod, CoverageState.ENDED, last_seen=seen_at)
    is_recent = seen_at is not None and now - seen_at <= stale_seconds

    def cover(
        state: CoverageState, coverer: Coverer | None, problem: str = "", hint: str = ""
    ) -> PodCoverage:
        return PodCoverage(pod, state, problem, hint, seen_at, coverer)

    if sidecar is None or (sidecar.origin == "ephemeral" and sidecar.state == "terminated"):
        coverer = Coverer.AGENT if agent else None
        if is_recent:
            return cover(CoverageState.PROFILED, coverer or Coverer.OTHER)
        if pod.phase != "Running" or (agent and now - (pod.ready or pod.created) <= stale_seconds):
            return cover(CoverageState.STARTING, coverer)
        if agent:
            return cover(CoverageState.STALE, coverer, *_explain_stale_agent(pod, agent))
        return cover(CoverageState.NO_SIDECAR, None, *_explain_missing_sidecar(pod))
    if sidecar.state == "running":
        if is_recent:
            return cover(CoverageState.PROFILED, Coverer.SIDECAR)
        if now - (sidecar.since or pod.created) <= stale_seconds:
            return cover(CoverageState.STARTING, Coverer.SIDECAR)
        return cover(CoverageState.STALE, Coverer.SIDECAR, *_explain_stale_sidecar(pod, now, seen_at))
    if sidecar.state == "waiting" and sidecar.reason in _STARTING_REASONS and not sidecar.restarts:
        return cover(CoverageState.STARTING, Coverer.SIDECAR)
    return cover(CoverageState.DEAD, Coverer.SIDECAR, *_explain_dead_sidecar(pod, sidecar))


def group_by_workload(
    inventory: ClusterInventory,
    last_seen: LastSeenByPod,
    now: float,
    stale_seconds: float,
    services: frozenset[str] = frozenset(),
    predicate: Callable[[Pod], bool] = lambda _: True,
    by_agent: AbstractSet[tuple[str, str]] = frozenset(),
) -> list[WorkloadCoverage]:
    """Group pods by workload and service, unprofiled workloads first.

    `services` are those with stored profiles: pods that run one of them are expected to be profiled. Only
    pods that satisfy `predicate` count. `by_agent` are the namespaces and names of pods that a node agent
    samples now, also for one capture.
    """
    injection_by_namespace = {namespace.name: namespace.inject_label for namespace in inventory.namespaces}
    agents = find_node_agents(inventory)

    def find_agent(pod: Pod) -> Pod | None:
        requested = pod.inject_label or injection_by_namespace.get(pod.namespace, "")
        is_sampled = requested == "true" or (pod.namespace, pod.name) in by_agent
        return agents.get(pod.node) if is_sampled else None

    members: dict[tuple[str, str, str, str], list[Pod]] = defaultdict(list)
    for pod in inventory.pods:
        if predicate(pod):
            members[pod.namespace, pod.kind, pod.workload, pod.service].append(pod)
    workloads = []
    for (namespace, kind, workload, service), pods in members.items():
        coverages = [assess_pod(pod, last_seen, now, stale_seconds, find_agent(pod)) for pod in pods]
        expected = service in services or any(_is_expected(pod, injection_by_namespace) for pod in pods)
        coverages.sort(key=lambda coverage: (SORT_ORDER.index(coverage.state), coverage.pod.name))
        workloads.append(WorkloadCoverage(namespace, kind, workload, service, expected, tuple(coverages)))
    return sorted(
        workloads,
        key=lambda group: (
            not group.is_unprofiled,
            not group.is_expected,
            group.namespace,
            group.workload,
            group.kind,
        ),
    )


def find_node_agents(inventory: ClusterInventory) -> dict[str, Pod]:
    """Return the running node agents by their node."""
    return {pod.node: pod for pod in inventory.pods if pod.is_node_agent and pod.phase == "Running"}


def count_by_namespace(workloads: Iterable[WorkloadCoverage]) -> dict[str, Counter[CoverageState]]:
    """Count the pods that should be profiled by namespace and state."""
    counts: dict[str, Counter[CoverageState]] = defaultdict(Counter)
    for group in workloads:
        if group.is_expected:
            counts[group.namespace].update(pod.state for pod in group.pods)
    return dict(counts)


def _is_expected(pod: Pod, injection_by_namespace: Mapping[str, str]) -> bool:
    if pod.inject_label == "false":
        return False
    return bool(
        pod.sidecar is not None
        or pod.skip_reason
        or pod.inject_label == "true"
        or injection_by_namespace.get(pod.namespace, "") == "true"
    )


def _explain_missing_sidecar(pod: Pod) -> tuple[str, str]:
    if pod.skip_reason:
        return f"{pod.name} has no sidecar: {pod.skip_reason}", _suggest_restart(pod)
    return (
        f"{pod.name} has no sidecar",
        f"Label its namespace or its pod template {INJECT}=true, then: {_suggest_restart(pod)}"
        if pod.inject_label != "true"
        else f"It was made while the injector was away, or by none: {_suggest_restart(pod)}",
    )


def _suggest_restart(pod: Pod) -> str:
    if pod.kind in ("Deployment", "StatefulSet", "DaemonSet"):
        return f"kubectl -n {pod.namespace} rollout restart {pod.kind.lower()}/{pod.workload}"
    return f"create it again: kubectl -n {pod.namespace} delete pod {pod.name}"


def _explain_dead_sidecar(pod: Pod, sidecar: SidecarContainer) -> tuple[str, str]:
    restart_note = f", restarted {sidecar.restarts} times" if sidecar.restarts else ""
    problem = f"the sidecar of {pod.name} does not run: {sidecar.reason or sidecar.state}{restart_note}"
    if "Image" in sidecar.reason or sidecar.reason == "ErrImageNeverPull":
        return problem, f"kubectl -n {pod.namespace} describe pod {pod.name} says why it cannot be had."
    if sidecar.reason == "CreateContainerConfigError":
        return problem, f"kubectl -n {pod.namespace} describe pod {pod.name} says what its settings lack."
    previous = " --previous" if sidecar.restarts else ""
    return problem, f"kubectl -n {pod.namespace} logs {pod.name} -c {SIDECAR}{previous} says why."


def _explain_stale_sidecar(pod: Pod, now: float, seen_at: float | None) -> tuple[str, str]:
    ago = "since it started" if seen_at is None else f"for {now - seen_at:.0f} s"
    return (
        f"the sidecar of {pod.name} runs and has not reported {ago}",
        f"kubectl -n {pod.namespace} logs {pod.name} -c {SIDECAR} says whether it reaches the collector, "
        "whether its token is taken, and whether it finds a process to sample.",
    )


def _explain_stale_agent(pod: Pod, agent: Pod) -> tuple[str, str]:
    return (
        f"the node agent {agent.name} has not reported {pod.name}",
        f"kubectl -n {agent.namespace} logs {agent.name} says whether it reaches the collector, and "
        "whether it finds a Python process in the pod.",
    )
