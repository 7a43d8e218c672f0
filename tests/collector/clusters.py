"""A cluster for tests that need no API server: objects as the API gives them, and what watches tell."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Any

from sidelight_kubernetes.kubernetes_client import ClusterError, ResourceVersionExpired, WatchEvent

NOW = 1_795_253_400.0
STARTED = "2026-11-21T09:00:00Z"
STARTED_UNIX = 1_795_251_600.0


def pod(
    name: str,
    *,
    namespace: str = "shop",
    owner: str = "shop",
    sidecar: str = "",
    reason: str = "",
    restarts: int = 0,
    phase: str = "Running",
    labels: dict[str, str] | None = None,
    notes: dict[str, str] | None = None,
    hash_: str = "7d9f",
) -> dict[str, Any]:
    """A pod of a Deployment; `sidecar` is running, waiting or terminated, or empty for none."""
    containers, statuses = [{"name": "app", "image": "shop:2"}], []
    if sidecar:
        containers.append({"name": "sidelight", "image": "sidelight:1"})
        told = {"reason": reason} if reason else {}
        at = {"running": {"startedAt": STARTED}, "waiting": told, "terminated": {**told, "exitCode": 1}}
        statuses.append(
            {"name": "sidelight", "restartCount": restarts, "state": {sidecar: at[sidecar]}, "ready": True}
        )
    return {
        "metadata": {
            "namespace": namespace,
            "name": name,
            "uid": f"u-{namespace}-{name}",
            "creationTimestamp": STARTED,
            "labels": {"app": owner, "pod-template-hash": hash_, **(labels or {})},
            "annotations": dict(notes or {}),
            "ownerReferences": [{"controller": True, "kind": "ReplicaSet", "name": f"{owner}-{hash_}"}],
        },
        "spec": {"nodeName": "n1", "containers": containers},
        "status": {
            "phase": phase,
            "containerStatuses": statuses,
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": STARTED}],
        },
    }


def deployment(name: str, revision: int, *, done: bool = True, ended: str = STARTED) -> dict[str, Any]:
    """A Deployment of two pods at a revision."""
    return {
        "metadata": {
            "namespace": "shop",
            "name": name,
            "generation": revision,
            "annotations": {"deployment.kubernetes.io/revision": str(revision)},
        },
        "spec": {"replicas": 2},
        "status": {
            "observedGeneration": revision,
            "replicas": 2,
            "updatedReplicas": 2 if done else 1,
            "availableReplicas": 2,
            "conditions": [
                {
                    "type": "Progressing",
                    "reason": "NewReplicaSetAvailable" if done else "ReplicaSetUpdated",
                    "lastUpdateTime": ended,
                }
            ],
        },
    }


def replicaset(
    owner: str,
    revision: int,
    *,
    hash_: str = "7d9f",
    created: str = STARTED,
    image: str = "shop:2",
    old: str = "",
) -> dict[str, Any]:
    """A ReplicaSet of a Deployment; `old` names the revisions that it was before."""
    notes = {"deployment.kubernetes.io/revision": str(revision)}
    if old:
        notes["deployment.kubernetes.io/revision-history"] = old
    return {
        "metadata": {
            "namespace": "shop",
            "name": f"{owner}-{hash_}",
            "uid": f"u-{owner}-{hash_}",
            "creationTimestamp": created,
            "labels": {"app": owner, "pod-template-hash": hash_},
            "annotations": notes,
            "ownerReferences": [{"controller": True, "kind": "Deployment", "name": owner}],
        },
        "spec": {
            "template": {
                "metadata": {"labels": {"app": owner}},
                "spec": {"containers": [{"name": "app", "image": image}]},
            }
        },
    }


class Pages:
    """A list as a client gives it."""

    def __init__(self, items: list[dict[str, Any]], version: str) -> None:
        self._items = items
        self.version = version

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return iter(self._items)


class Server:
    """An API server that keeps a list and a log of changes, and forgets the log when it is told to.

    `failures` are raised instead of the next answers, each once; `asked` has what was asked for.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.log: list[tuple[int, str, dict[str, Any]]] = []
        self.version = 0
        self.oldest = 0
        self.failures: list[ClusterError | None] = []
        self.asked: list[str] = []

    def put(self, item: dict[str, Any]) -> None:
        key = item["metadata"]["namespace"], item["metadata"]["name"]
        self._happened("MODIFIED" if key in self.objects else "ADDED", item)
        self.objects[key] = item

    def drop(self, namespace: str, name: str) -> None:
        if (item := self.objects.pop((namespace, name), None)) is not None:
            self._happened("DELETED", item)

    def forget(self) -> None:
        """What happened before is no longer known, as when etcd was compacted."""
        self.oldest = self.version
        self.log.clear()

    def pages(self, path: str, /, **_: str) -> Pages:
        self._fail(f"list {path}")
        return Pages([deepcopy(one) for one in self.objects.values()], str(self.version))

    def watch(self, path: str, version: str, /, *, timeout_seconds: int, **_: str) -> Iterator[WatchEvent]:
        assert timeout_seconds > 0
        self._fail(f"watch {path} {version}")
        if int(version) < self.oldest:
            raise ResourceVersionExpired("too old")
        for at, kind, item in list(self.log):
            if at > int(version):
                yield WatchEvent(kind, {**item, "metadata": {**item["metadata"], "resourceVersion": str(at)}})
        yield WatchEvent("BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def _happened(self, kind: str, item: dict[str, Any]) -> None:
        self.version += 1
        self.log.append((self.version, kind, deepcopy(item)))

    def _fail(self, asked: str) -> None:
        self.asked.append(asked)
        if self.failures and (error := self.failures.pop(0)) is not None:
            raise error
