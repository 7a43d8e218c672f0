"""What a query adds up never depends on how the windows came to lie in the store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.answers.export import export_folded
from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.timeline import query_timeline
from sidelight_collector.answers.top_and_depth import CostOrder, query_depth, query_top
from sidelight_collector.query.engine.stack_text import MISSING_STACK
from sidelight_collector.query.query_limits import QueryLimits
from sidelight_collector.storage.objects import ObjectStore
from sidelight_collector.storage.segments import encode_parquet
from sidelight_collector.storage.tables import SegmentPart
from sidelight_model.counts import ProfileType
from sidelight_model.folded import render_folded
from sidelight_model.frames import escape_frame, unescape_frame
from sidelight_model.profile import Profile
from sidelight_model.tree import Tree
from sidelight_model.window import Window
from tests.collector.stored_windows import START_NS, asked, few_examples, question, stored, window
from tests.model.reference_profiles import build_profile_tree, count_depths, merge_windows, render_outline
from tests.model.strategies import deep
from tests.model.strategies import windows as any_windows

WALL, CPU = ProfileType.WALL, ProfileType.CPU
kinds = st.sampled_from(ProfileType)
near = st.builds(
    replace,
    any_windows,
    start_ns=st.integers(START_NS - 10**12, START_NS + 10**12),
    duration_ns=st.integers(1, 10**10),
)


@st.composite
def scattered(draw: st.DrawFn) -> tuple[list[Window], list[list[Window]]]:
    """Windows, and segments that hold each of them at least once."""
    windows = draw(st.lists(near, max_size=8, unique_by=lambda one: one.id))
    segments: list[list[Window]] = [[] for _ in range(4)]
    for one in windows:
        for at in draw(st.sets(st.integers(0, 3), min_size=1, max_size=3)):
            segments[at].append(one)
    return windows, segments


def read_back(answer: object) -> Tree:
    """The tree that a flame graph answer draws."""
    assert isinstance(answer, dict)
    sides = answer["sides"]
    return Tree(
        answer["names"],
        answer["level"],
        answer["name"],
        [side["self_samples"] for side in sides],
        [side["self_us"] for side in sides],
    )


def in_range(windows: Sequence[Window], start_ns: int, until_ns: int) -> Profile:
    return merge_windows(one for one in windows if start_ns <= one.start_ns < until_ns)


@few_examples
@given(scattered(), kinds, st.booleans(), st.integers(-1000, 1000), st.integers(1, 1000))
def test_any_grouping_into_segments_with_duplicates_gives_the_sum_of_the_windows(
    case: tuple[list[Window], list[list[Window]]], kind: ProfileType, lines: bool, start: int, length: int
) -> None:
    windows, segments = case
    asked_for = question(start=start, end=start + length)
    expected = in_range(windows, asked_for.from_ns, asked_for.until_ns)
    store = stored(*segments)
    exported = asked(
        store, lambda reading: export_folded(reading, [asked_for], kind, lines=True, states=True)
    )
    assert exported.content.decode() == render_folded(expected.samples, kind)
    drawn = asked(
        store,
        lambda reading: query_flame_graph(
            reading, [asked_for], kind, lines=lines, nodes=None, max_nodes=10**6
        ),
    )
    grown = build_profile_tree(expected, kind=kind, lines=lines)
    assert render_outline(read_back(drawn)) == render_outline(
        replace(grown, names=[unescape_frame(name) for name in grown.names])
    )
    assert drawn["sides"][0]["self_us"] == [round(ns / 1000) for ns in grown.self_ns[0]]
    deep_down = asked(store, lambda reading: query_depth(reading, [asked_for], kind))
    measured = count_depths(expected.rows(kind))
    assert deep_down["sides"][0]["depth"] == list(measured.samples)
    assert deep_down["sides"][0]["samples_at"] == list(measured.samples.values())


@few_examples
@given(scattered())
def test_a_cache_too_small_for_anything_changes_no_answer(
    case: tuple[list[Window], list[list[Window]]],
) -> None:
    windows, segments = case
    asked_for = question()
    exported = asked(
        stored(*segments),
        lambda reading: export_folded(reading, [asked_for], WALL, lines=True, states=True),
        QueryLimits(cache_bytes=0, reads=1),
    )
    expected = in_range(windows, asked_for.from_ns, asked_for.until_ns)
    assert exported.content.decode() == render_folded(expected.samples)


def test_a_window_belongs_to_the_range_that_its_first_moment_is_in() -> None:
    store = stored([window("main 1", at=0), window("main 10", at=10), window("main 100", at=20)])

    def samples(start: float, end: float) -> int:
        asked_for = question(start=start, end=end)
        return asked(store, lambda reading: query_depth(reading, [asked_for], WALL))["basis"]["samples"]

    assert samples(0, 20) == 11
    assert samples(0, 20.000001) == 111
    assert samples(0.000001, 20) == 10
    assert samples(0, 10) + samples(10, 20) + samples(20, 30) == 111


def test_two_rates_add_up_as_time_and_as_samples() -> None:
    store = stored([window("main 99", period_ns=10_101_010)], [window("main 100")])
    drawn = asked(
        store,
        lambda reading: query_flame_graph(reading, [question()], CPU, lines=False, nodes=9, max_nodes=9),
    )
    assert drawn["sides"][0]["self_samples"] == [0, 199]
    assert drawn["sides"][0]["self_us"] == [0, round((99 * 10_101_010 + 100 * 10_000_000) / 1000)]
    assert drawn["sides"][0]["sampling_periods_us"] == [10_000.0, 10_101.01]


def test_more_time_than_63_bits_of_nanoseconds_is_added_up_all_the_same() -> None:
    most = 100_000_000
    store = stored([window(f"main {most}", period_ns=10**9, at=at) for at in range(200)])
    drawn = asked(
        store,
        lambda reading: query_flame_graph(reading, [question()], CPU, lines=False, nodes=9, max_nodes=9),
    )
    side = drawn["sides"][0]
    assert side["self_us"] == [0, 200 * most * 10**6]
    assert side["seconds"] == pytest.approx(200 * most)
    line = asked(
        store, lambda reading: query_timeline(reading, question(), CPU, step_ns=60 * 10**9, max_steps=999)
    )
    assert sum(line["seconds"]) == pytest.approx(200 * most)


def test_a_comparison_shows_both_sides_of_every_call_path() -> None:
    before = "main;handle;query 6 | main;handle;render 2"
    after = "main;handle;query 2 | main;handle;cache 1"
    store = stored([window(before, version="1"), window(after, version="2"), window(after, version="3")])
    sides = [question('version="1"'), question('version="2"')]
    drawn = asked(
        store, lambda reading: query_flame_graph(reading, sides, WALL, lines=False, nodes=None, max_nodes=100)
    )
    expected = build_profile_tree(*(merge_windows([window(side)]) for side in (before, after)))
    assert render_outline(read_back(drawn)) == render_outline(expected)
    assert "cache  0/0  1/1" in render_outline(read_back(drawn))
    assert [side["windows"] for side in drawn["sides"]] == [1, 1]
    assert drawn["basis"]["windows"] == 2


def test_a_window_on_both_sides_counts_once_in_the_basis() -> None:
    store = stored([window("main 3", version="1"), window("main 4", version="2")])
    sides = [question('version="1"'), question()]
    found = asked(store, lambda reading: query_depth(reading, sides, WALL))
    assert (found["basis"]["windows"], found["basis"]["samples"]) == (2, 7)
    assert [side["samples"] for side in found["sides"]] == [3, 7]


def test_services_with_the_same_stack_add_up_in_one_picture_and_stay_apart_by_selector() -> None:
    text = "main (a.py:1);work (b.py:2) 5"
    store = stored(
        [window(text, service="ads"), window("main (a.py:1) 1 | " + text, service="cart")],
        [window(text, service="cart"), window("other (c.py:1) 2", service="zoo")],
    )

    def drawn(selector: str) -> str:
        asked_for = question(selector)
        return asked(
            store,
            lambda reading: export_folded(
                reading, [asked_for], WALL, lines=False, states=False
            ).content.decode(),
        )

    assert drawn("") == "main (a.py) 1\nmain (a.py);work (b.py) 15\nother (c.py) 2\n"
    assert drawn('service="ads"') == "main (a.py);work (b.py) 5\n"
    assert drawn('service=~"cart|zoo"') == "main (a.py) 1\nmain (a.py);work (b.py) 10\nother (c.py) 2\n"


def test_hostile_names_come_out_as_they_went_in() -> None:
    names = ["<img onerror=x>", "a;b", "x\ny", "%3B", "[idle]", "#head", "\u2028", "\u202eabc", "n" * 2000]
    text = ";".join(map(escape_frame, names))
    store = stored([Window(**{**_fields(window()), "counts": {text: window("m 1").total}})])  # type: ignore[arg-type]
    drawn = asked(
        store,
        lambda reading: query_flame_graph(reading, [question()], WALL, lines=False, nodes=99, max_nodes=99),
    )
    assert drawn["names"] == ["total", *names]
    table = asked(store, lambda reading: query_top(reading, [question()], WALL, by=CostOrder.SELF, limit=99))
    assert sorted(table["rows"]["function"]) == sorted(names)
    exported = asked(
        store, lambda reading: export_folded(reading, [question()], WALL, lines=True, states=True)
    )
    assert exported.content.decode() == f"{text} 1\n"


def test_a_stack_of_20_000_frames_is_drawn_and_measured() -> None:
    one = replace(window(), counts={deep(20_000): window("m 2").total})
    store = stored([one])
    drawn = asked(
        store,
        lambda reading: query_flame_graph(
            reading, [question()], WALL, lines=False, nodes=None, max_nodes=10**6
        ),
    )
    assert max(drawn["level"]) == 20_000
    measured = asked(store, lambda reading: query_depth(reading, [question()], WALL))
    assert measured["sides"][0]["max"] == 20_000
    table = asked(store, lambda reading: query_top(reading, [question()], WALL, by=CostOrder.TOTAL, limit=9))
    assert table["rows"]["function"] == ["leaf", "recurse"]
    assert table["sides"][0]["total_samples"] == [2, 2]


def test_only_the_drawn_tree_is_pruned() -> None:
    text = " | ".join(f"main;f{number} {number}" for number in range(1, 101))
    store = stored([window(text)])
    drawn = asked(
        store,
        lambda reading: query_flame_graph(reading, [question()], WALL, lines=False, nodes=10, max_nodes=1000),
    )
    assert drawn["pruned"] == {"nodes": 92, "limit": 10}
    assert "(other)" in drawn["names"]
    assert sum(drawn["sides"][0]["self_samples"]) == drawn["sides"][0]["samples"] == 5050
    whole = asked(
        store,
        lambda reading: query_flame_graph(
            reading, [question()], WALL, lines=False, nodes=None, max_nodes=1000
        ),
    )
    assert whole["pruned"] == {"nodes": 0, "limit": None}
    table = asked(store, lambda reading: query_top(reading, [question()], WALL, by=CostOrder.SELF, limit=3))
    assert table["rows"]["function"] == ["f100", "f99", "f98"]
    assert table["functions_total"] == 101


def test_where_two_sides_differ_most_in_depth_is_said() -> None:
    store = stored(
        [window("a;b 5 | a;b;c 5", version="1"), window("a;b 1 | a;b;c 1 | a;b;c;d 8", version="2")]
    )
    sides = [question('version="1"'), question('version="2"')]
    found = asked(store, lambda reading: query_depth(reading, sides, WALL))
    assert found["largest_gap"] == {"depth": 3, "gap": 0.8}
    names = ("mean", "p50", "p95", "p99", "max")
    assert [found["sides"][0][name] for name in names] == [2.5, 2, 3, 3, 3]  # type: ignore[literal-required]
    assert [found["sides"][1][name] for name in names] == [3.7, 4, 4, 4, 4]  # type: ignore[literal-required]


def test_a_stack_that_no_table_holds_is_shown_as_missing_and_its_samples_are_kept() -> None:
    store = stored([window("main;work 3 | main;rest 4")])
    ref_key = next(entry.key for entry in store.list("v1/") if entry.key.endswith("stacks.parquet"))
    fewer = stored([window("main;work 3")])
    other_key = next(entry.key for entry in fewer.list("v1/") if entry.key.endswith("stacks.parquet"))
    store.put(ref_key, fewer.get(other_key))
    exported = asked(
        store, lambda reading: export_folded(reading, [question()], WALL, lines=True, states=True)
    )
    assert exported.content.decode() == f"{MISSING_STACK} 4\nmain;work 3\n"


def test_depths_are_read_without_the_frames_of_any_stack() -> None:
    store = stored([window("main;work 3 | main 4")])
    key = next(entry.key for entry in store.list("v1/") if entry.key.endswith("stacks.parquet"))
    table = pq.read_table(pa.BufferReader(store.get(key)))
    store.put(key, encode_parquet(table.drop_columns(["frames"])))
    found = asked(store, lambda reading: query_depth(reading, [question()], WALL))
    assert (found["sides"][0]["depth"], found["sides"][0]["samples_at"]) == ([1, 2], [4, 3])


def _spoil(store: ObjectStore, part: SegmentPart, holding: int) -> None:
    keys = [entry.key for entry in store.list("v1/") if entry.key.endswith(f"{part}.parquet")]
    store.put(keys[holding], b"PAR1 this is not Parquet PAR1")


@few_examples
@given(st.sampled_from(["profiles", "samples", "stacks"]))
def test_a_segment_that_cannot_be_read_is_left_out_whole_and_counted(part: SegmentPart) -> None:
    store = stored([window("main;a 1", at=0)], [window("main;b 10", at=10)], [window("main;c 100", at=20)])
    _spoil(store, part, holding=1)
    counted: list[int] = []
    drawn = asked(
        store,
        lambda reading: query_flame_graph(reading, [question()], WALL, lines=False, nodes=9, max_nodes=9),
        left_out=counted.append,
    )
    assert counted == [1]
    assert (
        drawn["basis"].items() >= {"windows": 2, "pods": 1, "samples": 101, "unreadable_segments": 1}.items()
    )
    assert drawn["sides"][0]["windows"] == 2
    assert sum(drawn["sides"][0]["self_samples"]) == 101


def test_a_window_also_held_by_a_readable_segment_survives_an_unreadable_one() -> None:
    twice = window("main;a 5", at=0)
    store = stored([twice, window("main;b 1", at=5)], [twice, window("main;c 2", at=7)])
    _spoil(store, "samples", holding=0)
    found = asked(store, lambda reading: query_depth(reading, [question()], WALL))
    expected = {"windows": 2, "pods": 1, "samples": 7, "unreadable_segments": 1}
    assert found["basis"].items() >= expected.items()


def _fields(one: Window) -> dict[str, object]:
    return {name: getattr(one, name) for name in Window.__dataclass_fields__}
