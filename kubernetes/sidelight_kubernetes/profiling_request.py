"""Whether a pod asks to be profiled, and whether it has a sidecar."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from sidelight_kubernetes import label_names
from sidelight_kubernetes.naming import Pod

MIRROR_POD_ANNOTATION: Final = "kubernetes.io/config.mirror"
"""Annotation of a static pod's copy: the kubelet runs that pod from a file of the node."""


def is_requested(pod_label: str | None, namespace_label: str | None) -> bool:
    """Return whether a pod asks to be profiled.

    The values are those of its own `INJECT` label and of its namespace's, None without the label. An unknown
    value of the pod's own label counts as a request, so that the mistake is reported.
    """
    return pod_label != "false" if pod_label is not None else namespace_label == "true"


def has_sidecar(pod: Pod) -> bool:
    """Return whether a container of the pod is a sidecar.

    An ephemeral container counts until it has ended.
    """
    if any(container.get("name") == label_names.SIDECAR for container in _containers(pod)):
        return True
    ephemeral = (pod.get("spec") or {}).get("ephemeralContainers") or ()
    statuses = (pod.get("status") or {}).get("ephemeralContainerStatuses") or ()
    ended = {item.get("name") for item in statuses if "terminated" in (item.get("state") or {})}
    names = {container.get("name") for container in ephemeral} - ended
    return any(label_names.is_sidecar(name) for name in names if name)


def get_metadata(pod: Pod, kind: str) -> Mapping[str, str]:
    """Return the pod's `labels` or `annotations`."""
    metadata: Mapping[str, str] = (pod.get("metadata") or {}).get(kind) or {}
    return metadata


def _containers(pod: Pod) -> Iterator[Mapping[str, Any]]:
    spec = pod.get("spec") or {}
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()
