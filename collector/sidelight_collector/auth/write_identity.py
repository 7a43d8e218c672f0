"""The identity of a pod that sends windows, and which labels it may write. Pure.

A sender with a token of the tokens file may write any labels. A sender with the token of a pod may not: the
Kubernetes API determines its namespace and pod, and its service too if the collector may read pods. Labels
that the sidecar omits are filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from sidelight_model.errors import BadLabel, Reason, SidelightError
from sidelight_model.labels import Labels

ONE_TIME_PREFIX: Final = "slat_"
"""Prefix of the tokens of sidecars that were attached for one capture."""


class TokenRejected(SidelightError):
    """The cluster does not accept the token."""

    reason = Reason.UNAUTHORIZED


class LabelMismatch(SidelightError):
    """A label names another pod, namespace or service than the identity of the sender."""

    reason = Reason.WRONG_POD


class TokenWithoutPod(SidelightError):
    """The token belongs to a service account but to no pod, so the sender is unknown."""

    reason = Reason.NO_POD

    def __init__(self, account: str) -> None:
        super().__init__(
            f"the token of {account} is bound to no pod",
            hint="Mount a projected token (a serviceAccountToken volume with audience sidelight) into the "
            "pod: the kubelet binds it. docs/identity.md has the volume.",
        )


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """A pod that sends windows.

    Service and version are empty if the collector may not read pods.
    """

    namespace: str
    pod: str
    pod_uid: str = ""
    node: str = ""
    service: str = ""
    version: str = ""

    def bind_labels(self, labels: Mapping[str, str]) -> Labels:
        """Check the labels of a window of this pod, and fill in missing ones.

        The sidecar's own values of version and node are kept: they cannot attribute the window to another
        pod. Raises LabelMismatch, BadLabel.
        """
        for name, own, reason in (
            ("namespace", self.namespace, Reason.WRONG_NAMESPACE),
            ("pod", self.pod, Reason.WRONG_POD),
            ("service", self.service, Reason.WRONG_SERVICE),
        ):
            label = labels.get(name, "")
            if own and label and label != own:
                raise LabelMismatch(
                    f"it says {name} {label[:80]!r}, and its token is that of {name} {own!r} "
                    f"(pod {self.namespace}/{self.pod})",
                    reason=reason,
                    hint=_HINTS[reason],
                )
        identity = {
            "namespace": self.namespace,
            "pod": self.pod,
            "node": self.node,
            "service": self.service,
            "version": self.version,
        }
        filled = Labels({**identity, **{name: value for name, value in labels.items() if value}})
        if "service" not in filled:
            raise BadLabel(
                "the label `service` is missing, and the collector may not read pods to fill it in",
                hint="Name the service (SIDELIGHT_SERVICE), or allow the collector to get pods "
                "of this namespace (--kubernetes-namespaces leaves it out, where that is given).",
            )
        return filled

    def qualify_agent_name(self, name: str) -> str:
        """Make the name of a sidecar unique to this pod by adding a hash of its UID."""
        return (
            f"{name[:_MAX_AGENT_CHARACTERS]}.{sha256(self.pod_uid.encode()).hexdigest()[:_POD_HASH_DIGITS]}"
        )


@dataclass(frozen=True, slots=True)
class OneShotWriterIdentity(WriterIdentity):
    """A sidecar that the collector attached to a pod for one capture.

    It may write only windows of `capture`, and use only the name `agent_name`.
    """

    capture: str = ""
    agent_name: str = ""

    def bind_labels(self, labels: Mapping[str, str]) -> Labels:
        """Check and fill in labels as for any pod, and the label `capture`."""
        label = labels.get("capture", "")
        if label and label != self.capture:
            raise LabelMismatch(
                f"it says capture {label[:80]!r}, and its token is for {self.capture}",
                reason=Reason.WRONG_POD,
                hint="A sidecar that was attached for one capture takes no other.",
            )
        return Labels({**WriterIdentity.bind_labels(self, labels), "capture": self.capture})

    def qualify_agent_name(self, name: str) -> str:
        """Make the assigned name unique. Raises LabelMismatch for any other name."""
        if name != self.agent_name:
            raise LabelMismatch(
                f"it calls itself {name[:80]!r}, and its token is for {self.agent_name}",
                reason=Reason.WRONG_POD,
                hint="Its name is part of the token it was started with.",
            )
        return WriterIdentity.qualify_agent_name(self, name)


def get_pod_suffix(name: str) -> str:
    """Return the end of a qualified name: that of all names of one pod."""
    return f".{name.rpartition('.')[2]}"


_MAX_AGENT_CHARACTERS: Final = 51
_POD_HASH_DIGITS: Final = 12
_HINTS: Final = {
    Reason.WRONG_NAMESPACE: "Leave SIDELIGHT_NAMESPACE out, or take it from the downward API "
    "(fieldRef metadata.namespace).",
    Reason.WRONG_POD: "Leave SIDELIGHT_POD out, or take it from the downward API (fieldRef metadata.name); "
    "do not share one token between pods.",
    Reason.WRONG_SERVICE: "Leave SIDELIGHT_SERVICE out, or annotate the pod's template with "
    "sidelight.dev/service; docs/identity.md has the order of what names a service.",
}
