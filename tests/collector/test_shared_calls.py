"""Calls that concurrent queries share: each sees what was there when it asked, and few are made."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from sidelight_collector.query.shared_calls import SharedCalls
from tests.processes import eventually

pytestmark = pytest.mark.fast


class CountedLock:
    """A lock that counts how often it was held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.held = 0

    def __enter__(self) -> None:
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.held += 1
        self.lock.release()


class Slow:
    """A call that waits to be let go, and returns its number; the second one fails."""

    def __init__(self) -> None:
        self.began = 0
        self.gate = threading.Semaphore(0)

    def __call__(self) -> int:
        self.began += 1
        mine = self.began
        self.gate.acquire()
        if mine == 2:
            raise OSError("the store is away")
        return mine


def test_who_asks_while_a_call_runs_shares_the_next_and_its_failure() -> None:
    calls, slow, lock = SharedCalls(), Slow(), CountedLock()
    calls._lock = lock  # type: ignore[assignment]
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(calls.call, "key", slow)
        eventually("the first runs", lambda: slow.began == 1)
        before = lock.held
        others = [pool.submit(calls.call, "key", slow) for _ in range(6)]
        eventually("all have asked", lambda: lock.held == before + 6)
        slow.gate.release()
        assert first.result(60) == 1
        slow.gate.release()
        for other in others:
            assert isinstance(other.exception(60), OSError)
        slow.gate.release()
        assert calls.call("key", slow) == slow.began == 3
    assert (calls._next, calls._running) == ({}, {})


def test_other_keys_do_not_wait() -> None:
    calls, slow = SharedCalls(), Slow()
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(calls.call, "key", slow)
        eventually("it runs", lambda: slow.began == 1)
        assert calls.call("other", lambda: 7) == 7
        slow.gate.release()
        assert first.result(60) == 1


def test_nobody_gets_what_began_before_it_asked() -> None:
    """Many threads write and read; every read has all that its thread wrote before."""
    calls = SharedCalls()
    written: list[tuple[int, int]] = []

    def look() -> frozenset[tuple[int, int]]:
        return frozenset(written)

    def work(name: int) -> None:
        for at in range(200):
            written.append((name, at))
            assert (name, at) in calls.call("key", look)

    with ThreadPoolExecutor(8) as pool:
        for each in [pool.submit(work, name) for name in range(8)]:
            each.result(60)
