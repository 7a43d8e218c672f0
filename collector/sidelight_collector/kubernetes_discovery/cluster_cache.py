"""Cache of a cluster's objects: a list of each kind, then its watch events.

Any sequence of events gives the same cache as a fresh list. An object that is no longer listed is removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from sidelight_collector.kubernetes_discovery.k8s_objects import (
    CachedObject,
    Namespace,
    ObjectKey,
    Pod,
    ResourceKind,
    Revision,
    Workload,
)


@dataclass(frozen=True, slots=True)
class ClusterInventory:
    """The objects known at a moment; pods beyond the limit are only counted."""

    pods: tuple[Pod, ...] = ()
    workloads: tuple[Workload, ...] = ()
    revisions: tuple[Revision, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    skipped_pods: int = 0


@dataclass(slots=True)
class ClusterCache:
    """The objects of each kind by namespace and name, with at most `max_pods` pods.

    `change_count` counts the events and lists that changed an object. For one thread at a time.
    """

    max_pods: int
    change_count: int = 0
    _objects: dict[ResourceKind, dict[ObjectKey, CachedObject]] = field(
        default_factory=lambda: {kind: {} for kind in ResourceKind}
    )
    _skipped_pods: set[ObjectKey] = field(default_factory=set)

    def apply(self, kind: ResourceKind, event: str, key: ObjectKey, item: CachedObject | None) -> None:
        """Apply a watch event: ADDED, MODIFIED or DELETED; others have no effect."""
        if event in ("ADDED", "MODIFIED"):
            self._put(kind, key, item)
        elif event == "DELETED":
            self._remove(kind, key)

    def replace(
        self, kind: ResourceKind, namespace: str, items: Iterable[tuple[ObjectKey, CachedObject | None]]
    ) -> None:
        """Replace all objects of a kind in a namespace (empty: all) with a list.

        Objects that are not in the list are removed.
        """
        listed: set[ObjectKey] = set()
        for key, item in items:
            self._put(kind, key, item)
            listed.add(key)
        skipped = self._skipped_pods if kind is ResourceKind.PODS else set()
        for key in [*self._objects[kind], *skipped]:
            if key not in listed and (not namespace or key[0] == namespace):
                self._remove(kind, key)

    def get_inventory(self) -> ClusterInventory:
        """Return all objects, each kind sorted by name."""
        return ClusterInventory(
            cast("tuple[Pod, ...]", self._list_sorted(ResourceKind.PODS)),
            cast(
                "tuple[Workload, ...]",
                self._list_sorted(ResourceKind.DEPLOYMENTS)
                + self._list_sorted(ResourceKind.STATEFULSETS)
                + self._list_sorted(ResourceKind.DAEMONSETS),
            ),
            cast(
                "tuple[Revision, ...]",
                self._list_sorted(ResourceKind.REPLICASETS)
                + self._list_sorted(ResourceKind.CONTROLLERREVISIONS),
            ),
            cast("tuple[Namespace, ...]", self._list_sorted(ResourceKind.NAMESPACES)),
            len(self._skipped_pods),
        )

    def count_objects(self, kind: ResourceKind) -> int:
        """Return the number of cached objects of a kind."""
        return len(self._objects[kind])

    def _put(self, kind: ResourceKind, key: ObjectKey, item: CachedObject | None) -> None:
        cached = self._objects[kind]
        if item is None:
            self._remove(kind, key)
            return
        if kind is ResourceKind.PODS and key not in cached and len(cached) >= self.max_pods:
            self._skipped_pods.add(key)
            return
        if cached.get(key) != item:
            cached[key] = item
            self.change_count += 1
        self._skipped_pods.discard(key)

    def _remove(self, kind: ResourceKind, key: ObjectKey) -> None:
        if kind is ResourceKind.PODS:
            self._skipped_pods.discard(key)
        if self._objects[kind].pop(key, None) is not None:
            self.change_count += 1

    def _list_sorted(self, kind: ResourceKind) -> tuple[Any, ...]:
        return tuple(item for _, item in sorted(self._objects[kind].items()))
