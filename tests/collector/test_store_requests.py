"""How many requests to the store a segment, a day of compaction and a query make."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.answers.top_and_depth import query_depth
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.counts import ProfileType
from tests.collector.counting_store import Counting
from tests.collector.stored_windows import START_NS, asked, question, stored, window

SEGMENTS = 64
DAY = question(start=-9.5 * 3600, end=14.5 * 3600)
QUESTIONS: dict[str, Callable[[QueryContext], object]] = {
    "flame graph": lambda reading: query_flame_graph(
        reading, [DAY], ProfileType.WALL, lines=False, nodes=None, max_nodes=1000
    ),
    "timeline": lambda reading: query_timeline(reading, DAY, ProfileType.WALL, step_ns=None, max_steps=5000),
    "depth": lambda reading: query_depth(reading, [DAY], ProfileType.WALL),
}


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


def count_reads(store: Counting, ask: Callable[[QueryContext], object]) -> tuple[int, int]:
    """Return the reads and listings of a query in a process that has read nothing yet."""
    store.reset()
    asked(store, ask)
    return sum(store.gets.values()), sum(store.lists.values())


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


@pytest.mark.parametrize(("name", "reads"), [("flame graph", 4), ("timeline", 2), ("depth", 4)])
@pytest.mark.parametrize("segments", [1, SEGMENTS])
def test_a_query_of_a_closed_day_makes_the_same_requests_whatever_the_day_has(
    name: str, reads: int, segments: int
) -> None:
    store = Counting(MemoryStore())
    fill(store, segments, 2)
    compact(store)
    assert count_reads(store, QUESTIONS[name]) == (reads, 2)


def test_a_query_of_segments_reads_two_tables_of_each_and_stacks_once() -> None:
    store = Counting(MemoryStore())
    fill(store, SEGMENTS, 2)
    assert count_reads(store, QUESTIONS["flame graph"]) == (2 * SEGMENTS + 1, 2)
    assert count_reads(store, QUESTIONS["timeline"]) == (SEGMENTS, 2)
