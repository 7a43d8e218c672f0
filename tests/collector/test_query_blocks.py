"""Answers are the same before and after compaction, whichever windows are asked for, and cost less then."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import cycle
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidelight_collector.answers.catalog import list_label_names, list_label_values, list_services
from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.heatmap import HeatmapLimits, query_heatmap
from sidelight_collector.answers.service_overview import query_service_overview
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.answers.top_and_depth import CostOrder, query_depth, query_top
from sidelight_collector.metrics import Metrics
from sidelight_collector.query.query_context import QueryContext
from sidelight_collector.storage import blocks, manifest
from sidelight_collector.storage.backends.memory import MemoryStore
from sidelight_collector.storage.lifecycle.compaction import Compaction, CompactionPolicy
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import list_segments
from sidelight_model.counts import ProfileType
from sidelight_model.window import Window
from tests.collector.counting_store import Counting
from tests.collector.stored_windows import START_NS, asked, question, stored, window
from tests.model.strategies import windows as any_windows

DAY_SECONDS = 86_400
LATER = START_NS / 1e9 + 2 * DAY_SECONDS


@cache
def whole_day() -> dict[str, bytes]:
    """The objects of a store whose fleet is compacted."""
    store = compacted(stored(fleet()))
    return {entry.key: store.get(entry.key) for entry in store.list("")}


@cache
def fleet_answers(start: float, end: float) -> list[object]:
    """What is answered of all services of the fleet, from its windows."""
    return answers(fleet_segments(), "", start, end, ProfileType.WALL)


@cache
def fleet_segments() -> ObjectStore:
    return stored(fleet())


def compacted(store: ObjectStore, rules: CompactionPolicy | None = None) -> ObjectStore:
    rules = replace(rules or CompactionPolicy(), deletion_delay_seconds=0)
    for _ in range(2):
        Compaction(store, Metrics(), rules, interval_seconds=1, clock=lambda: LATER).run_once()
    assert list_segments(store, 0, 2**63 - 1) == []
    return store


@cache
def fleet() -> list[Window]:
    """Three services on four pods for three hours, in two versions and two kinds of threads."""
    luck = random.Random(5)
    made = []
    for at in range(-3600, 7200, 300):
        for pod in range(4):
            for thread in ("main", "other"):
                text = " | ".join(
                    f"main;f{luck.randrange(3)};g{luck.randrange(2)}{state} {luck.randrange(1, 50)}"
                    for state in ("", ";[idle]", ";[gil]")
                )
                service = luck.choice(["ads", "shop", "shop"])
                version = "1" if at < 1800 + 600 * pod else "2"
                period = luck.choice([10_000_000, 10_000_000, 20_000_000])
                made.append(
                    window(
                        text,
                        at=at + pod,
                        service=service,
                        version=version,
                        pod=f"{service}-{pod}",
                        thread=thread,
                        period_ns=period,
                        region=f"r{pod % 2}",
                    )
                )
    return made


SELECTORS = [
    "",
    '{service="shop"}',
    '{service=~"a.*"}',
    '{service="shop", version="2"}',
    '{service="shop", version!="2"}',
    '{pod="shop-1"}',
    '{pod=~"shop-[12]", thread="main"}',
    '{thread="other"}',
    '{region="r1"}',
    '{service="nobody"}',
]
RANGES = [(-3600, 7200), (-4000, 8000), (-900, 4321), (0, 3600), (1800, 1801), (0, 0.5), (-40_000, 60_000)]


def answers(store: ObjectStore, selector: str, start: float, end: float, kind: ProfileType) -> list[object]:
    one, two = question(selector, start=start, end=end), question("", start=start, end=end)

    def all_of_them(reading: QueryContext) -> list[Any]:
        return [
            query_flame_graph(reading, [one], kind, lines=True, nodes=1000, max_nodes=10_000),
            query_flame_graph(reading, [one, two], kind, lines=False, nodes=1000, max_nodes=10_000),
            query_top(reading, [one, two], kind, by=CostOrder.SELF, limit=100),
            query_depth(reading, [one, two], kind),
            query_timeline(reading, one, kind, step_ns=600 * 10**9, max_steps=5000),
            query_timeline(reading, one, kind, step_ns=7200 * 10**9, max_steps=5000),
            query_timeline(reading, one, kind, step_ns=None, max_steps=5000),
            list_services(reading, two),
            query_service_overview(reading, two, kind, max_services=100),
            query_heatmap(
                reading,
                one,
                kind,
                rows="pod",
                step_ns=None,
                zone="UTC",
                limits=HeatmapLimits(5000, 3, 20_000),
            ),
            query_heatmap(
                reading,
                one,
                kind,
                rows="hour",
                step_ns=None,
                zone="+05:45",
                limits=HeatmapLimits(99, 24, 20_000),
            ),
            list_label_names(reading, one),
            list_label_values(reading, one, "region"),
        ]

    found = asked(store, all_of_them)
    for answer in found:
        assert isinstance(answer, dict)
        del answer["basis"]["resolutions"]  # from where it was taken may change
    for side in found[0]["sides"]:
        if contention := side["gil_contention"]:
            # Its interval is estimated from how much times differ: those of windows, or of hours.
            side["gil_contention"] = contention["share"]
    return found


Asked = tuple[str, float, float, ProfileType]


@pytest.fixture(scope="module")
def segments() -> list[list[Window]]:
    windows = fleet()
    return [*(windows[at : at + 5] for at in range(0, len(windows), 5)), windows[7:9]]


@pytest.fixture(scope="module")
def expected(segments: list[list[Window]]) -> dict[Asked, list[object]]:
    """What is answered of the segments, to every question."""
    plain, kinds = stored(*segments), cycle(ProfileType)
    pairs = zip(SELECTORS * 2, cycle(RANGES), strict=False)
    asked_for = [(one, *between, next(kinds)) for one, between in pairs]
    return {one: answers(plain, *one) for one in asked_for}


@pytest.mark.parametrize("rows", [1_000_000, 300])
def test_no_answer_changes_when_segments_become_blocks(
    rows: int, segments: list[list[Window]], expected: dict[Asked, list[object]]
) -> None:
    blocked = compacted(stored(*segments), CompactionPolicy(min_segments=4, max_block_rows=rows))
    (day,) = manifest.list_days(blocked)
    of_day = manifest.read(blocked, day).document
    assert any("sums" in block.parts for block in of_day.blocks)
    assert of_day.live_rollups
    for one, answer in expected.items():
        assert answers(blocked, *one) == answer, one


near = st.builds(
    replace,
    any_windows,
    start_ns=st.integers(START_NS - 10**13, START_NS + 10**13),
    duration_ns=st.integers(1, 10**10),
)


@settings(max_examples=20)
@given(
    st.lists(near, min_size=1, max_size=8, unique_by=lambda one: one.id),
    st.data(),
    st.sampled_from(ProfileType),
)
def test_no_answer_changes_for_any_windows(
    windows: list[Window], data: st.DataObject, kind: ProfileType
) -> None:
    pieces = [[one for one in windows if data.draw(st.booleans())] for _ in range(2)] + [windows]
    start, end = sorted(data.draw(st.integers(-20_000, 20_000)) for _ in range(2))
    selector = data.draw(st.sampled_from(["", '{pod=~".*[a-m].*"}', '{thread!=""}', '{version=""}']))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MIN_ROLLUP_REDUCTION", 0)
        blocked = compacted(stored(*pieces))
    expected = answers(stored(windows), selector, start, end, kind)
    assert answers(blocked, selector, start, end, kind) == expected
    # Segments that come later, and repeat windows of blocks or not.
    assert answers(stored(*pieces, store=blocked), selector, start, end, kind) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "MIN_ROLLUP_REDUCTION", 0)
        partly = stored(windows, store=compacted(stored(*pieces[:2])))
    assert answers(partly, selector, start, end, kind) == expected


class Watched(MemoryStore):
    """Tells which objects were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read: list[str] = []

    def get(self, key: str) -> bytes:
        self.read.append(key.rpartition("/")[2])
        return super().get(key)


