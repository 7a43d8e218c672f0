"""Several compactors leave a day to the one at work on it, and none waits for one that is no more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

import pytest

from sidelight_collector.metrics import Metrics
from sidelight_collector.settings import collector
from sidelight_collector.storage import lease, manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lease import Lease, Leases, key_of
from sidelight_collector.storage.lifecycle.compaction import Compaction
from sidelight_collector.storage.objects import ObjectStore, StoreRefused, StoreUnavailable
from sidelight_collector.storage.segments import event_day
from sidelight_model.window import Window
from tests.collector.counting_store import Counting
from tests.collector.faults import Fault, FaultyStore
from tests.collector.stored_windows import START_NS, stored, window
from tests.collector.test_compaction import RULES, Clock, told

SECONDS = 120.0
DAY = event_day(START_NS)
DAYS = 3
RACED_DAYS = 2
"""Two compactors race from every step of one: the work grows with the square of the days."""


def windows(days: int = DAYS) -> list[list[Window]]:
    """A segment of two windows on each of some days."""
    return [[window(f"main;a{at} 3", at=day * 86_400 + at) for at in range(2)] for day in range(days)]


class Compactor:
    """A compactor with leases; `left` counts days left to others, `made` windows written into blocks."""

    def __init__(self, store: ObjectStore, clock: Clock, *, leased: bool = True) -> None:
        self._metrics = Metrics()
        leases = Leases(store, SECONDS, self._metrics.compaction_skipped.inc, timer=lambda: clock.passed)
        self.compaction = Compaction(
            store,
            self._metrics,
            replace(RULES, min_segments=1),
            interval_seconds=60,
            leases=leases if leased else None,
            clock=lambda: clock.now + DAYS * 86_400,
            timer=lambda: clock.passed,
        )
        self.look = self.compaction.run_once

    @property
    def made(self) -> float:
        return self._metrics.registry.get_sample_value("sidelight_compacted_windows_total") or 0.0

    @property
    def left(self) -> float:
        return (
            self._metrics.registry.get_sample_value("sidelight_compaction_skipped_leased_days_total") or 0.0
        )


def blocks(store: ObjectStore) -> set[str]:
    return {entry.key.rpartition("/")[0] for entry in store.list(manifest.BLOCK_ROOT)}


def leases(store: ObjectStore) -> list[str]:
    return [entry.key for entry in store.list(lease.ROOT)]


def race(*, leased: bool) -> Iterator[tuple[float, int, float]]:
    """A compactor looks, and another before each of its steps in turn: windows made, blocks, days left."""
    steps = 0
    expected = told(stored(*windows(RACED_DAYS))).content
    while True:
        store, clock = stored(*windows(RACED_DAYS)), Clock()
        second = Compactor(store, clock, leased=leased)
        racing = FaultyStore(store, steps, meanwhile=second.look)
        first = Compactor(racing, clock, leased=leased)
        first.look()
        assert told(store).content == expected
        assert leases(store) == []
        if racing.made <= steps:
            return
        yield first.made + second.made, len(blocks(store)), first.left + second.left
        steps += 1


def test_two_compactors_that_race_make_every_block_once() -> None:
    outcomes = list(race(leased=True))
    assert {(made, found) for made, found, _ in outcomes} == {(2.0 * RACED_DAYS, RACED_DAYS)}
    assert max(left for _, _, left in outcomes) == 1
    assert sum(left for _, _, left in outcomes) > len(outcomes) / 2


def test_without_leases_they_make_some_twice_and_drop_them() -> None:
    assert any(found > RACED_DAYS for _, found, _ in race(leased=False))


def test_it_works_on_every_kind_of_store(store: ObjectStore) -> None:
    stored(*windows(), store=store)
    clock = Clock()
    mine, other = (Leases(store, SECONDS, timer=lambda: clock.passed) for _ in range(2))
    for day, ended in mine.iter_acquired([DAY], lambda: False):
        assert list(other.iter_acquired([DAY], lambda: False)) == []
        clock.wait(SECONDS)
        assert not ended()
        assert list(other.iter_acquired([DAY], lambda: False)) == []
        assert leases(store) == [key_of(day)]
    assert leases(store) == []
    assert [day for day, _ in other.iter_acquired([DAY], lambda: False)] == [DAY]
    one = Compactor(store, clock)
    one.look()
    assert (one.made, leases(store)) == (2.0 * DAYS, [])


class Holder:
    """Somebody who holds the lease of DAY, and says so again when told to."""

    def __init__(self, store: ObjectStore, clock: Clock) -> None:
        self._taken = Leases(store, SECONDS, timer=lambda: clock.passed).iter_acquired([DAY], lambda: False)
        _, self.ended = next(self._taken)

    def done(self) -> None:
        assert next(self._taken, None) is None


def takes(leases: Leases) -> bool:
    return [day for day, _ in leases.iter_acquired([DAY], lambda: False)] == [DAY]


def test_a_lease_is_taken_over_once_it_has_not_changed_for_its_time() -> None:
    store, clock = MemoryStore(), Clock()
    holder = Holder(store, clock)
    observer = Leases(store, SECONDS / 1000, timer=lambda: clock.passed)
    clock.wait(10 * SECONDS)
    assert not takes(observer), "its time runs from when it was seen first"
    clock.wait(SECONDS - 1)
    assert not takes(observer), "the time is the holder's, not the observer's"
    clock.wait(1)
    over = observer.iter_acquired([DAY], lambda: False)
    assert next(over)[0] == DAY
    assert holder.ended(), "the holder learns that it lost it"
    assert holder.ended()
    holder.done()
    assert leases(store) == [key_of(DAY)], "and leaves it alone"
    assert next(over, None) is None
    assert leases(store) == []


def test_a_holder_that_is_at_work_is_left_alone_however_long_it_takes() -> None:
    store, clock = MemoryStore(), Clock()
    holder, observer = Holder(store, clock), Leases(store, SECONDS, timer=lambda: clock.passed)
    for _ in range(20):
        clock.wait(SECONDS / 3)
        assert not holder.ended()
        assert not takes(observer)
    holder.done()
    assert takes(observer)


def test_a_lease_is_not_replaced_more_often_than_it_must_be() -> None:
    store, clock = MemoryStore(), Clock()
    counting = FaultyStore(store, -1)
    holder = Holder(counting, clock)
    before = counting.made
    for _ in range(100):
        clock.wait(SECONDS / 100)
        assert not holder.ended()
    assert counting.made - before == 2


@pytest.mark.parametrize("fault", [Fault.UNDONE, Fault.UNTOLD])
def test_a_store_that_fails_a_lease_never_stops_compaction(fault: Fault) -> None:
    steps = 0
    while True:
        store, clock = stored(*windows(RACED_DAYS)), Clock()
        failing = FaultyStore(store, steps, fault)
        one = Compactor(failing, clock)
        one.look()
        if failing.made <= steps:
            break
        one.look()  # a store that fails more than a lease ends the look
        assert {day for day in manifest.list_days(store) if manifest.read(store, day).document.blocks} == {
            DAY + timedelta(days=at) for at in range(RACED_DAYS)
        }, f"step {steps}"
        one.look()
        assert leases(store) == [], f"step {steps}"
        steps += 1
    assert steps > 20


class NoLeases(MemoryStore):
    """A store whose owner forgot to allow leases."""

    def put(self, key: str, content: bytes, *, if_absent: bool = False, if_match: str | None = None) -> str:
        if key.startswith(lease.ROOT):
            raise StoreRefused("AccessDenied")
        return super().put(key, content, if_absent=if_absent, if_match=if_match)


def test_a_store_that_refuses_leases_is_compacted_without() -> None:
    store = stored(*windows(), store=NoLeases())
    one = Compactor(store, Clock())
    one.look()
    assert (one.made, one.left, len(blocks(store))) == (2.0 * DAYS, 0, DAYS)


@pytest.mark.parametrize(
    ("content", "seconds"),
    [
        (b"", SECONDS),
        (b"\xff{", SECONDS),
        (b"[]", SECONDS),
        (b'{"format": 2, "holder": "x", "seconds": 1}', SECONDS),
        (b'{"format": 1, "holder": "x", "seconds": NaN}', SECONDS),
        (b'{"format": 1, "holder": "x", "seconds": -1}', SECONDS),
        (b'{"format": 1, "holder": "x", "seconds": 1e300}', lease.MAX_SECONDS),
    ],
)
def test_a_lease_that_makes_no_sense_is_believed_for_a_time(content: bytes, seconds: float) -> None:
    store, clock = MemoryStore(), Clock()
    store.put(key_of(DAY), content)
    observer = Leases(store, SECONDS, timer=lambda: clock.passed)
    assert not takes(observer)
    clock.wait(seconds - 1)
    assert not takes(observer)
    clock.wait(1)
    assert takes(observer)


def test_a_lost_lease_ends_the_work_on_its_day_and_the_next_day_goes_on() -> None:
    store, clock = MemoryStore(), Clock()
    days = [DAY, DAY + timedelta(days=1)]
    mine = Leases(store, SECONDS, timer=lambda: clock.passed)
    other = Leases(store, SECONDS, timer=lambda: clock.passed)
    worked: list[tuple[date, bool]] = []
    for day, ended in mine.iter_acquired(days, lambda: False):
        if day == DAY:
            assert not takes(other)
            clock.wait(SECONDS)
            taken = other.iter_acquired([DAY], lambda: False)
            next(taken)
        worked.append((day, ended()))
    assert worked == [(days[0], True), (days[1], False)]
    assert leases(store) == [key_of(DAY)], "it is the other's, and not ours to delete"


def test_a_lease_that_somebody_deleted_is_written_again() -> None:
    store, clock = MemoryStore(), Clock()
    holder, other = Holder(store, clock), Leases(store, SECONDS, timer=lambda: clock.passed)
    store.delete(key_of(DAY))
    clock.wait(SECONDS)
    assert not holder.ended()
    assert not takes(other)
    store.delete(key_of(DAY))
    turns = other.iter_acquired([DAY], lambda: False)
    assert next(turns)[0] == DAY
    clock.wait(SECONDS)
    assert holder.ended(), "another has written it since"


def test_a_lease_that_another_holds_is_read_once_a_turn_and_never_written() -> None:
    store, clock = Counting(MemoryStore()), Clock()
    holder, observer = (Lease(store, "k", SECONDS, lambda: clock.passed) for _ in range(2))
    assert holder.try_acquire()
    assert not observer.try_acquire()
    store.reset()
    for _ in range(10):
        clock.wait(1)
        assert holder.try_acquire()
        assert not observer.try_acquire()
    assert (store.gets, store.puts) == ({"k": 10}, {})
    holder.release()
    assert observer.try_acquire()


@pytest.mark.parametrize("fault", [Fault.UNDONE, Fault.UNTOLD])
def test_a_store_that_fails_a_renewal_does_not_lose_the_lease(fault: Fault) -> None:
    store, clock = MemoryStore(), Clock()
    holder = Lease(FaultyStore(store, 1, fault), "k", SECONDS, lambda: clock.passed)
    observer = Lease(store, "k", SECONDS, lambda: clock.passed)
    assert holder.try_acquire()
    clock.wait(SECONDS / 2)
    with pytest.raises(StoreUnavailable):
        holder.try_acquire()
    assert holder.is_held
    assert holder.try_acquire()
    assert not observer.try_acquire()
    holder.release()
    assert list(store.list("")) == []


def test_a_lease_whose_time_is_over_is_not_deleted_by_who_held_it() -> None:
    store, clock = MemoryStore(), Clock()
    mine = Leases(store, SECONDS, timer=lambda: clock.passed)
    for _ in mine.iter_acquired([DAY], lambda: False):
        clock.wait(SECONDS)
    assert leases(store) == [key_of(DAY)]
    assert takes(mine), "it is still ours as far as anybody knows"
    assert leases(store) == []


def test_a_stop_gives_the_lease_back() -> None:
    store, clock = stored(*windows()), Clock()
    stops = iter([False, False, False, True])
    Compactor(store, clock).look(lambda: next(stops, True))
    assert len(blocks(store)) < DAYS
    assert leases(store) == []


def test_a_failing_store_in_the_middle_of_a_day_gives_the_lease_back() -> None:
    store, clock = MemoryStore(), Clock()

    def work() -> None:
        for _ in Leases(store, SECONDS, timer=lambda: clock.passed).iter_acquired([DAY], lambda: False):
            raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        work()
    assert leases(store) == []


def test_equal_leases_are_never_equal_bytes() -> None:
    store, clock = MemoryStore(), Clock()
    mine = Leases(store, SECONDS, timer=lambda: clock.passed)
    seen = set[bytes]()
    for _ in range(3):
        for _ in mine.iter_acquired([DAY], lambda: False):
            seen.add(store.get(key_of(DAY)))
    assert len(seen) == 3
    assert json.loads(seen.pop())["seconds"] == SECONDS


def test_the_longest_lease_that_may_be_set_is_believed() -> None:
    assert collector.MAX_LEASE_SECONDS == lease.MAX_SECONDS
