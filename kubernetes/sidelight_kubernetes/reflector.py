"""Lists and then watches one kind of object, in a thread, until it is stopped.

A watch that ends is resumed where it ended. If the server no longer has that version, the thread lists
again. If the server is unavailable, the thread retries with growing, randomized delays, so that not all
clients return at the same moment. If access is denied, it retries every minute, because permissions may be
granted while it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Protocol, TypeVar

from sidelight_kubernetes.kubernetes_client import (
    AccessDenied,
    ClusterError,
    NotFoundInCluster,
    ResourceVersionExpired,
    WatchEvent,
)

WATCH_TIMEOUT_SECONDS: Final = 290
"""The server ends a watch after this time, so that a hanging one is noticed."""
DENIED_RETRY_SECONDS: Final = 60.0
FIRST_BACKOFF_SECONDS: Final = 1.0
MAX_BACKOFF_SECONDS: Final = 30.0


class ListResult(Protocol):
    """A list, page by page, and the version from which to watch."""

    version: str

    def __iter__(self) -> Iterator[Any]: ...


class ListWatchApi(Protocol):
    """The part of the API server's client that a reflector needs."""

    def pages(self, path: str, /, **query: str) -> ListResult: ...

    def watch(
        self, path: str, version: str, /, *, timeout_seconds: int, **query: str
    ) -> Iterator[WatchEvent]: ...


class ListScope(Protocol):
    """The objects to follow: the path of their list, and query parameters for it."""

    @property
    def list_path(self) -> str: ...

    @property
    def selectors(self) -> Mapping[str, str]: ...


Scope = TypeVar("Scope", bound=ListScope)
HandledScope = TypeVar("HandledScope", bound=ListScope, contravariant=True)


class ReflectorHandler(Protocol[HandledScope]):
    """Receives lists, events and errors."""

    def replace(self, scope: HandledScope, items: Iterable[Mapping[str, Any]]) -> None: ...

    def apply(self, scope: HandledScope, event: WatchEvent) -> None: ...

    def on_error(self, scope: HandledScope, error: ClusterError) -> None: ...

    def on_watching(self, scope: HandledScope) -> None: ...


def run_reflector(
    api: ListWatchApi,
    scope: Scope,
    handler: ReflectorHandler[Scope],
    wait: Callable[[float], bool],
    rng: Callable[[], float],
) -> None:
    """Follow a kind of object until `wait` returns True.

    `wait` sleeps for a number of seconds and returns whether to stop; `rng` returns a number from 0 to 1.
    """
    version, attempt = "", 0
    while True:
        try:
            if not version:
                items = api.pages(scope.list_path, **scope.selectors)
                handler.replace(scope, items)
                version = items.version
            handler.on_watching(scope)
            attempt = 0
            events = api.watch(
                scope.list_path, version, timeout_seconds=WATCH_TIMEOUT_SECONDS, **scope.selectors
            )
            for event in events:
                version = event.version or version
                handler.apply(scope, event)
                if wait(0.0):
                    return
            # A watch may end at once, again and again: pause, so as not to overload the server.
            pause = rng() * FIRST_BACKOFF_SECONDS
        except ResourceVersionExpired as error:
            handler.on_error(scope, error)
            version, pause = "", rng() * FIRST_BACKOFF_SECONDS
        except (AccessDenied, NotFoundInCluster) as error:
            handler.on_error(scope, error)
            version, pause = "", DENIED_RETRY_SECONDS
        except ClusterError as error:
            handler.on_error(scope, error)
            attempt += 1
            max_pause = min(MAX_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** min(attempt, 10))
            pause = max_pause * (0.5 + rng() / 2)
        if wait(pause):
            return
