"""The used fields of a pod, and whether the agent profiles it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from sidelight_kubernetes import label_names, naming
from sidelight_kubernetes.profiling_request import (
    MIRROR_POD_ANNOTATION,
    get_metadata,
    has_sidecar,
    is_requested,
)
from sidelight_kubernetes.setting_annotations import SETTINGS

_CONTAINER_STATUSES: Final = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")


class PodDecision(StrEnum):
    """Whether the agent profiles a pod, or why not; also a metric label."""

    PROFILED = "profiled"
    ATTACHED = "attached"
    NOT_REQUESTED = "not_requested"
    SIDECAR = "sidecar"
    BAD_LABEL = "bad_label"
    BAD_ANNOTATION = "bad_annotation"


@dataclass(frozen=True, slots=True)
class NodePod:
    """A pod of the node.

    `inject_label` is its label for the injector, None without one. `sampled_container` restricts the
    processes, and `annotations` change settings. `containers` has the names of containers by the runtime's
    ids.
    """

    uid: str
    namespace: str
    name: str
    service: str
    version: str
    inject_label: str | None
    is_static: bool
    has_sidecar: bool
    sampled_container: str = ""
    annotations: Mapping[str, str] = field(default_factory=dict)
    containers: Mapping[str, str] = field(default_factory=dict)


def parse_pod(pod: naming.Pod) -> NodePod:
    """Parse a pod as the API returns it."""
    metadata, annotations = pod.get("metadata") or {}, get_metadata(pod, "annotations")
    return NodePod(
        str(metadata.get("uid", "")),
        str(metadata.get("namespace", "")),
        str(metadata.get("name", "")),
        naming.service_of(pod),
        naming.version_of(pod),
        get_metadata(pod, "labels").get(label_names.INJECT),
        MIRROR_POD_ANNOTATION in annotations,
        has_sidecar(pod),
        annotations.get(label_names.CONTAINER, ""),
        {name: value for name, value in annotations.items() if name in SETTINGS},
        dict(_iter_containers(pod)),
    )


def decide(pod: NodePod, namespace_label: str | None, *, is_attached: bool = False) -> PodDecision:
    """Decide whether a pod is profiled.

    `namespace_label` is the value of its namespace's `INJECT` label. A capture may want a pod that does not
    ask (`is_attached`), but not one that opts out.
    """
    asks = is_requested(pod.inject_label, namespace_label)
    if pod.is_static or pod.inject_label == "false" or not (asks or is_attached):
        return PodDecision.NOT_REQUESTED
    if pod.has_sidecar:
        return PodDecision.SIDECAR
    if pod.inject_label not in (None, "true"):
        return PodDecision.BAD_LABEL
    return PodDecision.PROFILED if asks else PodDecision.ATTACHED


def _iter_containers(pod: naming.Pod) -> Iterator[tuple[str, str]]:
    """Yield the runtime's id and the name of each container that has run."""
    status: Mapping[str, Any] = pod.get("status") or {}
    for kind in _CONTAINER_STATUSES:
        for item in status.get(kind) or ():
            # An id begins with its runtime: containerd://0123…
            if container_id := str(item.get("containerID") or "").rpartition("/")[2]:
                yield container_id, str(item.get("name", ""))