@pytest.mark.parametrize(
    ("selector", "start", "end", "expected"),
    [
        ('{service="shop"}', -40_000, 60_000, {"hours", "daily", "stacks"}),
        ('{service="shop"}', 0, 7200, {"hours", "sums", "stacks"}),
        ('{service="shop", version="2"}', 3600, 7200, {"hours", "sums", "stacks"}),
        ('{pod="shop-1"}', -3600, 7200, {"hours", "profiles", "samples", "stacks"}),
        ('{service="shop"}', 600, 3600, {"hours", "profiles", "samples", "stacks"}),
        ('{service="shop"}', 600, 7200, {"hours", "profiles", "sums", "samples", "stacks"}),
        ('{service="nobody"}', -3600, 7200, set()),
    ],
)
def test_nothing_is_read_window_by_window_where_all_was_chosen_that_was_added_up(
    selector: str, start: float, end: float, expected: set[str]
) -> None:
    store = Watched()
    for key, content in whole_day().items():
        store.put(key, content)
    one = question(selector, start=start - 1800, end=end - 1800)  # START_NS is half past nine
    asked(store, lambda reading: query_depth(reading, [one], ProfileType.WALL))
    assert {f"{part}.parquet" for part in expected | {"daily"}} >= {
        key for key in store.read if "parquet" in key
    }
    assert {f"{part}.parquet" for part in expected} <= set(store.read)


