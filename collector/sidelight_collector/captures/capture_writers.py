"""Which pods may write windows with the label of a capture."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Final

from sidelight_collector.auth.node_identity import NodeWriterIdentity
from sidelight_collector.auth.write_identity import LabelMismatch, WriterIdentity
from sidelight_collector.captures.capture import CAPTURE_ID_PATTERN, Claim
from sidelight_collector.captures.capture_repository import CaptureNotFound, CaptureRepository
from sidelight_model.errors import Reason

MAX_CACHED: Final = 10_000


class CaptureWriters:
    """Checks captures against the pods that took them.

    It remembers the last permits, and is thread-safe.
    """

    def __init__(self, repository: CaptureRepository) -> None:
        self._repository = repository
        self._lock = threading.Lock()
        self._permitted: OrderedDict[tuple[str, ...], None] = OrderedDict()

    def check(self, writer: WriterIdentity, windows: Iterable[Mapping[str, str]]) -> None:
        """Raise LabelMismatch for a window of a capture that was not taken for its pod.

        `windows` are the labels of each. An id that the collector does not know is that of a sidecar's own
        capture. Blocks the thread.
        """
        for labels in windows:
            capture_id, namespace, pod = (labels.get(name, "") for name in ("capture", "namespace", "pod"))
            permit = (capture_id, writer.namespace, writer.pod, namespace, pod)
            if permit in self._permitted or not CAPTURE_ID_PATTERN.fullmatch(capture_id):
                continue
            try:
                claims = self._repository.get(capture_id).claims
            except CaptureNotFound:
                claims = None
            if claims is not None and not any(_has_claimed(writer, labels, claim) for claim in claims):
                raise LabelMismatch(
                    f"it says capture {capture_id}, which pod {writer.namespace}/{writer.pod} did not take "
                    f"for pod {namespace}/{pod}",
                    reason=Reason.WRONG_POD,
                    hint="The label `capture` is for the pods for which the capture was taken: leave it out.",
                )
            with self._lock:
                self._permitted[permit] = None
                if len(self._permitted) > MAX_CACHED:
                    self._permitted.popitem(last=False)


def _has_claimed(writer: WriterIdentity, labels: Mapping[str, str], claim: Claim) -> bool:
    """Return whether a claim of a writer is for the pod of these labels.

    A node agent takes captures for the pods of its node, each under a name that ends as all of its names.
    """
    is_agent = isinstance(writer, NodeWriterIdentity)
    return claim.is_of_pod(labels) and (not is_agent or claim.agent.endswith(writer.qualify_agent_name("")))
