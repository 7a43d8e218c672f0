"""What one collector process sees of the cluster, shared through the store.

    v1/discovery/watcher.json       which process watches, and its heartbeat
    v1/discovery/seen.json.zst      the snapshot that it publishes
    v1/discovery/rollouts.json      all rollouts that any process has observed

An API server then has the watches of one process only, however many collectors there are. The first object
is a lease. Two processes may watch for a while when one takes it over, and then write the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import zstandard

from sidelight_collector.decompress import decompress_body
from sidelight_collector.kubernetes_discovery.cluster_cache import ClusterInventory
from sidelight_collector.kubernetes_discovery.k8s_objects import Namespace, Pod, SidecarContainer
from sidelight_collector.kubernetes_discovery.rollouts import (
    Rollout,
    RolloutsByKey,
    RunningVersion,
    decode_rollouts,
    encode_rollouts,
    merge_rollouts,
)
from sidelight_collector.storage.documents import DocumentStore, parse_document, rename_fields
from sidelight_collector.storage.lease import Lease
from sidelight_collector.storage.objects import ObjectDamaged, ObjectMissing, ObjectStore, StoreError
from sidelight_model.errors import SidelightError

ROOT: Final = "v1/discovery/"
WATCHER_KEY: Final = f"{ROOT}watcher.json"
SNAPSHOT_KEY: Final = f"{ROOT}seen.json.zst"
ROLLOUTS_KEY: Final = f"{ROOT}rollouts.json"
FORMAT: Final = 3
_FORMAT_1: Final[Mapping[str, Mapping[str, str]]] = {
    "seen": {"at": "observed_at", "left_out": "pods_omitted", "missing": "watch_problems"},
    "pod": {"skipped": "skip_reason", "watched": "sampled_container", "wished": "inject_label"},
    "sidecar": {"how": "origin"},
    "namespace": {"wished": "inject_label"},
}
"""Current names of a snapshot's fields of format 1, by kind of object."""
MAX_SNAPSHOT_BYTES: Final = 256 << 20
"""Maximum size of a decompressed snapshot."""
MAX_SNAPSHOT_AGE_SECONDS: Final = 900.0
"""Age of a snapshot after which it no longer says what runs."""
_REVISION_RESOURCES: Final = ("replicasets", "controllerrevisions")


@dataclass(frozen=True, slots=True)
class WatchProblem:
    """Why a kind of object is not watched: a missing permission or another error."""

    resource: str
    group: str
    verb: str
    namespace: str
    problem: str
    hint: str


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """What the watching process sees, and when (Unix seconds)."""

    state: str
    observed_at: float
    inventory: ClusterInventory = field(default_factory=ClusterInventory)
    watch_problems: tuple[WatchProblem, ...] = ()
    problem: str = ""
    hint: str = ""


