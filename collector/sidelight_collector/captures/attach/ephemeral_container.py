"""The ephemeral container of a sidecar that is attached for one capture.

Builds its specification, and explains why it was rejected or does not start. Pure functions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight_collector.captures.capture import CaptureRequest
from sidelight_kubernetes.api_paths import build_path
from sidelight_kubernetes.kubernetes_client import (
    AccessDenied,
    ClusterError,
    Conflict,
    InvalidRequest,
    NotFoundInCluster,
)
from sidelight_kubernetes.label_names import EPHEMERAL_PREFIX

SPOOL_BYTES: Final = 32 << 20
IMAGE_PULL_TIMEOUT_SECONDS: Final = 20.0
"""An image that cannot be pulled for this long counts as a failure.

The kubelet keeps trying.
"""
_FATAL_WAITING_REASONS: Final = (
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerError",
    "CreateContainerConfigError",
)
_PULL_FAILURE_REASONS: Final = (
    "ErrImagePull",
    "ImagePullBackOff",
    "ImageInspectError",
    "RegistryUnavailable",
)
_SERVICE_ACCOUNT_PATTERN: Final = re.compile(r'"system:serviceaccount:([a-z0-9.-]+):([a-z0-9.-]+)"')

SECURITY_CONTEXT: Final[Mapping[str, Any]] = {
    "runAsUser": 0,
    "runAsGroup": 0,
    "runAsNonRoot": False,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""Same as a sidecar's; docs/security.md gives the reason for each line."""


@dataclass(frozen=True, slots=True)
class AttachTarget:
    """The pod that a sidecar is attached to, and the container that it profiles.

    `node_agent` is the UID of the node agent's pod that samples it instead; empty without one.
    """

    namespace: str
    pod: str
    uid: str
    node: str
    service: str
    version: str
    container: str
    node_agent: str = ""

    @property
    def api_path(self) -> str:
        return build_path("pods", namespace=self.namespace, name=self.pod)

    @property
    def labels(self) -> dict[str, str]:
        """The labels of everything that the sidecar sends."""
        labels = {
            "service": self.service,
            "version": self.version,
            "namespace": self.namespace,
            "pod": self.pod,
            "container": self.container,
            "node": self.node,
        }
        return {name: value for name, value in labels.items() if value}


@dataclass(frozen=True, slots=True)
class AttachFailure:
    """Why a sidecar was not attached or did not start.

    `outcome` is the label of a metric.
    """

    outcome: str
    problem: str
    hint: str


def build_container_name(agent: str) -> str:
    """Return the name of a sidecar's container, unique in its pod."""
    return f"{EPHEMERAL_PREFIX}{agent[-12:].lower()}"


