"""Pods that did not ask to be profiled, and are sampled for one capture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from sidelight_model.capture_protocol import AgentPollResponse, Attachment

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.agent")


@dataclass(slots=True)
class _AttachedPod:
    attachment: Attachment
    expires_at: float
    has_ended: bool = False


class AttachedPods:
    """The pods of current attachments; `clock` returns monotonic seconds.

    `version` changes with them, and may be read from any thread.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._pods: dict[str, _AttachedPod] = {}
        self.version = 0

    def receive(self, response: AgentPollResponse) -> None:
        """Add the attachments of a response; one that was here before stays as it is."""
        for attachment in response.attachments:
            if attachment.agent not in self._pods:
                expires_at = self._clock() + attachment.seconds
                self._pods[attachment.agent] = _AttachedPod(attachment, expires_at)
                self.version += 1
                _log.info(
                    "a pod is profiled for one capture",
                    pod=f"{attachment.namespace}/{attachment.pod}",
                    capture=attachment.capture,
                )

    def find(self, namespace: str, pod: str) -> Attachment | None:
        """Return the attachment of a pod, if there is one."""
        for attached in self._pods.values():
            attachment = attached.attachment
            if not attached.has_ended and (attachment.namespace, attachment.pod) == (namespace, pod):
                return attachment
        return None

    def list_current(self) -> list[Attachment]:
        """Return the attachments that have not ended."""
        return [attached.attachment for attached in self._pods.values() if not attached.has_ended]

    def end(self, attachment: Attachment) -> None:
        """End an attachment whose capture has ended."""
        attached = self._pods.get(attachment.agent)
        if attached is not None and not attached.has_ended:
            # It stays known until it expires: another collector may send it again.
            attached.has_ended = True
            self.version += 1

    def drop_expired(self) -> None:
        """End attachments whose time is over."""
        now = self._clock()
        expired = [agent for agent, attached in self._pods.items() if now >= attached.expires_at]
        for agent in expired:
            self.version += not self._pods.pop(agent).has_ended
