"""A rollup of a closed day is read in place of its blocks, and changes no answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.arrow_ops import sum_ints
from sidelight_collector.doctor.day_check import DayCheckOptions, check_day
from sidelight_collector.doctor.repair import repair_day
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.query.select.window_query import select_side_windows
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.blocks import rewrite_block
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.manifest import Manifest
from sidelight_collector.storage.objects import ObjectEntry, ObjectStore
from sidelight_collector.storage.segments import ROOT as SEGMENTS_ROOT
from sidelight_collector.storage.segments import event_day
from sidelight_collector.storage.tables import BLOCK_PARTS
from sidelight_model.counts import ProfileType
from sidelight_model.window import Window
from tests.collector.stored_windows import START_NS, asked, copied, question, stored, window

DAY = event_day(START_NS)
HOUR_NS = 3600 * 10**9
WHOLE = (-3600, 7200)
LATER = START_NS / 1e9 + 2 * 86_400


def fleet() -> list[Window]:
    """Two services on three pods for three hours, which overlap between blocks."""
    return [
        window(
            f"main;f{(at + pod) % 7};g{pod} {1 + at % 5} | main;f{pod};[idle] 3",
            at=at + pod,
            service=service,
            version=str(1 + (at > 1800)),
            pod=f"{service}-{pod}",
            thread=thread,
        )
        for at in range(-3600, 7200, 240)
        for service in ("ads", "shop")
        for pod in range(3)
        for thread in ("main", "other")
    ]


class Watched(MemoryStore):
    """Tells which tables were read, by the root of their key."""

    def __init__(self) -> None:
        super().__init__()
        self.read: set[str] = set()

    def get(self, key: str) -> bytes:
        self.read.add(key.split("/")[1])
        return super().get(key)


def compaction(store: ObjectStore, now: float = LATER) -> Compaction:
    rules = CompactionPolicy(
        min_segments=2, max_block_rows=200, deletion_delay_seconds=0, orphan_age_seconds=0
    )
    return Compaction(store, Metrics(), rules, interval_seconds=1, clock=lambda: now, timer=lambda: 0.0)


@pytest.fixture(scope="module")
def segments() -> ObjectStore:
    windows = fleet()
    return stored(*(windows[at : at + 20] for at in range(0, len(windows), 20)))


@pytest.fixture(scope="module")
def closed() -> ObjectStore:
    windows, store = fleet(), MemoryStore()
    run = compaction(store)
    for at in range(0, len(windows), 90):
        stored(windows[at : at + 90], store=store)
        run.run_once()
    run.run_once()
    return store


def rollups(store: ObjectStore) -> set[str]:
    return {entry.key.rpartition("/")[0] + "/" for entry in store.list(manifest.ROLLUP_ROOT)}


def named(store: ObjectStore) -> set[str]:
    return {rollup.ref.key_prefix for rollup in manifest.read(store, DAY).document.rollups}


def replace_block(store: ObjectStore) -> None:
    version = manifest.read(store, DAY)
    first, *others = version.document.blocks
    new = rewrite_block(store, DAY, first, ["ads", "shop"], BLOCK_PARTS)
    assert manifest.commit(store, DAY, version, replace(version.document, blocks=(new, *others)))


class Replacing(MemoryStore):
    """Replaces a block of the day when segments are listed for the second time."""

    listings = 0

    def list(self, prefix: str, start_after: str = "") -> Iterator[ObjectEntry]:
        if prefix == SEGMENTS_ROOT:
            self.listings += 1
            if self.listings == 2:
                replace_block(self)
        return super().list(prefix, start_after)


def answers(store: ObjectStore, selector: str, start: float, end: float) -> list[object]:
    one, half = question(selector, start=start, end=end), question("", start=start, end=1800)
    wall = ProfileType.WALL

    def ask(reading: QueryContext) -> list[object]:
        return [
            query_flame_graph(reading, [one, half], wall, lines=True, nodes=1000, max_nodes=10_000),
            query_timeline(reading, one, wall, step_ns=HOUR_NS, max_steps=5000),
            query_timeline(reading, one, wall, step_ns=HOUR_NS // 6, max_steps=5000),
        ]

    found = asked(store, ask)
    for answer in found:
        assert isinstance(answer, dict)
        assert answer["basis"]["unreadable_segments"] == 0
        del answer["basis"]["resolutions"]
    return found


def watched(store: ObjectStore) -> Watched:
    copy = Watched()
    for entry in store.list("v1/"):
        copy.put(entry.key, store.get(entry.key))
    return copy


@pytest.mark.parametrize("selector", ["", '{service="shop"}', '{pod="shop-1"}', '{version="2"}'])
@pytest.mark.parametrize(("start", "end"), [WHOLE, (-1800, 5400), (-3000, 100), (0, 1)])
def test_it_changes_no_answer(
    segments: ObjectStore, closed: ObjectStore, selector: str, start: float, end: float
) -> None:
    assert len(manifest.read(closed, DAY).document.blocks) > 3
    assert answers(closed, selector, start, end) == answers(segments, selector, start, end)
    late = [window("main;late 9", at=200, service="shop", pod="shop-9"), *fleet()[40:44]]
    with_late = [stored(late, store=copied(store)) for store in (closed, segments)]
    assert answers(with_late[0], selector, start, end) == answers(with_late[1], selector, start, end)


@pytest.mark.parametrize(("end", "expected"), [(9000, set()), (200, {"raw"})])
def test_it_is_read_in_place_of_its_blocks(closed: ObjectStore, end: float, expected: set[str]) -> None:
    store = watched(closed)  # 9000 s from the start an hour ends
    answers(store, '{service="shop"}', -5400, end)
    assert store.read - {"manifest"} == {"rollup"} | expected


def test_one_that_cannot_be_read_is_left_out(segments: ObjectStore, closed: ObjectStore) -> None:
    for part in ("hours", "daily", "stacks"):
        store = copied(closed)
        (prefix,) = rollups(store)
        store.put(f"{prefix}{part}.parquet", b"PAR1")
        assert answers(store, "", *WHOLE) == answers(segments, "", *WHOLE)


def test_one_whose_blocks_are_replaced_no_longer_counts_and_is_deleted(closed: ObjectStore) -> None:
    store = copied(closed)
    (old,) = rollups(store)
    replace_block(store)
    assert named(store) == set()
    run = compaction(store)
    for _ in range(3):
        run.run_once()
    (made,) = rollups(store)
    assert made != old
    assert named(store) == {made}


def test_a_block_replaced_between_two_sides_counts_once_on_each(closed: ObjectStore) -> None:
    store = Replacing()
    for entry in closed.list(""):
        store.put(entry.key, closed.get(entry.key))

    # Ranges of the same days would be listed once.
    def count(reading: QueryContext) -> list[int]:
        sides = [question("", start=-5400, end=end) for end in (9000, 86_400)]
        found = select_side_windows(reading, sides, with_stacks=False)
        return [sum_ints(side.table["windows"]) for side in found]

    assert asked(store, count) == asked(closed, count)
    assert store.listings == 2


def test_days_that_were_over_before_get_none(segments: ObjectStore) -> None:
    store = copied(segments)
    compaction(store, LATER + 2 * 86_400).run_once()
    assert rollups(store) == set()


def test_the_doctor_knows_it_and_takes_a_damaged_one_out(closed: ObjectStore) -> None:
    store = copied(closed)
    options = DayCheckOptions(now=LATER, grace_seconds=0)
    assert check_day(store, DAY, options, lambda _: None).findings == []
    (prefix,) = rollups(store)
    store.delete(f"{prefix}sums.parquet")
    result = check_day(store, DAY, options, lambda _: None)
    assert [(one.severity, one.kind, one.key) for one in result.findings] == [
        ("warning", "object_missing", f"{prefix}sums.parquet")
    ]
    assert [action.key for action in repair_day(store, result, options, forget_lost=False)] == [prefix]
    assert named(store) == set()


def test_manifests_without_rollups_are_written_as_before() -> None:
    assert b"rollups" not in Manifest().encode()
