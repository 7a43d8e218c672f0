"""How many requests to the store a segment, a day of compaction and a query make."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import closing

import pytest

from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.service_overview import query_service_overview
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.answers.top_and_depth import query_depth
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.engine.query_engine import QueryEngine
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import ROOT
from sidelight_collector.storage.tables import SEGMENT_PARTS
from sidelight_model.counts import ProfileType
from sidelight_model.window import Window, encode_windows
from tests.collector.conftest import Serve
from tests.collector.counting_store import Counting
from tests.collector.stored_windows import START_NS, question, stored, window

SEGMENTS = 64
DAY = question(start=-9.5 * 3600, end=14.5 * 3600)
HALVES = [question(start=-9.5 * 3600, end=2.5 * 3600), question(start=2.5 * 3600, end=14.5 * 3600)]
QUESTIONS: dict[str, Callable[[QueryContext], object]] = {
    "flame graph": lambda reading: query_flame_graph(
        reading, [DAY], ProfileType.WALL, lines=False, nodes=None, max_nodes=1000
    ),
    "timeline": lambda reading: query_timeline(reading, DAY, ProfileType.WALL, step_ns=None, max_steps=5000),
    "depth": lambda reading: query_depth(reading, [DAY], ProfileType.WALL),
    "comparison": lambda reading: query_flame_graph(
        reading, HALVES, ProfileType.WALL, lines=False, nodes=None, max_nodes=1000
    ),
    "overview": lambda reading: query_service_overview(reading, DAY, ProfileType.WALL, max_services=1000),
}
REQUESTS = {
    "flame graph": (4, 2),
    "timeline": (2, 2),
    "depth": (4, 2),
    "comparison": (4, 2),
    "overview": (2, 2),
}
"""Reads and listings of a query of a closed day by a process that has read nothing yet."""


def fill(store: ObjectStore, segments: int, windows: int) -> None:
    """Store segments of an hour, with equal stacks in all of them."""
    stored(
        *(
            [window("a;b 3 | a;c 1", at=56 * number, pod=f"pod-{pod}") for pod in range(windows)]
            for number in range(segments)
        ),
        store=store,
    )


def compact(store: ObjectStore) -> None:
    later = START_NS / 1e9 + 2 * 86_400
    policy = CompactionPolicy(deletion_delay_seconds=0)
    Compaction(store, Metrics(), policy, interval_seconds=1, clock=lambda: later).run_once()


def count_reads(store: Counting, ask: Callable[[QueryContext], object]) -> list[tuple[int, int]]:
    """Return the reads and listings of a query in a process that has read nothing yet, and of it again."""
    counts = []
    with closing(QueryEngine(store, QueryLimits(timeout_seconds=300))) as engine:
        for _ in range(2):
            store.reset()
            asyncio.run(engine.run(ask))
            counts.append((sum(store.gets.values()), sum(store.lists.values())))
    return counts


@pytest.mark.parametrize("windows", [1, 20])
def test_a_segment_costs_three_writes_however_many_windows_it_has(windows: int) -> None:
    store = Counting(MemoryStore())
    fill(store, 1, windows)
    assert sum(store.puts.values()) == 3
    assert not store.gets
    assert not store.lists


def test_compaction_reads_and_deletes_each_table_of_a_segment_once() -> None:
    store = Counting(MemoryStore())
    fill(store, SEGMENTS, 2)
    store.reset()
    compact(store)
    # A rollup reads the hours of the block, writes its steps, and is named in the manifest.
    assert sum(store.gets.values()) <= 3 * SEGMENTS + 2 + 1
    assert sum(store.deletes.values()) <= 3 * SEGMENTS
    assert sum(store.puts.values()) <= 6 + 2 + 2
    assert sum(store.lists.values()) <= 12
    store.reset()
    compact(store)
    assert sum(store.gets.values()) <= 2
    assert not store.puts
    assert not store.deletes


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("segments", [1, SEGMENTS])
def test_a_query_of_a_closed_day_makes_the_same_requests_whatever_the_day_has(
    name: str, segments: int
) -> None:
    store = Counting(MemoryStore())
    fill(store, segments, 2)
    compact(store)
    assert count_reads(store, QUESTIONS[name]) == [REQUESTS[name], (0, REQUESTS[name][1])]


def test_a_query_of_segments_reads_two_tables_of_each_and_stacks_once() -> None:
    store = Counting(MemoryStore())
    fill(store, SEGMENTS, 2)
    assert count_reads(store, QUESTIONS["flame graph"]) == [(2 * SEGMENTS + 1, 2), (0, 2)]
    assert count_reads(store, QUESTIONS["timeline"]) == [(SEGMENTS, 2), (0, 2)]


async def test_a_collector_writes_three_objects_a_flush_and_reads_none(
    serving: Serve, make_window: Callable[..., Window]
) -> None:
    store = Counting(MemoryStore())
    idle = {"compact_interval_seconds": 0, "retention_interval_seconds": 1e6, "deploys": False}
    async with serving(store, **idle) as collector:
        store.reset()
        for windows in (1, 20):
            sent = [make_window("main;f 3", pod=f"pod-{pod}") for pod in range(windows)]
            assert (await collector.post(encode_windows(sent))).status == 200
        written = [key for key in store.puts if key.startswith(ROOT)]
        assert len(written) == sum(store.puts.values()) == 2 * len(SEGMENT_PARTS)
        assert not store.gets