class SharedClusterState:
    """The lease, snapshot and rollouts in the store, as one process uses them.

    For one thread at a time. All calls block.
    """

    def __init__(
        self,
        store: ObjectStore,
        lease_seconds: float,
        max_rollouts: int,
        timer: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lease = Lease(store, WATCHER_KEY, lease_seconds, timer)
        self._store = store
        self._rollouts = DocumentStore(store, encode_rollouts, decode_rollouts)
        self._max_rollouts = max_rollouts
        self._cached: tuple[str, ClusterSnapshot] | None = None

    def put_snapshot(self, snapshot: ClusterSnapshot) -> None:
        """Publish a snapshot."""
        inventory = snapshot.inventory
        document = {
            "format": FORMAT,
            "state": snapshot.state,
            "observed_at": snapshot.observed_at,
            "problem": snapshot.problem,
            "hint": snapshot.hint,
            "pods_omitted": inventory.skipped_pods,
            "watch_problems": snapshot.watch_problems,
            "namespaces": inventory.namespaces,
            "pods": inventory.pods,
        }
        self._store.put(SNAPSHOT_KEY, zstandard.ZstdCompressor(level=3).compress(orjson.dumps(document)))

    def get_snapshot(self) -> ClusterSnapshot | None:
        """Return the last published snapshot.

        None if there is none, or it cannot be read.
        """
        entry = next((item for item in self._store.list(SNAPSHOT_KEY) if item.key == SNAPSHOT_KEY), None)
        if entry is None:
            return None
        if self._cached and entry.etag is not None and self._cached[0] == entry.etag:
            return self._cached[1]
        try:
            content, etag = self._store.get_with_etag(SNAPSHOT_KEY)
            snapshot = _parse_snapshot(decompress_body(content, "zstd", MAX_SNAPSHOT_BYTES))
        except (SidelightError, ValueError, KeyError, TypeError):
            return None
        self._cached = (etag, snapshot)
        return snapshot

    def add_rollouts(self, new_rollouts: RolloutsByKey) -> dict[tuple[str, int], Rollout]:
        """Add rollouts to those in the store, and return all of them."""

        def merge(stored: RolloutsByKey | None) -> dict[tuple[str, int], Rollout] | None:
            merged = merge_rollouts(stored or {}, new_rollouts, self._max_rollouts)
            return None if merged == (stored or {}) else merged

        return self._rollouts.upsert(ROLLOUTS_KEY, merge) or {}


def load_rollouts(store: ObjectStore) -> dict[tuple[str, int], Rollout]:
    """Return the rollouts in the store.

    Raises StoreError.
    """
    return DocumentStore(store, encode_rollouts, decode_rollouts).find(ROLLOUTS_KEY).document or {}


def load_running_versions(store: ObjectStore, now: float) -> set[RunningVersion]:
    """Return the versions that pods run, by the snapshot in the store.

    Empty if the snapshot is old, or if the watching process may not see every kind of revision: its
    rollouts are then incomplete. Raises StoreError.
    """
    try:
        snapshot = _parse_snapshot(decompress_body(store.get(SNAPSHOT_KEY), "zstd", MAX_SNAPSHOT_BYTES))
    except (ObjectMissing, ObjectDamaged):
        return set()
    except StoreError:
        raise
    except (SidelightError, ValueError, KeyError, TypeError):
        return set()
    if now - snapshot.observed_at > MAX_SNAPSHOT_AGE_SECONDS or any(
        problem.resource in _REVISION_RESOURCES for problem in snapshot.watch_problems
    ):
        return set()
    return {
        RunningVersion(pod.namespace, pod.service, pod.version, pod.kind, pod.workload)
        for pod in snapshot.inventory.pods
        if not pod.has_ended
    }


def is_discovery_key(key: str) -> bool:
    """Return whether an object belongs to discovery."""
    return key in (WATCHER_KEY, SNAPSHOT_KEY, ROLLOUTS_KEY)


def _parse_snapshot(content: bytes) -> ClusterSnapshot:
    document: Mapping[str, Any] = parse_document(SNAPSHOT_KEY, content, FORMAT)
    if document["format"] == 1:
        document = _of_format_1(document)
    pods = tuple(_parse_pod(raw) for raw in document["pods"])
    namespaces = tuple(Namespace(**raw) for raw in document["namespaces"])
    inventory = ClusterInventory(pods, (), (), namespaces, int(document["pods_omitted"]))
    watch_problems = tuple(WatchProblem(**raw) for raw in document["watch_problems"])
    return ClusterSnapshot(
        str(document["state"]),
        float(document["observed_at"]),
        inventory,
        watch_problems,
        str(document["problem"]),
        str(document["hint"]),
    )


def _parse_pod(document: dict[str, Any]) -> Pod:
    sidecar = document.pop("sidecar")
    containers = tuple(document.pop("containers"))
    return Pod(
        **document, containers=containers, sidecar=None if sidecar is None else SidecarContainer(**sidecar)
    )


def _of_format_1(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    document = rename_fields(raw, _FORMAT_1["seen"])
    document["state"] = "unreachable" if document["state"] == "away" else document["state"]
    document["namespaces"] = [
        rename_fields(entry, _FORMAT_1["namespace"]) for entry in document["namespaces"]
    ]
    document["pods"] = [rename_fields(entry, _FORMAT_1["pod"]) for entry in document["pods"]]
    for pod in document["pods"]:
        if pod["sidecar"] is not None:
            pod["sidecar"] = rename_fields(pod["sidecar"], _FORMAT_1["sidecar"])
    return document