def test_an_hour_of_which_a_segment_may_have_windows_too_is_read_window_by_window() -> None:
    windows = list(fleet())
    store = stored(windows[:8], store=compacted(stored(windows)))
    watched = Watched()
    for entry in store.list("v1/"):
        watched.put(entry.key, store.get(entry.key))
    for start, end in RANGES:
        assert answers(watched, "", start, end, ProfileType.WALL) == fleet_answers(start, end)
    assert {"samples.parquet", "sums.parquet", "daily.parquet"} <= set(watched.read)


EVERY_SECONDS = 1800
"""The time of the windows of one block of the open day."""


@cache
def open_day() -> dict[str, bytes]:
    """The objects of a day that goes on: blocks of half an hour each, and the segments of the last one."""
    store = MemoryStore()
    policy = CompactionPolicy(min_segments=1, max_block_rows=1, deletion_delay_seconds=0)
    compaction = Compaction(store, Metrics(), policy, interval_seconds=1, clock=lambda: START_NS / 1e9 + 7200)
    *halves, last = (
        [one for one in fleet() if start <= (one.start_ns - START_NS) / 1e9 < start + EVERY_SECONDS]
        for start in range(-3600, 7200, EVERY_SECONDS)
    )
    for half in halves:
        stored(half, store=store)
        compaction.run_once()
    stored(last[::2], last[1::2], store=store)
    return {entry.key: store.get(entry.key) for entry in store.list("")}


@pytest.mark.parametrize(
    ("start", "end", "repeated", "expected"),
    [
        (-40_000, 60_000, None, set()),
        (-3600, 7200, None, set()),
        (-1800, 1400, None, {0}),
        (-1800, 1700, None, set()),
        (-1700, 60_000, None, {-1800}),
        (-40_000, 60_000, 0, {0}),
        (-900, 900, 1800, {-1800, 0}),
        (-900, 4000, 1800, {-1800, 1800, 3600}),
    ],
)
def test_of_an_open_day_few_blocks_are_read_window_by_window(
    start: float, end: float, repeated: int | None, expected: set[int]
) -> None:
    store = Counting(MemoryStore())
    for key, content in open_day().items():
        store.put(key, content)
    assert len(list_segments(store, 0, 2**63 - 1)) == 2
    if repeated is not None:
        stored([one for one in fleet() if one.start_ns == START_NS + repeated * 10**9], store=store)
    one = question("", start=start, end=end)
    overview = asked(
        store, lambda reading: query_service_overview(reading, one, ProfileType.WALL, max_services=9)
    )
    read = {key.split("/")[3] for key in store.gets if key.startswith(manifest.BLOCK_ROOT) and "prof" in key}
    began = {int(name.split("-")[0]) // 1000 - START_NS // 10**9 for name in read}
    assert {at // EVERY_SECONDS * EVERY_SECONDS for at in began} == expected
    assert answers(store, "", start, end, ProfileType.WALL) == fleet_answers(start, end)
    assert overview["basis"]["windows"] == fleet_answers(start, end)[8]["basis"]["windows"]


@pytest.mark.parametrize("part", ["hours", "sums", "daily"])
def test_what_was_added_up_and_is_damaged_is_added_up_again(part: str) -> None:
    store = MemoryStore()
    for key, content in whole_day().items():
        store.put(key, content)
    (key,) = [
        entry.key for entry in store.list(manifest.BLOCK_ROOT) if entry.key.endswith(f"/{part}.parquet")
    ]
    store.put(key, b"PAR1")
    for start, end in RANGES:
        assert answers(store, "", start, end, ProfileType.WALL) == fleet_answers(start, end)


def test_a_block_whose_windows_cannot_be_read_is_left_out_whole_where_an_hour_is_cut() -> None:
    store = compacted(stored(fleet()))
    (key,) = [
        entry.key for entry in store.list(manifest.BLOCK_ROOT) if entry.key.endswith("/profiles.parquet")
    ]
    store.put(key, b"PAR1")
    answer = asked(store, lambda reading: query_depth(reading, [question("")], ProfileType.WALL))
    assert isinstance(answer, dict)
    assert (answer["basis"]["windows"], answer["basis"]["unreadable_segments"]) == (0, 1)
