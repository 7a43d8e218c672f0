"""A sidecar for one capture, an ephemeral container: what it is made of, why it does not come up. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sidelight_collector.captures.capture import Wish
from sidelight_kubernetes.kubernetes_client import ClusterError, Conflict, Denied, Invalid, NotFoundInCluster
from sidelight_kubernetes.label_names import EPHEMERAL_PREFIX

SPOOL_BYTES: Final = 32 << 20
PULL_SECONDS: Final = 20.0
"""An image that cannot be pulled for so long is given up; the kubelet goes on trying."""
_NEVER: Final = (
    "InvalidImageName",
    "ErrImageNeverPull",
    "CreateContainerError",
    "CreateContainerConfigError",
)
_PULLING: Final = ("ErrImagePull", "ImagePullBackOff", "ImageInspectError", "RegistryUnavailable")
_ACCOUNT: Final = re.compile(r'"system:serviceaccount:([a-z0-9.-]+):([a-z0-9.-]+)"')

SECURITY: Final[Mapping[str, Any]] = {
    "runAsUser": 0,
    "runAsGroup": 0,
    "runAsNonRoot": False,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"], "add": ["SYS_PTRACE"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""As a sidecar's: docs/kubernetes.md has the why of each line."""


@dataclass(frozen=True, slots=True)
class Place:
    """The pod that a sidecar is attached to, and the container whose processes it is to see."""

    namespace: str
    pod: str
    uid: str
    node: str
    service: str
    version: str
    target: str

    @property
    def path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{self.pod}"

    @property
    def labels(self) -> dict[str, str]:
        """What all that it sends is labelled with."""
        known = {
            "service": self.service,
            "version": self.version,
            "namespace": self.namespace,
            "pod": self.pod,
            "container": self.target,
            "node": self.node,
        }
        return {name: value for name, value in known.items() if value}


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why a sidecar is not attached, or does not come up; `outcome` is a metric's label."""

    outcome: str
    problem: str
    hint: str


def container_name(agent: str) -> str:
    """The name of a sidecar's container: that of no other in its pod."""
    return f"{EPHEMERAL_PREFIX}{agent[-12:].lower()}"


def container(place: Place, agent: str, image: str, collector: str, token: str, wish: Wish) -> dict[str, Any]:
    """The ephemeral container. It takes one capture and ends, because it can never be removed."""
    flags = {
        "collector": collector,
        "service": place.service,
        "version": place.version,
        "namespace": place.namespace,
        "pod": place.pod,
        "container": place.target,
        "node": place.node,
        # A free port: a sidecar that does not work may have the usual one. Nothing but memory is writable.
        "listen": "127.0.0.1:0",
        "spool-dir": f"/dev/shm/{container_name(agent)}",  # noqa: S108
        "spool-max-bytes": str(SPOOL_BYTES),
        "capture-max-seconds": f"{wish.seconds:g}",
        "capture-max-rate": str(wish.rate),
        "recording-max-bytes": str(SPOOL_BYTES // 4),
    }
    return {
        "name": container_name(agent),
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "targetContainerName": place.target,
        "args": [
            "sidecar",
            "--all",
            "--on-demand",
            *(f"--{name}={value}" for name, value in flags.items() if value),
        ],
        "env": [{"name": "SIDELIGHT_ONE_SHOT_TOKEN", "value": token}],
        "securityContext": dict(SECURITY),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def body(made: Mapping[str, Any]) -> dict[str, Any]:
    """What the ephemeralcontainers subresource is patched with (strategic: names are its keys)."""
    return {"spec": {"ephemeralContainers": [made]}}


def refused(error: ClusterError, place: Place) -> Trouble:
    """Why the API server did not attach it."""
    where = f"{place.namespace}/{place.pod}"
    if isinstance(error, Denied) and "violates PodSecurity" in error.message:
        level = re.search(r'violates PodSecurity "([a-z]+)', error.message)
        return Trouble(
            "refused",
            f"Pod Security ({level[1] if level else 'a level'}) of the namespace {place.namespace} refuses a "
            f"container that may read other processes: {_end(error.message)}",
            f"kubectl label namespace {place.namespace} pod-security.kubernetes.io/enforce=privileged "
            "--overwrite, or exempt it in the API server's admission configuration. docs/kubernetes.md "
            "says what is needed and why.",
        )
    if isinstance(error, Denied) and "cannot " in error.message and "resource" in error.message:
        found = _ACCOUNT.search(error.message)
        account = f"{found[1]}:{found[2]}" if found else "NAMESPACE:SERVICEACCOUNT"
        scope = f" -n {place.namespace}"
        return Trouble(
            "denied",
            f"the collector may not {error.verb} {error.resource} in the namespace {place.namespace}",
            "The chart's kubernetes.attachNamespaces gives it; or by hand: "
            f"kubectl create role sidelight-attach{scope} --verb=get,patch "
            "--resource=pods,pods/ephemeralcontainers && "
            f"kubectl create rolebinding sidelight-attach{scope} --role=sidelight-attach "
            f"--serviceaccount={account}",
        )
    if isinstance(error, Denied):
        return Trouble(
            "refused",
            f"an admission policy of the cluster refuses the sidecar for {where}: {_end(error.message)}",
            "Whoever runs the cluster has to allow it: SYS_PTRACE and uid 0, in this namespace.",
        )
    if isinstance(error, NotFoundInCluster):
        return Trouble("failed", f"there is no pod {where} any more", "Start the capture again.")
    if isinstance(error, Conflict | Invalid):
        return Trouble(
            "refused",
            f"the API server takes no sidecar for {where}: {_end(error.message)}",
            "Pods that a node runs from a file, and Windows pods, take none; others say why.",
        )
    return Trouble("away", error.message, error.hint)


def trouble(pod: Mapping[str, Any], name: str, place: Place, image: str, seconds: float) -> Trouble | None:
    """Why a sidecar that was attached so long ago will not be heard of; None if it still may be."""
    where = f"{place.namespace}/{place.pod}"
    meta = pod.get("metadata") or {}
    phase = (pod.get("status") or {}).get("phase")
    if meta.get("uid") != place.uid or meta.get("deletionTimestamp") or phase in ("Succeeded", "Failed"):
        return Trouble("failed", f"the pod {where} has ended", "Start the capture again.")
    statuses: Sequence[Any] = (pod.get("status") or {}).get("ephemeralContainerStatuses") or ()
    state = next((one.get("state") or {} for one in statuses if one.get("name") == name), {})
    if waiting := state.get("waiting"):
        reason = str(waiting.get("reason") or "")
        said = _end(str(waiting.get("message") or ""))
        if reason in _NEVER or (reason in _PULLING and seconds > PULL_SECONDS):
            return Trouble(
                "failed",
                f"{where} cannot run the sidecar's image {image}: {reason}{f', {said}' if said else ''}",
                f"The node of {where} must be able to pull it: check --attach-image and the pull secrets of "
                "the pod's service account.",
            )
    if ended := state.get("terminated"):
        said = _end(str(ended.get("message") or ""))
        how = f"{ended.get('reason') or 'ended'}, exit code {ended.get('exitCode')}"
        return Trouble(
            "failed",
            f"the sidecar attached to {where} ended before it took the capture: {how}"
            f"{f': {said}' if said else ''}",
            f"kubectl -n {place.namespace} logs {place.pod} -c {name} says why.",
        )
    return None


def _end(text: str, most: int = 300) -> str:
    """The end of a message, which says what matters, on one line."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"… {line[-most:]}"
