"""What was decoded is kept in memory, within a bound; only what is new is read."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import closing

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.answers.flame import FlameGraph, query_flame_graph
from sidelight_collector.query.engine import window_sums
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_cache import TableCache
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage import segments
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.segments import (
    list_segments,
    read_row_groups,
    read_segment,
    read_service_rows,
)
from sidelight_model.counts import ProfileType
from sidelight_model.window import Window
from tests.collector.stored_windows import question, stored, window
from tests.collector.test_query_blocks import compacted


class Read(MemoryStore):
    """A store that counts what is read from it."""

    def __init__(self) -> None:
        super().__init__()
        self.gets: Counter[str] = Counter()

    def get(self, key: str) -> bytes:
        self.gets[key] += 1
        return super().get(key)


def drawn(engine: QueryEngine, selector: str = "") -> FlameGraph:
    return asyncio.run(
        engine.run(
            lambda reading: query_flame_graph(
                reading, [question(selector)], ProfileType.WALL, lines=False, nodes=None, max_nodes=99
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
        cache.add(key, table(rows))
        assert cache.size_bytes <= bound
    held = [found for key in range(10) if (found := cache.get(key)) is not None]
    assert cache.size_bytes == sum(one.nbytes for one in held)


def test_what_was_used_least_recently_goes_first() -> None:
    cache = TableCache(3 * table(10).nbytes)
    for key in "abc":
        cache.add(key, table(10))
    cache.get("a")
    cache.add("d", table(10))
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]


def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row groups of three rows, of which those of other services are not decoded."""
    monkeypatch.setattr(segments, "SHARED_ROWS_PER_GROUP", 3)
    monkeypatch.setattr(segments, "MIN_PRUNED_ROWS", 1)
    monkeypatch.setattr(segments, "MIN_ZERO_ROWS", 1)


SERVICES = ("ads", "cart", "pay", "shop")


def of_services() -> list[Window]:
    return [
        window(f"main;{service} {at + 1} | main;{service};work 2 | main;idle 3", service=service, at=10 * at)
        for service in SERVICES
        for at in range(3)
    ]


def test_rows_of_a_service_are_read_without_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    small_groups(monkeypatch)
    store = stored(of_services())
    (ref,) = list_segments(store, 0, 2**62)
    for part, rows in (("samples", 9), ("stacks", 3)):
        columns = ["service", "h"]
        table, is_whole = read_service_rows(store, ref, part, columns, {"cart"})
        assert (table["service"].to_pylist(), is_whole) == (["cart"] * rows, False)
        table, is_whole = read_service_rows(store, ref, part, columns, set(SERVICES))
        assert (len(table), is_whole) == (len(SERVICES) * rows, True)
        assert not len(read_service_rows(store, ref, part, columns, {"none"})[0])
        two = pa.concat_tables(read_row_groups(store, ref, part, columns, {"ads", "shop"}))
        assert two["service"].to_pylist() == ["ads"] * rows + ["shop"] * rows


def test_rows_of_a_large_row_group_are_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    small_groups(monkeypatch)
    monkeypatch.setattr(segments, "ROWS_PER_PIECE", 2)
    store = stored(of_services())
    (ref,) = list_segments(store, 0, 2**62)
    for columns in (None, ["service", "gil_wait"], ["gil_wait"]):
        pieces = list(read_row_groups(store, ref, "samples", columns))
        assert [len(piece) for piece in pieces] == [2, 1] * (len(SERVICES) * 9 // 3)
        assert (
            pa.concat_tables(pieces).to_pylist() == read_segment(store, ref, "samples", columns).to_pylist()
        )


@pytest.mark.parametrize("is_compacted", [False, True])
def test_answers_are_the_same_whatever_was_read_of_a_table_before(
    is_compacted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows = of_services()
    selectors = ['service="cart"', 'service=~"ads|shop"', "", 'service="pay"', 'service="cart"']
    whole, store = MemoryStore(), Read()
    stored(windows, store=whole)
    small_groups(monkeypatch)
    stored(windows, store=store)
    if is_compacted:
        monkeypatch.setattr(window_sums, "MAX_CACHED_ROWS", 1)
        compacted(store)
    expected = QueryEngine(whole, QueryLimits())
    with closing(expected), closing(QueryEngine(store, QueryLimits())) as engine:
        for selector in selectors:
            found, wanted = (drawn(of, selector) for of in (engine, expected))
            assert {**found, "basis": None} == {**wanted, "basis": None}
        before = dict(store.gets)
        assert drawn(engine, selectors[0])["basis"]["samples"] == 21
        assert store.gets == before
