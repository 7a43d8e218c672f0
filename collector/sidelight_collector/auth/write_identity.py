"""Who sends: a pod whose token the cluster vouches for, and what it may say of itself. Pure.

A token of a file may say anything. The token of a pod may not: its namespace and pod are the cluster's word,
and its service too where the collector may read pods. What a sidecar leaves out is filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from sidelight_model.errors import BadLabel, Reason, SidelightError
from sidelight_model.labels import Labels

ONE_TIME_PREFIX: Final = "slat_"
"""What the tokens of sidecars begin with that were attached for one capture."""


class TokenRejected(SidelightError):
    """The cluster does not vouch for the token."""

    reason = Reason.UNAUTHORIZED


class LabelMismatch(SidelightError):
    """A pod says that it is another one, or of another namespace or service."""

    reason = Reason.WRONG_POD


class TokenWithoutPod(SidelightError):
    """The token is that of a service account and of no pod, so nobody knows who sends."""

    reason = Reason.NO_POD

    def __init__(self, account: str) -> None:
        super().__init__(
            f"the token of {account} is bound to no pod",
            hint="Mount a projected token (a serviceAccountToken volume with audience sidelight) into the "
            "pod: the kubelet binds it. docs/identity.md has the volume.",
        )


@dataclass(frozen=True, slots=True)
class WriterIdentity:
    """A pod that sends. Service and version are empty where the collector may not read pods."""

    namespace: str
    pod: str
    pod_uid: str = ""
    node: str = ""
    service: str = ""
    version: str = ""

    def bind_labels(self, labels: Mapping[str, str]) -> Labels:
        """The labels of what it sends, with what they leave out filled in. Raises NotYours, BadLabel.

        A version that is said counts: whose it is, is known. So does a node.
        """
        for name, own, reason in (
            ("namespace", self.namespace, Reason.WRONG_NAMESPACE),
            ("pod", self.pod, Reason.WRONG_POD),
            ("service", self.service, Reason.WRONG_SERVICE),
        ):
            said = labels.get(name, "")
            if own and said and said != own:
                raise LabelMismatch(
                    f"it says {name} {said[:80]!r}, and its token is that of {name} {own!r} "
                    f"(pod {self.namespace}/{self.pod})",
                    reason=reason,
                    hint=_HINTS[reason],
                )
        known = {
            "namespace": self.namespace,
            "pod": self.pod,
            "node": self.node,
            "service": self.service,
            "version": self.version,
        }
        filled = Labels({**known, **{name: value for name, value in labels.items() if value}})
        if "service" not in filled:
            raise BadLabel(
                "the label `service` is missing, and the collector may not read pods to fill it in",
                hint="Name the service (SIDELIGHT_SERVICE), or allow the collector to get pods "
                "of this namespace (--kubernetes-namespaces leaves it out, where that is given).",
            )
        return filled

    def qualify_agent_name(self, name: str) -> str:
        """The name of this pod's sidecar, which no sidecar of another pod can have."""
        return (
            f"{name[:_MAX_AGENT_CHARACTERS]}.{sha256(self.pod_uid.encode()).hexdigest()[:_POD_HASH_DIGITS]}"
        )


@dataclass(frozen=True, slots=True)
class OneShotWriterIdentity(WriterIdentity):
    """A sidecar that the collector attached to a pod: it speaks for one capture, as `agent_name`, and no
    other.
    """

    capture: str = ""
    agent_name: str = ""

    def bind_labels(self, labels: Mapping[str, str]) -> Labels:
        """As of any pod; all that it sends is of its capture."""
        said = labels.get("capture", "")
        if said and said != self.capture:
            raise LabelMismatch(
                f"it says capture {said[:80]!r}, and its token is for {self.capture}",
                reason=Reason.WRONG_POD,
                hint="A sidecar that was attached for one capture takes no other.",
            )
        return Labels({**WriterIdentity.bind_labels(self, labels), "capture": self.capture})

    def qualify_agent_name(self, name: str) -> str:
        """The name that it was given; it has no other."""
        if name != self.agent_name:
            raise LabelMismatch(
                f"it calls itself {name[:80]!r}, and its token is for {self.agent_name}",
                reason=Reason.WRONG_POD,
                hint="Its name is part of the token it was started with.",
            )
        return WriterIdentity.qualify_agent_name(self, name)


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
