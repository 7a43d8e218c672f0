"""One process's turn at watching the cluster: a thread for each kind of object, and what they found."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from sidelight_collector.kubernetes_discovery.cluster_cache import ClusterCache, ClusterInventory
from sidelight_collector.kubernetes_discovery.k8s_objects import (
    ApiObject,
    ResourceKind,
    get_object_key,
    iter_kinds,
    parse_object,
)
from sidelight_collector.kubernetes_discovery.reflector import ListWatchApi, WatchScope, run_reflector
from sidelight_collector.kubernetes_discovery.shared_state import WatchProblem
from sidelight_collector.metrics import Metrics
from sidelight_kubernetes.kubernetes_client import (
    AccessDenied,
    ClusterError,
    ClusterUnavailable,
    ResourceVersionExpired,
    WatchEvent,
)

STARTING: Final = "starting"
WATCHING: Final = "watching"
DENIED: Final = "denied"
UNAVAILABLE: Final = "unreachable"
_SERVICE_ACCOUNT_PATTERN: Final = re.compile(r'"system:serviceaccount:([a-z0-9.-]+):([a-z0-9.-]+)"')
_log = structlog.get_logger()


@dataclass(slots=True)
class _WatchStatus:
    """How a feed goes: whether it is followed, was listed once, and what failed last."""

    is_watching: bool = False
    is_listed: bool = False
    error: ClusterError | None = None


class ClusterInformers:
    """Follows every kind in daemon threads until `close`; what it found may be read from any thread."""

    def __init__(self, api: ListWatchApi, namespaces: Sequence[str], max_pods: int, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._cache = ClusterCache(max_pods)
        self._closed = threading.Event()
        self._watches = {
            WatchScope(kind, namespace): _WatchStatus() for kind, namespace in iter_kinds(namespaces)
        }
        for feed in self._watches:
            threading.Thread(
                target=run_reflector,
                args=(api, feed, self, self._closed.wait, random.random),
                name=f"watch {feed.list_path}",
                daemon=True,
            ).start()

    def close(self) -> None:
        """Take nothing more; the threads end when their watch next says something, or with the process."""
        self._closed.set()

    @property
    def change_token(self) -> tuple[int, str, tuple[WatchProblem, ...]]:
        """Something that differs whenever there is something new to tell."""
        return self._cache.change_count, self.status, self.list_problems()

    @property
    def status(self) -> str:
        """How the watch of pods stands, the one that nothing goes without."""
        pods = [fed for feed, fed in self._watches.items() if feed.kind is ResourceKind.PODS]
        if any(isinstance(fed.error, AccessDenied) for fed in pods) and not any(
            fed.is_watching for fed in pods
        ):
            return DENIED
        if any(isinstance(fed.error, ClusterUnavailable) for fed in pods):
            return UNAVAILABLE
        return WATCHING if all(fed.is_listed or fed.error for fed in pods) else STARTING

    def get_inventory(self) -> ClusterInventory:
        """All that was found."""
        with self._lock:
            return self._cache.get_inventory()

    def count_objects(self) -> dict[ResourceKind, int]:
        """How many of each kind are kept."""
        return {kind: self._cache.count_objects(kind) for kind in ResourceKind}

    def list_problems(self) -> tuple[WatchProblem, ...]:
        """What is not followed, why, and what to do."""
        return tuple(
            _build_problem(feed, fed.error)
            for feed, fed in self._watches.items()
            if fed.error is not None and not fed.is_watching
        )

    def replace(self, scope: WatchScope, items: Iterable[ApiObject]) -> None:
        parsed = [(get_object_key(item), parse_object(scope.kind, item)) for item in items]
        with self._lock:
            self._cache.replace(scope.kind, scope.namespace, parsed)
        self._watches[scope].is_listed = True

    def apply(self, scope: WatchScope, event: WatchEvent) -> None:
        key, item = get_object_key(event.object), None
        if event.type in ("ADDED", "MODIFIED"):
            item = parse_object(scope.kind, event.object)
        with self._lock:
            self._cache.apply(scope.kind, event.type, key, item)
        self._metrics.discovery_events.labels(scope.kind).inc()

    def on_watching(self, scope: WatchScope) -> None:
        status = self._watches[scope]
        if status.error is not None and not isinstance(status.error, ResourceVersionExpired):
            _log.info("the cluster is watched again", what=scope.list_path)
        status.is_watching, status.error = True, None

    def on_error(self, scope: WatchScope, error: ClusterError) -> None:
        status = self._watches[scope]
        self._metrics.discovery_errors.labels(_error_label(error)).inc()
        if isinstance(error, ResourceVersionExpired):
            return
        if self._closed.is_set():
            return
        if status.error is None or type(status.error) is not type(error):
            problem = _build_problem(scope, error)
            _log.warning(
                "the cluster is not watched", what=scope.list_path, error=problem.problem, hint=problem.hint
            )
        status.is_watching, status.error = False, error


def _error_label(error: ClusterError) -> str:
    if isinstance(error, AccessDenied):
        return "denied"
    return "expired" if isinstance(error, ResourceVersionExpired) else "unavailable"


def _build_problem(scope: WatchScope, error: ClusterError) -> WatchProblem:
    if not isinstance(error, AccessDenied):
        return WatchProblem(str(scope.kind), scope.kind.group, "", scope.namespace, error.message, error.hint)
    what = f"{scope.kind}.{scope.kind.group}" if scope.kind.group else str(scope.kind)
    where = f"in the namespace {scope.namespace}" if scope.namespace else "in all namespaces"
    return WatchProblem(
        str(scope.kind),
        scope.kind.group,
        error.verb,
        scope.namespace,
        f"the collector may not {error.verb} {what} {where}",
        build_grant_commands(error, scope),
    )


def build_grant_commands(error: AccessDenied, scope: WatchScope) -> str:
    """The commands that give a right that is missing."""
    what = f"{scope.kind}.{scope.kind.group}" if scope.kind.group else str(scope.kind)
    found = _SERVICE_ACCOUNT_PATTERN.search(error.message)
    account = f"{found[1]}:{found[2]}" if found else "NAMESPACE:SERVICEACCOUNT"
    name = f"sidelight-{scope.kind}"
    role_kind, namespace_flag = ("role", f" -n {scope.namespace}") if scope.namespace else ("clusterrole", "")
    return (
        "The chart's kubernetes.discovery=true gives it; or by hand: "
        f"kubectl create {role_kind} {name}{namespace_flag} --verb=list,watch --resource={what} && "
        f"kubectl create {role_kind}binding {name}{namespace_flag} --{role_kind}={name} "
        f"--serviceaccount={account}"
    )
