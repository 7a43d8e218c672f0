"""Follows one kind of object: list, then watch, for as long as the process lives; in a thread of its own.

A watch that ends is begun again where it ended. One that the server no longer knows where to go on from
begins with a new list. A server that is away is asked again after pauses that grow, with luck, so that not
everybody comes back in the same moment. What is not allowed is tried again every minute: rights are given
while programs run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sidelight_collector.kubernetes_discovery.k8s_objects import Kind, Object
from sidelight_kubernetes.kubernetes_client import ClusterError, Denied, Event, Expired, NotFoundInCluster

WATCH_SECONDS: Final = 290
"""A server ends a watch after this time, so that one that hangs is found out."""
DENIED_SECONDS: Final = 60.0
FIRST_PAUSE_SECONDS: Final = 1.0
MOST_PAUSE_SECONDS: Final = 30.0


class Listed(Protocol):
    """A list, page by page, and where a watch may begin."""

    version: str

    def __iter__(self) -> Iterator[Any]: ...


class Api(Protocol):
    """What is asked of an API server."""

    def pages(self, path: str, /, **query: str) -> Listed: ...

    def watch(self, path: str, version: str, /, *, timeout_seconds: int, **query: str) -> Iterator[Event]: ...


@dataclass(frozen=True, slots=True)
class Feed:
    """One kind of object, in one namespace or (empty) all."""

    kind: Kind
    namespace: str

    @property
    def path(self) -> str:
        return self.kind.path(self.namespace)


class Sink(Protocol):
    """Takes what is found."""

    def replace(self, feed: Feed, items: Iterable[Object]) -> None: ...

    def apply(self, feed: Feed, event: Event) -> None: ...

    def failed(self, feed: Feed, error: ClusterError) -> None: ...

    def following(self, feed: Feed) -> None: ...


def follow(
    api: Api, feed: Feed, sink: Sink, wait: Callable[[float], bool], luck: Callable[[], float]
) -> None:
    """Follow until `wait` (which sleeps so many seconds) says that it is over; `luck` gives 0 to 1."""
    version, attempt = "", 0
    while True:
        try:
            if not version:
                listed = api.pages(feed.path)
                sink.replace(feed, listed)
                version = listed.version
            sink.following(feed)
            attempt = 0
            for event in api.watch(feed.path, version, timeout_seconds=WATCH_SECONDS):
                version = event.version or version
                sink.apply(feed, event)
                if wait(0.0):
                    return
            # One that ends at once, again and again, must not be asked for without a pause.
            pause = luck() * FIRST_PAUSE_SECONDS
        except Expired as error:
            sink.failed(feed, error)
            version, pause = "", luck() * FIRST_PAUSE_SECONDS
        except (Denied, NotFoundInCluster) as error:
            sink.failed(feed, error)
            version, pause = "", DENIED_SECONDS
        except ClusterError as error:
            sink.failed(feed, error)
            attempt += 1
            longest = min(MOST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** min(attempt, 10))
            pause = longest * (0.5 + luck() / 2)
        if wait(pause):
            return
