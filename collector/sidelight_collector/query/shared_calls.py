"""Calls that concurrent queries share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

Result = TypeVar("Result")


class SharedCalls:
    """Runs at most one call per key at a time, for all threads that ask for it.

    Each caller gets the result of a call that began after it asked, as an earlier one may have missed
    something: while a call runs, all who ask share the next.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Hashable, Future[Any]] = {}
        self._next: dict[Hashable, Future[Any]] = {}

    def call(self, key: Hashable, compute: Callable[[], Result]) -> Result:
        """Return what `compute` returns, here or in another thread. Raises what it raises."""
        with self._lock:
            shared: Future[Result] | None = self._next.get(key)
            running = self._running.get(key)
            own: Future[Result] = Future()
            if shared is None:
                self._next[key] = own
        if shared is not None:
            return shared.result()
        if running is not None:
            wait([running])
        with self._lock:
            self._running[key] = self._next.pop(key)
        try:
            result = compute()
        except BaseException as error:
            own.set_exception(error)
            raise
        else:
            own.set_result(result)
            return result
        finally:
            with self._lock:
                if self._running.get(key) is own:
                    del self._running[key]
