"""Watches the cluster in one process: a thread for each kind of object."""

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
    WatchScope,
    get_object_key,
    iter_kinds,
    parse_object,
)
from sidelight_collector.kubernetes_discovery.shared_state import WatchProblem
from sidelight_collector.metrics import Metrics
from sidelight_kubernetes.kubernetes_client import (
    AccessDenied,
    ClusterError,
    ClusterUnavailable,
    ResourceVersionExpired,
    WatchEvent,
)
from sidelight_kubernetes.reflector import ListWatchApi, run_reflector

STARTING: Final = "starting"
WATCHING: Final = "watching"
DENIED: Final = "denied"
UNAVAILABLE: Final = "unreachable"
_SERVICE_ACCOUNT_PATTERN: Final = re.compile(r'"system:serviceaccount:([a-z0-9.-]+):([a-z0-9.-]+)"')
_log = structlog.get_logger()


@dataclass(slots=True)
class _WatchStatus:
    """The status of a watch: whether it runs, was listed once, and its last error."""

    is_watching: bool = False
    is_listed: bool = False
    error: ClusterError | None = None


class ClusterInformers:
    """Watches every kind in daemon threads until `close`.

    What they have found may be read from any thread.
    """

    def __init__(self, api: ListWatchApi, namespaces: Sequence[str], max_pods: int, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._cache = ClusterCache(max_pods)
        self._closed = threading.Event()
        self._watches = {
            WatchScope(kind, namespace): _WatchStatus() for kind, namespace in iter_kinds(namespaces)
        }
        for scope in self._watches:
            threading.Thread(
                target=run_reflector,
                args=(api, scope, self, self._closed.wait, random.random),
                name=f"watch {scope.list_path}",
                daemon=True,
            ).start()

    def close(self) -> None:
        """Stop; the threads end at the next event of their watch, or with the process."""
        self._closed.set()

    @property
    def change_token(self) -> tuple[int, str, tuple[WatchProblem, ...]]:
        """A value that differs whenever there is something new to publish."""
        return self._cache.change_count, self.status, self.list_problems()

    @property
    def status(self) -> str:
        """The status of the watch of pods, which everything else needs."""
        pods = [status for scope, status in self._watches.items() if scope.kind is ResourceKind.PODS]
        if any(isinstance(status.error, AccessDenied) for status in pods) and not any(
            status.is_watching for status in pods
        ):
            return DENIED
        if any(isinstance(status.error, ClusterUnavailable) for status in pods):
            return UNAVAILABLE
        return WATCHING if all(status.is_listed or status.error for status in pods) else STARTING

    def get_inventory(self) -> ClusterInventory:
        """Return all objects known so far."""
        with self._lock:
            return self._cache.get_inventory()

    def count_objects(self) -> dict[ResourceKind, int]:
        """Return the number of cached objects of each kind."""
        return {kind: self._cache.count_objects(kind) for kind in ResourceKind}

    def list_problems(self) -> tuple[WatchProblem, ...]:
        """List the kinds that are not watched, why, and what to do."""
        return tuple(
            _build_problem(scope, status.error)
            for scope, status in self._watches.items()
            if status.error is not None and not status.is_watching
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
    """Build the kubectl commands that grant a missing permission."""
    what = f"{scope.kind}.{scope.kind.group}" if scope.kind.group else str(scope.kind)
    match = _SERVICE_ACCOUNT_PATTERN.search(error.message)
    account = f"{match[1]}:{match[2]}" if match else "NAMESPACE:SERVICEACCOUNT"
    name = f"sidelight-{scope.kind}"
    role_kind, namespace_flag = ("role", f" -n {scope.namespace}") if scope.namespace else ("clusterrole", "")
    return (
        "The chart's kubernetes.discovery=true gives it; or by hand: "
        f"kubectl create {role_kind} {name}{namespace_flag} --verb=list,watch --resource={what} && "
        f"kubectl create {role_kind}binding {name}{namespace_flag} --{role_kind}={name} "
        f"--serviceaccount={account}"
    )
