"""When windows are stored, with which others, and who is told."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.ingest.batch import ArrivalHistory, FlushPolicy, seconds_until_due
from sidelight_collector.ingest.dedup import DedupCache
from sidelight_collector.ingest.memory_budget import (
    MAX_RETRY_SECONDS,
    MIN_REQUEST_BYTES,
    MIN_RETRY_SECONDS,
    PACE_SECONDS,
    MemoryBudget,
    Overloaded,
    RetryPacer,
)
from sidelight_collector.ingest.segment_writer import SegmentWriter, ShuttingDown
from sidelight_collector.ingest.stats import IngestStats
from sidelight_collector.metrics import Metrics
from sidelight_collector.stack_hashing import hash_window
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.segments import list_segments, read_segment
from sidelight_model.window import Window

Make = Callable[..., Window]
DAY_NS = 86_400 * 10**9
MIDNIGHT_NS = 20_000 * DAY_NS
SECONDS = 120.0
NEVER = FlushPolicy(3600.0, 1 << 30)
AT_ONCE = FlushPolicy(0.0, 1 << 30)


def segments(store: MemoryStore) -> list[list[str]]:
    """Ids of windows, segment by segment."""
    refs = list_segments(store, 0, 2**63 - 1)
    return [sorted(read_segment(store, ref, "profiles")["wid"].to_pylist()) for ref in refs]


@asynccontextmanager
async def flushing(store: MemoryStore, rule: FlushPolicy) -> AsyncIterator[SegmentWriter]:
    flusher = SegmentWriter(store, rule, Metrics(), IngestStats(), DedupCache(1000))
    async with asyncio.timeout(SECONDS), asyncio.TaskGroup() as group:
        running = group.create_task(flusher.run())
        yield flusher
        flusher.close()
        await running


def test_a_batch_is_due_when_its_first_window_waited_long_enough() -> None:
    rule = FlushPolicy(1.0, 100)
    assert seconds_until_due(10.0, 10.0, 0, rule) == 1.0
    assert seconds_until_due(10.75, 10.0, 99, rule) == 0.25
    assert seconds_until_due(11.0, 10.0, 99, rule) == 0.0


def test_a_batch_is_due_when_there_is_enough_text() -> None:
    assert seconds_until_due(10.0, 10.0, 100, FlushPolicy(1.0, 100)) == 0.0


def test_windows_of_one_sender_wait_for_nobody() -> None:
    assert seconds_until_due(10.0, 10.0, 0, NEVER, has_concurrent_senders=False) == 0.0
    history = ArrivalHistory(10.0)
    for at in range(5):
        history.record("a", at, float(at), has_pending=False)
        assert not history.has_concurrent_senders(float(at))
    imported = ArrivalHistory(10.0)
    for at in range(5):
        imported.record(f"pod-{at}", 1, float(at), has_pending=False)  # over one connection
        assert not imported.has_concurrent_senders(float(at))


def test_senders_are_concurrent_until_one_was_alone_for_long() -> None:
    history = ArrivalHistory(10.0)
    history.record("a", 1, 0.0, has_pending=False)
    history.record("b", 2, 10.0, has_pending=False)
    assert history.has_concurrent_senders(20.0)
    assert not history.has_concurrent_senders(20.1)
    history.record("b", 2, 30.0, has_pending=True)
    assert history.has_concurrent_senders(30.0)
    late = ArrivalHistory(10.0)
    late.record("a", 1, 0.0, has_pending=False)
    late.record("b", 2, 10.1, has_pending=False)
    assert not late.has_concurrent_senders(10.1)


async def test_windows_sent_one_after_another_are_stored_at_once(make_window: Make) -> None:
    store = MemoryStore()
    windows = [make_window(start_ns=MIDNIGHT_NS + number, pod="p") for number in range(5)]
    async with flushing(store, NEVER) as flusher:
        for connection, window in enumerate(windows):
            await flusher.submit([hash_window(window)], 10, connection)
    assert sorted(segments(store)) == sorted([window.id] for window in windows)


async def test_windows_of_several_senders_wait_for_one_another(make_window: Make) -> None:
    store, windows = MemoryStore(), [make_window(pod=pod) for pod in "abc"]
    async with flushing(store, NEVER) as flusher, asyncio.TaskGroup() as group:
        await flusher.submit([hash_window(windows[0])], 10, 0)
        for connection, window in enumerate(windows[1:], 1):
            group.create_task(flusher.submit([hash_window(window)], 10, connection))
        await asyncio.sleep(0)
        flusher.close()
    assert sorted(map(len, segments(store))) == [1, 2]


async def test_windows_that_wait_together_are_one_segment(make_window: Make) -> None:
    store, windows = MemoryStore(), [make_window(start_ns=MIDNIGHT_NS + n) for n in range(20)]
    async with flushing(store, NEVER) as flusher, asyncio.TaskGroup() as group:
        for window in windows:
            group.create_task(flusher.submit([hash_window(window)], 10))
        await asyncio.sleep(0)
        assert segments(store) == []
        flusher.close()
    assert segments(store) == [sorted(window.id for window in windows)]


async def test_enough_text_ends_the_wait(make_window: Make) -> None:
    store = MemoryStore()
    async with flushing(store, FlushPolicy(3600.0, 100)) as flusher, asyncio.TaskGroup() as group:
        first = group.create_task(flusher.submit([hash_window(make_window())], 60))
        second = group.create_task(flusher.submit([hash_window(make_window())], 40))
        await asyncio.wait([first, second])
        assert len(segments(store)) == 1


async def test_each_day_of_the_event_has_its_own_segment(make_window: Make) -> None:
    store = MemoryStore()
    before = make_window(start_ns=MIDNIGHT_NS - 1)
    after = make_window(start_ns=MIDNIGHT_NS)
    async with flushing(store, AT_ONCE) as flusher:
        receipt = await flusher.submit([hash_window(after), hash_window(before)], 20)
    assert receipt.accepted == [after.id, before.id]
    assert segments(store) == [[before.id], [after.id]]


async def test_a_client_that_goes_away_does_not_take_the_windows_of_others_with_it(make_window: Make) -> None:
    store, mine, other = MemoryStore(), make_window(), make_window()
    async with flushing(store, NEVER) as flusher, asyncio.TaskGroup() as group:
        gone = group.create_task(flusher.submit([hash_window(mine)], 10))
        stays = group.create_task(flusher.submit([hash_window(other)], 10))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.wait([gone])
        flusher.close()
        assert (await stays).accepted == [other.id]
    assert segments(store) == [sorted([mine.id, other.id])]


async def test_a_closed_flusher_takes_nothing(make_window: Make) -> None:
    async with flushing(MemoryStore(), AT_ONCE) as flusher:
        flusher.close()
        with pytest.raises(ShuttingDown):
            await flusher.submit([hash_window(make_window())], 10)


async def test_a_defect_while_storing_ends_the_root_task_and_everybody_is_told(make_window: Make) -> None:
    class Broken(MemoryStore):
        def put(self, *_: object, **__: object) -> str:
            raise RuntimeError("a defect")

    flusher = SegmentWriter(Broken(), AT_ONCE, Metrics(), IngestStats(), DedupCache(10))
    running = asyncio.ensure_future(flusher.run())
    with pytest.raises(ShuttingDown):
        await flusher.submit([hash_window(make_window())], 10)
    with pytest.raises(ExceptionGroup):
        await running


async def test_a_slow_write_does_not_hold_up_the_next(make_window: Make) -> None:
    class FirstIsSlow(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.go = threading.Event()
            self.writes = 0

        def put(self, key: str, content: bytes, **conditions: object) -> str:
            self.writes += 1
            if self.writes == 1:
                assert self.go.wait(SECONDS)
            return super().put(key, content)

    store = FirstIsSlow()
    async with flushing(store, AT_ONCE) as flusher, asyncio.TaskGroup() as group:
        slow = group.create_task(flusher.submit([hash_window(make_window())], 10))
        while not store.writes:
            await asyncio.sleep(0.001)
        await flusher.submit([hash_window(make_window())], 10)
        assert not slow.done()
        store.go.set()


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 9))), st.integers(1, 4))
def test_the_ids_remembered_are_the_last_ones_and_no_more_than_there_is_room_for(
    came: list[tuple[str, int]], capacity: int
) -> None:
    recent = DedupCache(capacity)
    model: dict[str, int] = {}
    for window_id, digest in came:
        recent.add(window_id, digest)
        model.setdefault(window_id, digest)
        while len(model) > capacity:
            del model[next(iter(model))]
        assert {
            one: recent.get_digest(one) for one in "abcdef" if recent.get_digest(one) is not None
        } == model
        assert len(recent) <= capacity


def test_what_is_recalled_never_pushes_out_what_came_since() -> None:
    recent = DedupCache(3)
    recent.add("new", 1)
    recent.load([("new", 9), ("c", 3), ("b", 2), ("a", 1)])
    assert [recent.get_digest(one) for one in ("new", "c", "b", "a")] == [1, 3, 2, None]
    recent.add("newer", 5)
    assert [recent.get_digest(one) for one in ("newer", "new", "c", "b")] == [5, 1, 3, None]


def test_a_budget_gives_back_what_a_request_held_also_when_it_fails() -> None:
    seen: list[int] = []
    budget = MemoryBudget(2 * MIN_REQUEST_BYTES + 100, seen.append)
    with budget.reserve() as first:
        first.resize(MIN_REQUEST_BYTES + 100)
        with budget.reserve() as second, pytest.raises(Overloaded):
            second.resize(MIN_REQUEST_BYTES + 1)
        with pytest.raises(RuntimeError), budget.reserve():
            raise RuntimeError
        with budget.reserve(), pytest.raises(Overloaded), budget.reserve():
            raise AssertionError("there is no room for a third request")
        assert budget.used_bytes == MIN_REQUEST_BYTES + 100
    assert budget.used_bytes == seen[-1] == 0
    assert max(seen) <= 2 * MIN_REQUEST_BYTES + 100


async def test_requests_get_memory_in_order_of_arrival_or_give_up() -> None:
    unit = MIN_REQUEST_BYTES
    used: list[int] = []
    budget = MemoryBudget(16 * unit, used.append, max_wait_seconds=600)
    order: list[str] = []
    leave: dict[str, asyncio.Event] = {name: asyncio.Event() for name in "abcdef"}

    async def request(name: str, units: int) -> None:
        with budget.reserve() as reservation:
            await reservation.grow(units * unit)
            order.append(name)
            await leave[name].wait()

    async def settled() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    tasks = {}
    # Four of them may wait.
    for name, units in (("a", 10), ("b", 16), ("c", 1), ("d", 1), ("e", 1)):
        tasks[name] = asyncio.create_task(request(name, units))
        await settled()
    assert order == ["a"]
    assert budget.used_bytes == (10 + 4) * unit
    with pytest.raises(Overloaded, match="of at most"):
        await request("f", 1)
    assert budget.used_bytes == (10 + 4) * unit
    # One that leaves lets in who comes after it.
    tasks["b"].cancel()
    await settled()
    assert order == ["a", "c", "d", "e"]
    assert budget.used_bytes == 13 * unit
    tasks["b"] = asyncio.create_task(request("b", 16))
    await settled()
    for name in "acde":
        leave[name].set()
    await settled()
    assert order == ["a", "c", "d", "e", "b"]
    # Cancelled as its turn comes, it holds nothing.
    tasks["f"] = asyncio.create_task(request("f", 16))
    await settled()
    leave["b"].set()
    while not tasks["b"].done():
        await asyncio.sleep(0)
    assert order[-1] == "b"
    tasks["f"].cancel()
    await asyncio.gather(*tasks.values(), return_exceptions=True)
    assert budget.used_bytes == used[-1] == 0
    assert max(used) <= 20 * unit


async def test_a_request_waits_no_longer_than_allowed_and_then_holds_nothing() -> None:
    budget = MemoryBudget(4 * MIN_REQUEST_BYTES, lambda _: None, max_wait_seconds=0.05)
    with budget.reserve() as first:
        await first.grow(4 * MIN_REQUEST_BYTES)
        with pytest.raises(Overloaded), budget.reserve() as second:
            await second.grow(MIN_REQUEST_BYTES)
        assert budget.used_bytes == 4 * MIN_REQUEST_BYTES
    with budget.reserve() as third:
        await third.grow(4 * MIN_REQUEST_BYTES)
        with pytest.raises(Overloaded):  # what may wait is not for those that are admitted
            third.resize(4 * MIN_REQUEST_BYTES + 1)
    assert budget.used_bytes == 0


def test_clients_wait_longer_while_more_are_refused_than_served_and_shorter_afterwards() -> None:
    now = 0.0
    pacer = RetryPacer(lambda: now)

    def refuse_for(seconds: float, *, served_for_each: int) -> int:
        nonlocal now
        end, told = now + seconds, 0
        while now < end:
            now += 0.25
            for _ in range(served_for_each):
                pacer.finish()
            told = pacer.refuse()
        return told

    assert refuse_for(PACE_SECONDS - 0.25, served_for_each=0) == MIN_RETRY_SECONDS
    assert refuse_for(PACE_SECONDS, served_for_each=0) == 2 * MIN_RETRY_SECONDS
    assert refuse_for(20 * PACE_SECONDS, served_for_each=0) == MAX_RETRY_SECONDS
    assert refuse_for(20 * PACE_SECONDS, served_for_each=1) == MAX_RETRY_SECONDS
    assert MIN_RETRY_SECONDS < refuse_for(PACE_SECONDS, served_for_each=10) < MAX_RETRY_SECONDS
    assert refuse_for(20 * PACE_SECONDS, served_for_each=10) == MIN_RETRY_SECONDS


def test_a_budget_says_how_long_to_wait_by_the_requests_that_it_serves_and_refuses() -> None:
    now = 0.0
    budget = MemoryBudget(MIN_REQUEST_BYTES, lambda _: None, clock=lambda: now)

    def refuse(times: int) -> int:
        nonlocal now
        seconds = 0
        with budget.reserve():
            for _ in range(times):
                now += PACE_SECONDS / 8
                with pytest.raises(Overloaded) as refused, budget.reserve():
                    raise AssertionError("there is no room for it")
                seconds = refused.value.retry_after_seconds
        return seconds

    assert refuse(30) > MIN_RETRY_SECONDS
    for _ in range(20):
        for _ in range(100):
            with budget.reserve():
                pass
        longest = refuse(8)
    assert longest == MIN_RETRY_SECONDS


def test_the_senders_remembered_are_bounded_and_the_latest_come_first() -> None:
    activity = IngestStats(max_sidecars=2)
    for at, pod in enumerate(["a", "b", "a", "c"]):
        activity.record_acknowledged([(pod, "shop")], at)
    assert [(one.pod, one.last_seen_ns) for one in activity.list_sidecars()] == [("c", 3), ("a", 2)]
    assert (activity.windows_acknowledged, activity.last_ingest_ns) == (4, 3)
