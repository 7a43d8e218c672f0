"""How the pods of each workload stand: profiled, without a sidecar, or with one that says nothing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sidelight_collector.kubernetes_discovery.cluster_cache import Known
from sidelight_collector.kubernetes_discovery.k8s_objects import Pod, Sidecar
from sidelight_kubernetes.label_names import INJECT, SIDECAR

_COMING: Final = ("", "ContainerCreating", "PodInitializing")
Heard = Mapping[tuple[str, str], float]
"""When a pod's sidecar was last heard of (Unix seconds), by namespace and pod."""


class Standing(StrEnum):
    """How a pod stands."""

    PROFILED = "profiled"
    STARTING = "starting"
    NO_SIDECAR = "no_sidecar"
    DEAD = "dead"
    SILENT = "stale"
    OVER = "finished"


LACKING: Final = (Standing.NO_SIDECAR, Standing.DEAD, Standing.SILENT)
"""Those that somebody has to look at."""
ORDER: Final = (*LACKING, Standing.STARTING, Standing.PROFILED, Standing.OVER)


@dataclass(frozen=True, slots=True)
class Stands:
    """A pod, how it stands, and, where something is to be done, why and what."""

    pod: Pod
    standing: Standing
    problem: str = ""
    hint: str = ""
    heard: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """The pods of a workload that run one service. `expected`: somebody wants them to be profiled."""

    namespace: str
    kind: str
    workload: str
    service: str
    expected: bool
    pods: tuple[Stands, ...]

    def count(self, standing: Standing) -> int:
        return sum(one.standing is standing for one in self.pods)

    @property
    def lacking(self) -> bool:
        """Whether pods that should be profiled are not."""
        return self.expected and any(one.standing in LACKING for one in self.pods)


def stands(pod: Pod, heard: Heard, now: float, silent_seconds: float) -> Stands:
    """How one pod stands."""
    sidecar = pod.sidecar
    last = max(
        (heard[key] for key in ((pod.namespace, pod.name), ("", pod.name)) if key in heard), default=None
    )
    if pod.over:
        return Stands(pod, Standing.OVER, heard=last)
    if sidecar is None or (sidecar.origin == "ephemeral" and sidecar.state == "terminated"):
        if last is not None and now - last <= silent_seconds:
            return Stands(pod, Standing.PROFILED, heard=last)
        if pod.phase != "Running":
            return Stands(pod, Standing.STARTING, heard=last)
        return Stands(pod, Standing.NO_SIDECAR, *_without(pod), heard=last)
    if sidecar.state == "running":
        if last is not None and now - last <= silent_seconds:
            return Stands(pod, Standing.PROFILED, heard=last)
        if now - (sidecar.since or pod.created) <= silent_seconds:
            return Stands(pod, Standing.STARTING, heard=last)
        return Stands(pod, Standing.SILENT, *_silent(pod, now, last), heard=last)
    if sidecar.state == "waiting" and sidecar.reason in _COMING and not sidecar.restarts:
        return Stands(pod, Standing.STARTING, heard=last)
    return Stands(pod, Standing.DEAD, *_dead(pod, sidecar), heard=last)


def groups(
    known: Known,
    heard: Heard,
    now: float,
    silent_seconds: float,
    services: frozenset[str] = frozenset(),
    wanted: Callable[[Pod], bool] = lambda _: True,
) -> list[Group]:
    """Workloads with how their pods stand, those of which pods lack a sidecar first.

    `services` are those that profiles are kept of: pods that run one of them are expected to be profiled.
    """
    wished = {one.name: one.inject_label for one in known.namespaces}
    members: dict[tuple[str, str, str, str], list[Pod]] = defaultdict(list)
    for pod in known.pods:
        if wanted(pod):
            members[pod.namespace, pod.kind, pod.workload, pod.service].append(pod)
    found = []
    for (namespace, kind, workload, service), pods in members.items():
        standing = [stands(pod, heard, now, silent_seconds) for pod in pods]
        expected = service in services or any(_expected(pod, wished) for pod in pods)
        standing.sort(key=lambda one: (ORDER.index(one.standing), one.pod.name))
        found.append(Group(namespace, kind, workload, service, expected, tuple(standing)))
    return sorted(
        found, key=lambda one: (not one.lacking, not one.expected, one.namespace, one.workload, one.kind)
    )


def counted(found: Iterable[Group]) -> dict[str, Counter[Standing]]:
    """How many pods of those that should be profiled stand how, by namespace."""
    counts: dict[str, Counter[Standing]] = defaultdict(Counter)
    for group in found:
        if group.expected:
            counts[group.namespace].update(one.standing for one in group.pods)
    return dict(counts)


def _expected(pod: Pod, wished: Mapping[str, str]) -> bool:
    if pod.inject_label == "false":
        return False
    return bool(
        pod.sidecar is not None
        or pod.skip_reason
        or pod.inject_label == "true"
        or wished.get(pod.namespace, "") == "true"
    )


def _without(pod: Pod) -> tuple[str, str]:
    if pod.skip_reason:
        return f"{pod.name} has no sidecar: {pod.skip_reason}", _again(pod)
    return (
        f"{pod.name} has no sidecar",
        f"Label its namespace or its pod template {INJECT}=true, then: {_again(pod)}"
        if pod.inject_label != "true"
        else f"It was made while the injector was away, or by none: {_again(pod)}",
    )


def _again(pod: Pod) -> str:
    if pod.kind in ("Deployment", "StatefulSet", "DaemonSet"):
        return f"kubectl -n {pod.namespace} rollout restart {pod.kind.lower()}/{pod.workload}"
    return f"make it anew: kubectl -n {pod.namespace} delete pod {pod.name}"


def _dead(pod: Pod, sidecar: Sidecar) -> tuple[str, str]:
    often = f", restarted {sidecar.restarts} times" if sidecar.restarts else ""
    problem = f"the sidecar of {pod.name} does not run: {sidecar.reason or sidecar.state}{often}"
    if "Image" in sidecar.reason or sidecar.reason == "ErrImageNeverPull":
        return problem, f"kubectl -n {pod.namespace} describe pod {pod.name} says why it cannot be had."
    if sidecar.reason == "CreateContainerConfigError":
        return problem, f"kubectl -n {pod.namespace} describe pod {pod.name} says what its settings lack."
    previous = " --previous" if sidecar.restarts else ""
    return problem, f"kubectl -n {pod.namespace} logs {pod.name} -c {SIDECAR}{previous} says why."


def _silent(pod: Pod, now: float, last: float | None) -> tuple[str, str]:
    ago = "since it started" if last is None else f"for {now - last:.0f} s"
    return (
        f"the sidecar of {pod.name} runs, and nothing has been heard of it {ago}",
        f"kubectl -n {pod.namespace} logs {pod.name} -c {SIDECAR} says whether it reaches the collector, "
        "whether its token is taken, and whether it finds a process to sample.",
    )
