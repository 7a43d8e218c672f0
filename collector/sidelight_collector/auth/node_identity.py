"""The identity of a node agent: it writes for the pods of its node alone.

The API server says on which node the agent's token is, and on which node a pod runs. A pod that has ended
stays writable for a while if it was read before, because its last windows arrive after it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sidelight_collector.auth.write_identity import LabelMismatch, WriterIdentity
from sidelight_kubernetes import naming
from sidelight_kubernetes.kubernetes_client import ClusterUnavailable, NotFoundInCluster
from sidelight_model.errors import Reason
from sidelight_model.labels import Labels

MAX_CACHED_PODS: Final = 20_000
_HINT: Final = "A node agent writes for the pods of its own node: docs/identity.md."
_PodKey = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class _CachedPod:
    pod: WriterIdentity
    read_at: float


class NodePods:
    """The pods of nodes, read from the API server and cached.

    It is safe to use from several threads. `get_pod` returns a pod by namespace and name, `clock` seconds.
    A pod is read again after `cache_seconds`. If it is then gone, was made anew elsewhere, or cannot be
    read, the old one counts for `grace_seconds` more.
    """

    def __init__(
        self,
        get_pod: Callable[[str, str], Mapping[str, Any]],
        cache_seconds: float,
        grace_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        self._get_pod = get_pod
        self._cache_seconds = cache_seconds
        self._grace_seconds = grace_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._cached: OrderedDict[_PodKey, _CachedPod] = OrderedDict()

    def find(self, namespace: str, name: str, node: str) -> WriterIdentity:
        """Return a pod that runs on a node, or that ran there a short time ago.

        Blocks the thread. Raises LabelMismatch (`wrong_node`) if there is none, and ClusterError if that
        cannot be determined now.
        """
        key, now = (namespace, name, node), self._clock()
        with self._lock:
            cached = self._cached.get(key)
        if cached is not None and now < cached.read_at + self._cache_seconds:
            return cached.pod
        usable = cached is not None and now < cached.read_at + self._cache_seconds + self._grace_seconds
        try:
            pod = self._get_pod(namespace, name)
        except (NotFoundInCluster, ClusterUnavailable) as error:
            if cached is not None and usable:
                return cached.pod
            if isinstance(error, ClusterUnavailable):
                raise
            raise _make_error(f"there is no pod {namespace}/{name} on node {node!r}") from None
        actual = str((pod.get("spec") or {}).get("nodeName") or "")
        if actual != node:
            if cached is not None and usable:
                return cached.pod
            raise _make_error(f"pod {namespace}/{name} runs on another node than {node!r}")
        uid = str((pod.get("metadata") or {}).get("uid") or "")
        found = WriterIdentity(namespace, name, uid, node, naming.service_of(pod), naming.version_of(pod))
        with self._lock:
            self._cached[key] = _CachedPod(found, now)
            self._cached.move_to_end(key)
            while len(self._cached) > MAX_CACHED_PODS:
                self._cached.popitem(last=False)
        return found


@dataclass(frozen=True, slots=True)
class NodeWriterIdentity(WriterIdentity):
    """A node agent, which writes for itself and for the pods of its node."""

    node_pods: NodePods | None = None

    def bind_labels(self, labels: Mapping[str, str]) -> Labels:
        """Check and fill in the labels of a window of a pod on this node.

        Without the label `pod` it is the agent's own. Blocks the thread for another pod. Raises
        LabelMismatch, BadLabel, and ClusterError if the pod cannot be read now.
        """
        namespace, pod = labels.get("namespace", "") or self.namespace, labels.get("pod", "") or self.pod
        if (namespace, pod) == (self.namespace, self.pod):
            return WriterIdentity.bind_labels(self, labels)
        if not self.node or self.node_pods is None:
            raise _make_error(
                f"the token of node agent {self.namespace}/{self.pod} names no node",
                "Allow the collector to get pods of the agent's namespace, or use Kubernetes 1.32 or later.",
            )
        node = labels.get("node", "")
        if node and node != self.node:
            raise _make_error(f"it says node {node[:80]!r}, and its token is of node {self.node!r}")
        return self.node_pods.find(namespace, pod, self.node).bind_labels(labels)


def _make_error(message: str, hint: str = _HINT) -> LabelMismatch:
    return LabelMismatch(message, reason=Reason.WRONG_NODE, hint=hint)
