"""All that is known of a cluster: a list of each kind, then what happens to it.

Any run of events gives what a fresh list gives; what is no longer listed is gone.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, cast

from sidelight_collector.kubernetes_discovery.k8s_objects import (
    Kept,
    Key,
    Kind,
    Namespace,
    Pod,
    Revision,
    Workload,
)


@dataclass(frozen=True, slots=True)
class Known:
    """What is known at a moment; pods that were too many to keep are only counted."""

    pods: tuple[Pod, ...] = ()
    workloads: tuple[Workload, ...] = ()
    revisions: tuple[Revision, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    left_out: int = 0


@dataclass(slots=True)
class Book:
    """The objects of each kind by namespace and name, of which at most `most_pods` pods.

    `changes` counts what made a difference. For one thread at a time.
    """

    most_pods: int
    changes: int = 0
    _kept: dict[Kind, dict[Key, Kept]] = field(default_factory=lambda: {kind: {} for kind in Kind})
    _left_out: set[Key] = field(default_factory=set)

    def apply(self, kind: Kind, event: str, key: Key, found: Kept | None) -> None:
        """Take what a watch told: ADDED, MODIFIED or DELETED; anything else changes nothing."""
        if event in ("ADDED", "MODIFIED"):
            self._keep(kind, key, found)
        elif event == "DELETED":
            self._drop(kind, key)

    def replace(self, kind: Kind, namespace: str, items: Iterable[tuple[Key, Kept | None]]) -> None:
        """Take a whole list of one namespace, or (empty) of all; what is not in it is gone."""
        there: set[Key] = set()
        for key, found in items:
            self._keep(kind, key, found)
            there.add(key)
        left = self._left_out if kind is Kind.PODS else set()
        for key in [*self._kept[kind], *left]:
            if key not in there and (not namespace or key[0] == namespace):
                self._drop(kind, key)

    def known(self) -> Known:
        """All of it, each kind in the order of names."""
        return Known(
            cast("tuple[Pod, ...]", self._sorted(Kind.PODS)),
            cast(
                "tuple[Workload, ...]",
                self._sorted(Kind.DEPLOYMENTS)
                + self._sorted(Kind.STATEFULSETS)
                + self._sorted(Kind.DAEMONSETS),
            ),
            cast(
                "tuple[Revision, ...]",
                self._sorted(Kind.REPLICASETS) + self._sorted(Kind.CONTROLLERREVISIONS),
            ),
            cast("tuple[Namespace, ...]", self._sorted(Kind.NAMESPACES)),
            len(self._left_out),
        )

    def count(self, kind: Kind) -> int:
        """How many of a kind are kept."""
        return len(self._kept[kind])

    def _keep(self, kind: Kind, key: Key, found: Kept | None) -> None:
        kept = self._kept[kind]
        if found is None:
            self._drop(kind, key)
            return
        if kind is Kind.PODS and key not in kept and len(kept) >= self.most_pods:
            self._left_out.add(key)
            return
        if kept.get(key) != found:
            kept[key] = found
            self.changes += 1
        self._left_out.discard(key)

    def _drop(self, kind: Kind, key: Key) -> None:
        if kind is Kind.PODS:
            self._left_out.discard(key)
        if self._kept[kind].pop(key, None) is not None:
            self.changes += 1

    def _sorted(self, kind: Kind) -> tuple[Any, ...]:
        return tuple(kept for _, kept in sorted(self._kept[kind].items()))
