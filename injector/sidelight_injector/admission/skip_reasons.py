"""Reasons why a pod gets no sidecar, and the message for its owner.

Metric label, log, event and docs/injector.md use the same word for a reason.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MAX_MESSAGE_CHARACTERS: Final = 500


class SkipReason(StrEnum):
    """Why a pod gets no sidecar."""

    BAD_LABEL = "bad_label"
    BAD_ANNOTATION = "bad_annotation"
    NO_SUCH_CONTAINER = "no_such_container"
    CONTAINER_ENDS_FIRST = "container_ends_first"
    NAME_TAKEN = "name_taken"
    OTHER_OS = "other_os"
    HOST_PID = "host_pid"
    PROCESSES_APART = "processes_apart"
    WOULD_NOT_END = "would_not_end"
    NO_FREE_PORT = "no_free_port"
    POD_SECURITY = "pod_security"
    NAMESPACE_LIMITS = "namespace_limits"
    NAMESPACE_UNKNOWN = "namespace_unknown"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True)
class Skip:
    """A reason, the problem, and what to do; `message` goes into the pod's annotation."""

    reason: SkipReason
    problem: str
    hint: str

    @property
    def message(self) -> str:
        text = f"{self.problem}: {self.hint}"
        return text if len(text) <= MAX_MESSAGE_CHARACTERS else text[: MAX_MESSAGE_CHARACTERS - 1] + "…"
