"""What was decoded is kept in memory, within a bound; only what is new is read."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.answers.flame import FlameGraph, query_flame_graph
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_cache import TableCache
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_model.counts import ProfileType
from tests.collector.stored_windows import question, stored, window


class Read(MemoryStore):
    """A store that counts what is read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.gets: Counter[str] = Counter()

    def get(self, key: str) -> bytes:
        self.gets[key] += 1
        return super().get(key)


def drawn(engine: QueryEngine) -> FlameGraph:
    return asyncio.run(
        engine.run(
            lambda reading: query_flame_graph(
                reading, [question()], ProfileType.WALL, lines=False, nodes=None, max_nodes=99
            )
        )
    )


def test_a_question_asked_again_reads_only_segments_that_are_new() -> None:
    store = Read()
    stored([window("main 1")], [window("main 2", at=10)], store=store)
    with closing(QueryEngine(store, QueryLimits())) as engine:
        assert drawn(engine)["basis"]["samples"] == 3
        before = dict(store.gets)
        assert drawn(engine)["basis"]["samples"] == 3
        assert store.gets == before
        stored([window("main;new 4", at=20)], store=store)
        assert drawn(engine)["basis"]["samples"] == 7
    assert set(store.gets.values()) == {1}
    assert len(store.gets) - len(before) == 3


def test_stacks_that_an_earlier_segment_has_are_not_read_again() -> None:
    store = Read()
    stored(
        [window("main 1 | main;work 5")],
        [window("main 2", at=10)],
        [window("main;work 2", at=20)],
        store=store,
    )
    with closing(QueryEngine(store, QueryLimits())) as engine:
        assert drawn(engine)["basis"]["samples"] == 10
    assert Counter(key.rpartition("/")[2] for key in store.gets) == {
        "profiles.parquet": 3,
        "samples.parquet": 3,
        "stacks.parquet": 1,
    }


def table(rows: int) -> pa.Table:
    return pa.table({"n": pa.array(range(rows), pa.int64())})


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40))), st.integers(0, 800))
def test_the_cache_never_holds_more_than_its_bound(asks: list[tuple[int, int]], bound: int) -> None:
    cache = TableCache(bound)
    for key, rows in asks:
        cache.get_or_load(key, lambda rows=rows: table(rows))  # type: ignore[misc]
        assert cache.size_bytes <= bound
    held = [found for key in range(10) if (found := cache.get(key)) is not None]
    assert cache.size_bytes == sum(one.nbytes for one in held)


def test_what_was_used_least_recently_goes_first() -> None:
    cache = TableCache(3 * table(10).nbytes)
    for key in "abc":
        cache.get_or_load(key, lambda: table(10))
    cache.get("a")
    cache.get_or_load("d", lambda: table(10))
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]
