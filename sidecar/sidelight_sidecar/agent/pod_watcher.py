"""Watches the pods of the node and the labels of namespaces, in two threads."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import structlog

from sidelight_kubernetes import label_names
from sidelight_kubernetes.api_paths import build_path
from sidelight_kubernetes.kubernetes_client import ClusterError, ResourceVersionExpired, WatchEvent
from sidelight_kubernetes.profiling_request import get_metadata
from sidelight_kubernetes.reflector import ListWatchApi, run_reflector
from sidelight_sidecar.agent.attached_pods import AttachedPods
from sidelight_sidecar.agent.node_pod import NodePod, PodDecision, decide, parse_pod

PODS: Final = "pods"
NAMESPACES: Final = "namespaces"
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("sidelight_sidecar.agent")


class WatchedList(NamedTuple):
    """A list of the API server; a `node` restricts it to the pods there."""

    resource: str
    node: str = ""

    @property
    def list_path(self) -> str:
        return build_path(self.resource)

    @property
    def selectors(self) -> Mapping[str, str]:
        return {"fieldSelector": f"spec.nodeName={self.node}"} if self.node else {}


@dataclass(slots=True)
class _ListStatus:
    is_listed: bool = False
    error: ClusterError | None = None


class PodWatcher:
    """The pods of a node and what is decided about each.

    It may be read from any thread. While the API server is away, the last known pods stay.
    """

    def __init__(self, api: ListWatchApi, node: str) -> None:
        self._api = api
        self._lists = {WatchedList(PODS, node): _ListStatus(), WatchedList(NAMESPACES): _ListStatus()}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._pods: dict[str, NodePod] = {}
        self._namespace_labels: dict[str, str] = {}
        self.version = 0
        """Changes with every change of a pod or a namespace."""

    def start(self) -> None:
        """Start to watch, until `close`."""
        for watched in self._lists:
            threading.Thread(
                target=run_reflector,
                args=(self._api, watched, self, self._closed.wait, random.random),
                name=f"watch {watched.resource}",
                daemon=True,
            ).start()

    def close(self) -> None:
        """Stop; the threads end at the next event of their watch, or with the process."""
        self._closed.set()

    @property
    def is_listed(self) -> bool:
        """Return whether all lists have been read once."""
        return all(status.is_listed for status in self._lists.values())

    @property
    def error(self) -> ClusterError | None:
        """Why the API server is not watched; None while it is."""
        return next((status.error for status in self._lists.values() if status.error is not None), None)

    def decide_pods(self, attached: AttachedPods) -> list[tuple[NodePod, PodDecision]]:
        """Return all pods with the decision about each; none before both lists are read."""
        if not self.is_listed:
            return []
        with self._lock:
            return [
                (
                    pod,
                    decide(
                        pod,
                        self._namespace_labels.get(pod.namespace),
                        is_attached=attached.find(pod.namespace, pod.name) is not None,
                    ),
                )
                for pod in self._pods.values()
            ]

    def replace(self, scope: WatchedList, items: Iterable[Mapping[str, Any]]) -> None:
        parsed = dict(_parse(scope, item) for item in items)
        with self._lock:
            if scope.resource == PODS:
                self._pods = {key: value for key, value in parsed.items() if isinstance(value, NodePod)}
            else:
                self._namespace_labels = {
                    key: value for key, value in parsed.items() if isinstance(value, str)
                }
            self._lists[scope].is_listed = True
            self.version += 1

    def apply(self, scope: WatchedList, event: WatchEvent) -> None:
        if event.type not in ("ADDED", "MODIFIED", "DELETED"):
            return
        key, value = _parse(scope, event.object)
        objects: dict[str, Any] = self._pods if scope.resource == PODS else self._namespace_labels
        with self._lock:
            if event.type == "DELETED":
                objects.pop(key, None)
            elif objects.get(key) == value:
                return
            else:
                objects[key] = value
            self.version += 1

    def on_watching(self, scope: WatchedList) -> None:
        status = self._lists[scope]
        if status.error is not None:
            _log.info("the cluster is watched again", what=scope.resource)
        status.error = None

    def on_error(self, scope: WatchedList, error: ClusterError) -> None:
        if isinstance(error, ResourceVersionExpired) or self._closed.is_set():
            return
        status = self._lists[scope]
        if type(status.error) is not type(error):
            _log.warning(
                "the cluster is not watched: the last known pods stay",
                what=scope.resource,
                problem=error.message,
                hint=error.hint,
            )
        status.error = error


def _parse(scope: WatchedList, item: Mapping[str, Any]) -> tuple[str, NodePod | str]:
    """Return a pod by its UID, or a namespace's `INJECT` label by its name."""
    if scope.resource == PODS:
        pod = parse_pod(item)
        return pod.uid, pod
    return str(item["metadata"]["name"]), get_metadata(item, "labels").get(label_names.INJECT, "")
