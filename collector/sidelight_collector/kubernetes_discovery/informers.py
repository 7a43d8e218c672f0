"""One process's turn at watching the cluster: a thread for each kind of object, and what they found."""

from __future__ import annotations

import random
import re
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import structlog

from sidelight_collector.kubernetes_discovery.cluster_cache import Book, Known
from sidelight_collector.kubernetes_discovery.k8s_objects import Kind, Object, all_kinds, key_of, read
from sidelight_collector.kubernetes_discovery.reflector import Api, Feed, follow
from sidelight_collector.kubernetes_discovery.shared_state import Missing
from sidelight_collector.metrics import Metrics
from sidelight_kubernetes.kubernetes_client import ClusterAway, ClusterError, Denied, Event, Expired

STARTING: Final = "starting"
WATCHING: Final = "watching"
DENIED: Final = "denied"
AWAY: Final = "unreachable"
_ACCOUNT: Final = re.compile(r'"system:serviceaccount:([a-z0-9.-]+):([a-z0-9.-]+)"')
_log = structlog.get_logger()


@dataclass(slots=True)
class _Fed:
    """How a feed goes: whether it is followed, was listed once, and what failed last."""

    following: bool = False
    listed: bool = False
    failed: ClusterError | None = None


class Session:
    """Follows every kind in daemon threads until `close`; what it found may be read from any thread."""

    def __init__(self, api: Api, namespaces: Sequence[str], most_pods: int, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._book = Book(most_pods)
        self._over = threading.Event()
        self._fed = {Feed(kind, namespace): _Fed() for kind, namespace in all_kinds(namespaces)}
        for feed in self._fed:
            threading.Thread(
                target=follow,
                args=(api, feed, self, self._over.wait, random.random),
                name=f"watch {feed.path}",
                daemon=True,
            ).start()

    def close(self) -> None:
        """Take nothing more; the threads end when their watch next says something, or with the process."""
        self._over.set()

    @property
    def changes(self) -> tuple[int, str, tuple[Missing, ...]]:
        """Something that differs whenever there is something new to tell."""
        return self._book.changes, self.state, self.missing()

    @property
    def state(self) -> str:
        """How the watch of pods stands, the one that nothing goes without."""
        pods = [fed for feed, fed in self._fed.items() if feed.kind is Kind.PODS]
        if any(isinstance(fed.failed, Denied) for fed in pods) and not any(fed.following for fed in pods):
            return DENIED
        if any(isinstance(fed.failed, ClusterAway) for fed in pods):
            return AWAY
        return WATCHING if all(fed.listed or fed.failed for fed in pods) else STARTING

    def known(self) -> Known:
        """All that was found."""
        with self._lock:
            return self._book.known()

    def counts(self) -> dict[Kind, int]:
        """How many of each kind are kept."""
        return {kind: self._book.count(kind) for kind in Kind}

    def missing(self) -> tuple[Missing, ...]:
        """What is not followed, why, and what to do."""
        return tuple(
            _missing(feed, fed.failed)
            for feed, fed in self._fed.items()
            if fed.failed is not None and not fed.following
        )

    def replace(self, feed: Feed, items: Iterable[Object]) -> None:
        found = [(key_of(item), read(feed.kind, item)) for item in items]
        with self._lock:
            self._book.replace(feed.kind, feed.namespace, found)
        self._fed[feed].listed = True

    def apply(self, feed: Feed, event: Event) -> None:
        key, found = key_of(event.object), None
        if event.kind in ("ADDED", "MODIFIED"):
            found = read(feed.kind, event.object)
        with self._lock:
            self._book.apply(feed.kind, event.kind, key, found)
        self._metrics.discovery_events.labels(feed.kind).inc()

    def following(self, feed: Feed) -> None:
        fed = self._fed[feed]
        if fed.failed is not None and not isinstance(fed.failed, Expired):
            _log.info("the cluster is watched again", what=feed.path)
        fed.following, fed.failed = True, None

    def failed(self, feed: Feed, error: ClusterError) -> None:
        fed = self._fed[feed]
        self._metrics.discovery_errors.labels(_cause(error)).inc()
        if isinstance(error, Expired):
            return
        if self._over.is_set():
            return
        if fed.failed is None or type(fed.failed) is not type(error):
            told = _missing(feed, error)
            _log.warning("the cluster is not watched", what=feed.path, error=told.problem, hint=told.hint)
        fed.following, fed.failed = False, error


def _cause(error: ClusterError) -> str:
    if isinstance(error, Denied):
        return "denied"
    return "expired" if isinstance(error, Expired) else "unavailable"


def _missing(feed: Feed, error: ClusterError) -> Missing:
    if not isinstance(error, Denied):
        return Missing(str(feed.kind), feed.kind.group, "", feed.namespace, error.message, error.hint)
    what = f"{feed.kind}.{feed.kind.group}" if feed.kind.group else str(feed.kind)
    where = f"in the namespace {feed.namespace}" if feed.namespace else "in all namespaces"
    return Missing(
        str(feed.kind),
        feed.kind.group,
        error.verb,
        feed.namespace,
        f"the collector may not {error.verb} {what} {where}",
        granting(error, feed),
    )


def granting(error: Denied, feed: Feed) -> str:
    """The commands that give a right that is missing."""
    what = f"{feed.kind}.{feed.kind.group}" if feed.kind.group else str(feed.kind)
    found = _ACCOUNT.search(error.message)
    account = f"{found[1]}:{found[2]}" if found else "NAMESPACE:SERVICEACCOUNT"
    name = f"sidelight-{feed.kind}"
    kind, scope = ("role", f" -n {feed.namespace}") if feed.namespace else ("clusterrole", "")
    return (
        "The chart's kubernetes.discovery=true gives it; or by hand: "
        f"kubectl create {kind} {name}{scope} --verb=list,watch --resource={what} && "
        f"kubectl create {kind}binding {name}{scope} --{kind}={name} --serviceaccount={account}"
    )
