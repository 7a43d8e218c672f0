"""Blocks of closed days are cut by service, and a query reads only blocks of its services."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace

import pytest

from sidelight_collector.answers.export import export_folded
from sidelight_collector.answers.top_and_depth import query_depth
from sidelight_collector.metrics import Metrics
from sidelight_collector.storage import manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.manifest import Block
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import event_day, read_segment, write_segment
from sidelight_collector.storage.service_cuts import find_shared_digits, hash_service, plan_cuts
from sidelight_collector.storage.tables import SEGMENT_PARTS
from sidelight_model.counts import ProfileType
from sidelight_model.folded import parse_folded
from sidelight_model.labels import Labels
from sidelight_model.window import Quality, Window
from tests.collector.counting_store import Counting
from tests.collector.stored_windows import START_NS, asked, question

HOUR_NS = 3600 * 10**9
MIDNIGHT_NS = START_NS // (24 * HOUR_NS) * 24 * HOUR_NS
CLOSED = MIDNIGHT_NS / 1e9 + 2 * 86_400
POLICY = CompactionPolicy(min_segments=1, max_shared_rows=100, deletion_delay_seconds=0)


def windows(services: int, turns: int = 24) -> Iterator[Window]:
    """Yield a window of three stacks an hour for each service."""
    for turn in range(turns):
        for number in range(services):
            name = f"svc-{number:03d}"
            yield Window(
                f"{turn:013d}{number:013d}",
                Labels({"service": name, "pod": f"{name}-{turn % 2}"}),
                MIDNIGHT_NS + turn * HOUR_NS + number,
                60 * 10**9,
                10_000_000,
                parse_folded(
                    f"main (a.py:1);{name} (b.py:2) {turn + 1}\nmain (a.py:1);f (c.py:3) 5\nx (d.py:4) 2\n"
                ),
                Quality(attempts=6000),
            )


def compacted(policy: CompactionPolicy, *batches: list[Window]) -> MemoryStore:
    """Compact batches of windows one after another, long after their day."""
    store = MemoryStore()
    compaction = Compaction(store, Metrics(), policy, interval_seconds=1, clock=lambda: CLOSED)
    for batch in batches:
        for start in range(0, len(batch), 50):
            write_segment(store, batch[start : start + 50])
        for _ in range(3):
            compaction.run_once()
    return store


def blocks_of(store: ObjectStore) -> tuple[Block, ...]:
    return manifest.read(store, event_day(MIDNIGHT_NS)).document.blocks


def test_a_cut_depends_only_on_names_and_fits_the_limit() -> None:
    luck = random.Random(1)
    rows = {f"s{number}": luck.randint(0, 300) for number in range(500)}
    groups = plan_cuts(rows, 1000)
    assert sorted(name for group in groups for name in group) == sorted(rows)
    for group in groups:
        assert len(group) == 1 or sum(rows[name] for name in group) <= 1000
        shared = find_shared_digits(group)
        outside = {name for name in rows if hash_service(name).startswith(shared)} - set(group)
        assert not outside or len(group) > 1  # whole branches of the tree of names
    assert {frozenset(group) for group in groups} == {
        frozenset(group) for group in plan_cuts(dict(sorted(rows.items(), reverse=True)), 1000)
    }
    assert plan_cuts({"big": 10_000}, 10) == [["big"]]


@pytest.mark.parametrize("late", [0, 3])
def test_cut_blocks_have_every_window_once_and_answer_as_one_block_does(late: int) -> None:
    sent = list(windows(16))
    first, rest = sent[: len(sent) - late], sent[len(sent) - late :]
    cut = compacted(POLICY, *([first, rest, sent] if late else [first]))
    whole = compacted(replace(POLICY, max_shared_rows=10**9), sent)
    blocks = blocks_of(cut)
    assert len(blocks) > 5
    assert len(blocks_of(whole)) == 1
    wids = [wid for block in blocks for wid in read_segment(cut, block.ref, "profiles")["wid"].to_pylist()]
    assert sorted(wids) == sorted(window.id for window in sent)
    for block in blocks:
        assert len(block.services) == 1 or block.rows <= POLICY.max_shared_rows
        for part in SEGMENT_PARTS:
            table = read_segment(cut, block.ref, part)
            assert set(table["service"].to_pylist()) == set(block.services)
            content = cut.get(block.ref.key(part))
            assert not [
                name
                for name in set(map("svc-{:03d}".format, range(16))) - set(block.services)
                if f"{name} (b".encode() in content
            ]
    for selector in (
        "",
        '{service="svc-007"}',
        '{service=~"svc-00.", service!="svc-003"}',
        '{pod="svc-001-1"}',
    ):
        for by_window in (False, True):
            query = replace(question(selector, start=-86_400, end=86_400), by_window=by_window)
            answers = [
                "".join(
                    sorted(
                        asked(
                            store,
                            lambda reading, query=query: export_folded(
                                reading, [query], ProfileType.WALL, lines=True, states=False
                            ),
                        ).content.decode()
                    )
                )
                for store in (cut, whole)
            ]
            assert answers[0] == answers[1]


def test_full_blocks_of_an_open_day_are_cut_and_their_pieces_merged() -> None:
    store, sent = Counting(MemoryStore()), list(windows(6))
    policy = replace(POLICY, max_block_rows=54, max_shared_rows=9)
    now = [0.0]
    compaction = Compaction(store, Metrics(), policy, interval_seconds=1, clock=lambda: now[0])
    for start in range(0, len(sent), 6):
        write_segment(store, sent[start : start + 6])
        now[0] = sent[start].start_ns / 1e9 + 60
        compaction.run_once()
    assert now[0] < MIDNIGHT_NS / 1e9 + 86_400
    blocks = blocks_of(store)
    wids = [wid for block in blocks for wid in read_segment(store, block.ref, "profiles")["wid"].to_pylist()]
    assert sorted(wids) == sorted(window.id for window in sent)
    uncut = [block for block in blocks if not find_shared_digits(block.services)]
    assert sum(block.rows for block in uncut) < policy.max_block_rows
    # A segment has 18 rows. Three are merged and cut into pieces of 9, and six pieces are merged again.
    own = [block for block in blocks if "svc-000" in block.services]
    assert [block.rows for block in own] == [54, 9, 9]
    assert [block.services for block in own] == [("svc-000",)] * 3
    query = question('{service="svc-000"}', start=-86_400, end=86_400)
    store.reset()
    asked(store, lambda reading: query_depth(reading, [query], ProfileType.WALL))
    assert len({key.rpartition("/")[0] for key in store.gets}) <= len(own) + 1  # and the manifest


@pytest.mark.parametrize(("days", "is_cut"), [(2, True), (4, False)])
def test_an_upgrade_cuts_recent_days_and_leaves_older_days_alone(days: int, *, is_cut: bool) -> None:
    store = Counting(compacted(replace(POLICY, max_shared_rows=10**9), list(windows(16))))
    before = blocks_of(store)
    clock = MIDNIGHT_NS / 1e9 + days * 86_400
    Compaction(store, Metrics(), POLICY, interval_seconds=1, clock=lambda: clock).run_once()
    assert (len(blocks_of(store)) > len(before) == 1) == is_cut
    assert bool(store.puts or store.deletes) == is_cut


def test_a_query_of_a_service_reads_as_much_however_many_services_are_stored() -> None:
    requests = []
    for services in (1, 6, 40):
        store = Counting(compacted(replace(POLICY, max_shared_rows=24), list(windows(services))))
        query = question('{service="svc-000"}', start=-86_400, end=86_400)
        asked(store, lambda reading, query=query: query_depth(reading, [query], ProfileType.WALL))
        requests.append(
            (
                sum(store.gets.values()),
                sum(store.lists.values()),
                sum(store.gets[key] for key in store.gets if key.endswith("stacks.parquet")),
            )
        )
    assert requests[0] == requests[1] == requests[2]
    assert requests[0][0] <= 5
    assert requests[0][1] == 2