def build_container(
    target: AttachTarget,
    agent: str,
    image: str,
    collector: str,
    variables: Mapping[str, str],
    capture_request: CaptureRequest,
) -> dict[str, Any]:
    """Build the ephemeral container.

    Its sidecar takes one capture and exits, because an ephemeral container can never be removed. Empty
    `variables` are left out.
    """
    flags = {
        "collector": collector,
        "service": target.service,
        "version": target.version,
        "namespace": target.namespace,
        "pod": target.pod,
        "container": target.container,
        "node": target.node,
        # Another sidecar, though it does not work, may hold the default port.
        "listen": "127.0.0.1:0",
        # The root file system is read-only.
        "spool-dir": f"/dev/shm/{build_container_name(agent)}",  # noqa: S108
        "spool-max-bytes": str(SPOOL_BYTES),
        "capture-max-seconds": f"{capture_request.seconds:g}",
        "capture-max-rate": str(capture_request.rate),
        "timeline-recording-max-bytes": str(SPOOL_BYTES // 4),
    }
    return {
        "name": build_container_name(agent),
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "targetContainerName": target.container,
        "args": [
            "sidecar",
            "--all",
            "--on-demand",
            *(f"--{name}={value}" for name, value in flags.items() if value),
        ],
        "env": [{"name": name, "value": value} for name, value in variables.items() if value],
        "securityContext": dict(SECURITY_CONTEXT),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def build_patch(container_spec: Mapping[str, Any]) -> dict[str, Any]:
    """Build the strategic merge patch of the ephemeralcontainers subresource.

    Containers are merged by name.
    """
    return {"spec": {"ephemeralContainers": [container_spec]}}


def explain_rejection(error: ClusterError, target: AttachTarget) -> AttachFailure:
    """Explain why the API server did not attach the sidecar."""
    where = f"{target.namespace}/{target.pod}"
    if isinstance(error, AccessDenied) and "violates PodSecurity" in error.message:
        level = re.search(r'violates PodSecurity "([a-z]+)', error.message)
        return AttachFailure(
            "refused",
            f"Pod Security ({level[1] if level else 'a level'}) of the namespace {target.namespace} "
            "refuses a "
            f"container that may read other processes: {_tail(error.message)}",
            f"kubectl label namespace {target.namespace} pod-security.kubernetes.io/enforce=privileged "
            "--overwrite, or exempt it in the API server's admission configuration. docs/kubernetes.md "
            "says what is needed and why.",
        )
    if isinstance(error, AccessDenied) and "cannot " in error.message and "resource" in error.message:
        match = _SERVICE_ACCOUNT_PATTERN.search(error.message)
        account = f"{match[1]}:{match[2]}" if match else "NAMESPACE:SERVICEACCOUNT"
        scope = f" -n {target.namespace}"
        return AttachFailure(
            "denied",
            f"the collector may not {error.verb} {error.resource} in the namespace {target.namespace}",
            "The chart's kubernetes.attachNamespaces gives it; or by hand: "
            f"kubectl create role sidelight-attach{scope} --verb=get,patch "
            "--resource=pods,pods/ephemeralcontainers && "
            f"kubectl create rolebinding sidelight-attach{scope} --role=sidelight-attach "
            f"--serviceaccount={account}",
        )
    if isinstance(error, AccessDenied):
        return AttachFailure(
            "refused",
            f"an admission policy of the cluster refuses the sidecar for {where}: {_tail(error.message)}",
            "The cluster's operator has to allow SYS_PTRACE and uid 0 in this namespace.",
        )
    if isinstance(error, NotFoundInCluster):
        return AttachFailure("failed", f"there is no pod {where} any more", "Start the capture again.")
    if isinstance(error, Conflict | InvalidRequest):
        return AttachFailure(
            "refused",
            f"the API server takes no sidecar for {where}: {_tail(error.message)}",
            "Pods that a node runs from a file, and Windows pods, take none; others say why.",
        )
    return AttachFailure("away", error.message, error.hint)


def find_startup_failure(
    pod: Mapping[str, Any], name: str, target: AttachTarget, image: str, elapsed_seconds: float
) -> AttachFailure | None:
    """Explain why an attached sidecar will not start; None if it still may.

    `elapsed_seconds` is the time since it was attached.
    """
    where = f"{target.namespace}/{target.pod}"
    meta = pod.get("metadata") or {}
    phase = (pod.get("status") or {}).get("phase")
    if meta.get("uid") != target.uid or meta.get("deletionTimestamp") or phase in ("Succeeded", "Failed"):
        return AttachFailure("failed", f"the pod {where} has ended", "Start the capture again.")
    statuses: Sequence[Any] = (pod.get("status") or {}).get("ephemeralContainerStatuses") or ()
    state = next((status.get("state") or {} for status in statuses if status.get("name") == name), {})
    if waiting := state.get("waiting"):
        reason = str(waiting.get("reason") or "")
        message = _tail(str(waiting.get("message") or ""))
        if reason in _FATAL_WAITING_REASONS or (
            reason in _PULL_FAILURE_REASONS and elapsed_seconds > IMAGE_PULL_TIMEOUT_SECONDS
        ):
            return AttachFailure(
                "failed",
                f"{where} cannot run the sidecar's image {image}: "
                f"{reason}{f', {message}' if message else ''}",
                f"The node of {where} must be able to pull it: check --attach-image and the pull secrets of "
                "the pod's service account.",
            )
    if ended := state.get("terminated"):
        message = _tail(str(ended.get("message") or ""))
        exit_text = f"{ended.get('reason') or 'ended'}, exit code {ended.get('exitCode')}"
        return AttachFailure(
            "failed",
            f"the sidecar attached to {where} ended before it took the capture: {exit_text}"
            f"{f': {message}' if message else ''}",
            f"kubectl -n {target.namespace} logs {target.pod} -c {name} says why.",
        )
    return None


def _tail(text: str) -> str:
    """Return the end of a message on one line; the cause is usually there."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"… {line[-300:]}"
