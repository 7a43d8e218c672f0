"""Manifests are remembered by etag: one that did not change is not read again, and one that did is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import TypeVar

import pytest

from sidelight_collector.arrow_ops import to_strings
from sidelight_collector.lru import LruCache
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.blocks import read_window_ids
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.live_objects import (
    MEMORY_BYTES_PER_JSON_BYTE,
    LiveObjects,
    list_live_objects,
)
from sidelight_collector.storage.manifest import Manifest
from sidelight_collector.storage.objects import ObjectStore
from sidelight_model.window import Window
from tests.collector.counting_store import Counting
from tests.collector.faults import FaultyStore
from tests.collector.stored_windows import SECOND_NS, START_NS, stored, window

Argument = TypeVar("Argument")
Result = TypeVar("Result")
DAY_SECONDS = 86_400
EVER = (0, 2**63 - 1)


def compact(store: ObjectStore) -> None:
    Compaction(
        store, Metrics(), CompactionPolicy(min_segments=1, deletion_delay_seconds=1e9), interval_seconds=1
    ).run_once()


def days(count: int) -> list[list[Window]]:
    return [[window(at=number * DAY_SECONDS)] for number in range(count)]


def read(store: Counting) -> int:
    """How many manifests were read since this was asked last."""
    found = sum(number for key, number in store.gets.items() if key.startswith(manifest.ROOT))
    store.gets.clear()
    return found


def test_a_manifest_that_did_not_change_is_not_read_again(store: ObjectStore) -> None:
    counting, known = Counting(store), LruCache[Manifest](1 << 20)
    listings_have_etags = store.kind != "directory"
    stored(*days(3), store=store)
    compact(store)
    first = list_live_objects(counting, *EVER, cache=known)
    assert len(first.refs) == 3
    assert read(counting) == 3
    assert list_live_objects(counting, *EVER, cache=known) == first
    assert read(counting) == (0 if listings_have_etags else 3)
    stored([window(at=DAY_SECONDS + 60)], store=store)
    compact(store)
    assert list_live_objects(counting, *EVER, cache=known) == list_live_objects(store, *EVER) != first
    assert read(counting) == (1 if listings_have_etags else 3)


def test_only_manifests_of_days_in_the_range_are_read() -> None:
    store, known = Counting(MemoryStore()), LruCache[Manifest](1 << 20)
    stored(*days(5), store=store)
    compact(store)
    start = START_NS + DAY_SECONDS * SECOND_NS
    read(store)
    assert len(list_live_objects(store, start, start + SECOND_NS, cache=known).refs) == 1
    assert read(store) == 1


def test_a_damaged_manifest_is_left_out_each_time_and_read_again_each_time() -> None:
    store, known = Counting(MemoryStore()), LruCache[Manifest](1 << 20)
    stored(*days(2), store=store)
    compact(store)
    whole = list_live_objects(store, *EVER)
    key = manifest.key_of(manifest.list_days(store)[0])
    content = store.get(key)
    store.put(key, content[:-1])
    for _ in range(2):
        read(store)
        assert list_live_objects(store, *EVER, cache=known).damaged_manifests == 1
        assert store.gets[key] >= 1
    store.put(key, content)
    assert list_live_objects(store, *EVER, cache=known) == whole


def test_a_manifest_that_changes_while_it_is_read_is_not_taken_for_the_one_that_was_listed() -> None:
    store, known = MemoryStore(), LruCache[Manifest](1 << 20)
    stored(*days(1), store=store)
    compact(store)
    before = list_live_objects(store, *EVER)
    key = manifest.key_of(manifest.list_days(store)[0])
    content = store.get(key)

    def meanwhile() -> None:
        stored([window(at=60)], store=store)
        compact(store)

    reading_comes_second = FaultyStore(store, at=1, meanwhile=meanwhile)
    assert list_live_objects(reading_comes_second, *EVER, cache=known) == list_live_objects(store, *EVER)
    store.put(key, content)
    store.delete(next(entry.key for entry in store.list("v1/l0/") if entry.key.endswith("samples.parquet")))
    assert list_live_objects(store, *EVER, cache=known).refs[0] == before.refs[0]
    assert list_live_objects(store, *EVER, cache=known) == list_live_objects(store, *EVER)


@pytest.mark.parametrize("segments_first", [False, True])
@pytest.mark.parametrize("at", range(3))
def test_windows_that_move_into_a_block_meanwhile_count_once(segments_first: bool, at: int) -> None:
    store = MemoryStore()
    before = [window(at=60 * number) for number in range(3)]
    for one in before:
        stored([one], store=store)
        if one is before[0]:
            compact(store)

    def meanwhile() -> None:
        compact(store)
        stored([window(at=600)], store=store)

    def run_now(function: Callable[[Argument], Result], arguments: Sequence[Argument], /) -> list[Result]:
        return [function(one) for one in arguments]

    changing = FaultyStore(store, at=at, meanwhile=meanwhile)
    live = list_live_objects(changing, *EVER, run_all=run_now if segments_first else map)
    found = [wid for ref in live.refs for wid in to_strings(read_window_ids(store, ref))]
    assert changing.made == 3
    assert len(found) == len(set(found))
    assert {one.id for one in before} <= set(found)


@pytest.mark.parametrize(("short", "reads"), [(0, 0), (1, 1)])
def test_what_is_remembered_is_bounded(short: int, reads: int) -> None:
    store = Counting(MemoryStore())
    stored(*days(1), store=store)
    compact(store)
    (entry,) = store.list(manifest.ROOT)
    known = LruCache[Manifest](entry.size * MEMORY_BYTES_PER_JSON_BYTE - short)
    list_live_objects(store, *EVER, cache=known)
    read(store)
    list_live_objects(store, *EVER, cache=known)
    assert read(store) == reads


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(4, 30))]
)
def test_whatever_happens_what_is_remembered_is_what_would_be_read(seed: int) -> None:
    luck, store = random.Random(seed), MemoryStore()
    known = LruCache[Manifest](luck.choice([0, 2_000, 1 << 20]))
    written: Sequence[Window] = [window(at=luck.randrange(4) * DAY_SECONDS + at) for at in range(30)]
    for one in written:
        stored([one], store=store)
        if luck.random() < 0.4:
            compact(store)
        if luck.random() < 0.1:
            for entry in list(store.list(manifest.ROOT))[:1]:
                store.delete(entry.key)
        if luck.random() < 0.6:
            start = START_NS + luck.randrange(-1, 4) * DAY_SECONDS * SECOND_NS
            asked_for = start, start + luck.randrange(1, 5) * DAY_SECONDS * SECOND_NS
            expected: LiveObjects = list_live_objects(store, *asked_for)
            assert list_live_objects(store, *asked_for, cache=known) == expected
