"""Answers about some stacks only are what is added up of these stacks alone, by whatever they are picked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.answers.flame import query_flame_graph
from sidelight_collector.answers.top_and_depth import CostOrder, query_depth, query_top
from sidelight_collector.query.stack_filter import StackFilter, build_focus
from sidelight_model.aggregate import rank_functions
from sidelight_model.counts import ProfileType
from sidelight_model.folded import split_stack
from sidelight_model.frames import Frame, strip_line_number, unescape_frame
from sidelight_model.profile import Profile
from sidelight_model.window import Window
from tests.collector.api_client import get, refused, serving
from tests.collector.stored_windows import asked, few_examples, question, stored, window
from tests.collector.test_query_sums import near, read_back, scattered
from tests.model.reference_profiles import build_profile_tree, count_depths, merge_windows, render_outline

WALL = ProfileType.WALL
kinds = st.sampled_from(ProfileType)
bounds = st.one_of(st.none(), st.integers(1, 7))


def kept(profile: Profile, is_kept: Any) -> Profile:
    """The stacks of a profile that a test says yes to, given their frames as people read them."""
    stacks = [stack for stack in profile.samples if is_kept(split_stack(stack))]
    return Profile(
        {stack: profile.samples[stack] for stack in stacks},
        {stack: profile.times_ns[stack] for stack in stacks},
    )


def plain(frames: Sequence[str]) -> list[str]:
    return [unescape_frame(strip_line_number(frame)) for frame in frames]


@few_examples
@given(scattered(), kinds, bounds, bounds)
def test_a_band_of_depths_is_what_its_stacks_add_up_to(
    case: tuple[list[Window], list[list[Window]]], kind: ProfileType, least: int | None, most: int | None
) -> None:
    windows, segments = case
    store, asked_for = stored(*segments), question(start=-2000, end=2000)
    pick = StackFilter(min_depth=least, max_depth=most)
    whole = merge_windows(windows)
    expected = kept(whole, lambda frames: (least or 0) <= len(frames) <= (most or 99))

    measured = asked(store, lambda reading: query_depth(reading, [asked_for], kind, stack_filter=pick))[
        "sides"
    ][0]
    own = count_depths(expected.rows(kind))
    assert dict(zip(measured["depth"], measured["samples_at"], strict=True)) == own.samples
    assert measured["samples"] == own.total
    assert measured["seconds"] == pytest.approx(sum(ns for _, _, ns in expected.rows(kind)) / 1e9)

    def picture(reading: Any) -> Any:
        return query_flame_graph(
            reading, [asked_for], kind, lines=True, nodes=None, max_nodes=10**6, stack_filter=pick
        )

    grown = build_profile_tree(expected, kind=kind, lines=True)
    named = replace(grown, names=[unescape_frame(name) for name in grown.names])
    assert render_outline(read_back(asked(store, picture))) == render_outline(named)

    table = asked(
        store,
        lambda reading: query_top(
            reading, [asked_for], kind, by=CostOrder.TOTAL, limit=999, stack_filter=pick
        ),
    )
    costs = rank_functions([expected.rows(kind, lines=False)])
    assert dict(zip(texts(table["rows"]), table["sides"][0]["total_samples"], strict=True)) == {
        unescape_frame(frame): cost[0].total_samples for frame, cost in costs.items()
    }


def texts(rows: Any) -> list[str]:
    both = zip(rows["function"], rows["file"], strict=True)
    return [Frame(function, file).text for function, file in both]


@few_examples
@given(st.lists(near, min_size=1, max_size=5, unique_by=lambda one: one.id), kinds, st.data())
def test_stacks_with_a_function_or_below_a_call_path_are_found_by_their_frames(
    windows: list[Window], kind: ProfileType, data: st.DataObject
) -> None:
    store, asked_for = stored(windows), question(start=-2000, end=2000)
    whole = merge_windows(windows)
    stacks = [plain(split_stack(stack)) for stack in whole.samples] or [["nothing"]]
    path = data.draw(st.sampled_from(stacks))
    path = path[: data.draw(st.integers(1, len(path)))]

    def samples(pick: StackFilter) -> dict[int, int]:
        side = asked(store, lambda reading: query_depth(reading, [asked_for], kind, stack_filter=pick))[
            "sides"
        ][0]
        return dict(zip(side["depth"], side["samples_at"], strict=True))

    function = Frame.parse(path[-1]).function
    with_it = kept(
        whole,
        lambda frames: any(path[-1] == one or path[-1] == Frame.parse(one).function for one in plain(frames)),
    )
    assert samples(StackFilter(function=path[-1])) == count_depths(with_it.rows(kind)).samples
    by_name = kept(
        whole,
        lambda frames: any(function in (one, Frame.parse(one).function) for one in plain(frames)),
    )
    assert samples(StackFilter(function=function)) == count_depths(by_name.rows(kind)).samples
    below = kept(whole, lambda frames: plain(frames)[: len(path)] == path)
    assert samples(StackFilter(focus=build_focus(path))) == count_depths(below.rows(kind)).samples


def test_the_word_of_a_call_path_is_that_of_the_pages() -> None:
    vectors = json.loads((Path(__file__).parents[2] / "web/test/vectors/focus.json").read_text())
    assert len(vectors) >= 12
    for names, word in vectors:
        assert build_focus(names) == word


STACKS = (
    "main (a.py:1);work (b.py:2);deep (c.py:3) 5 | main (a.py:4);work (b.py:9) 3 | main (a.py:1);[idle] 2"
)


async def test_a_call_path_may_be_named_with_its_lines() -> None:
    store = stored([window(STACKS)])
    path = ["main (a.py:1)", "work (b.py:2)"]
    async with serving(store) as client:
        with_lines = await get(client, "depth", focus=build_focus(path))
        without = await get(client, "depth", focus=build_focus([strip_line_number(one) for one in path]))
    assert with_lines["sides"][0]["samples"] == 5
    assert without["sides"][0]["samples"] == 8


async def test_picks_narrow_each_other_and_both_sides() -> None:
    store = stored([window(STACKS), window(STACKS, version="2"), window(STACKS, version="2", at=20)])
    given_ = {"query": 'service="shop"', "baseline": 'version="1"', "comparison": 'version="2"'}
    async with serving(store) as client:
        found = await get(client, "compare", **given_, function="work (b.py)", min_depth="3", max_depth="3")
        assert [side["samples"] for side in found["sides"]] == [5, 10]
        assert [sum(side["self_samples"]) for side in found["sides"]] == [5, 10]
        assert found["names"] == ["total", "main (a.py)", "work (b.py)", "deep (c.py)"]
        none = await get(client, "flamegraph", min_depth="9")
    assert (none["sides"][0]["samples"], none["sides"][0]["seconds"], none["level"]) == (0, 0.0, [0])
    assert none["basis"]["samples"] == 30


async def test_a_question_about_other_stacks_is_another_question() -> None:
    async with serving(stored([window(STACKS)])) as client:
        found = [
            (await get(client, "depth", **given_))["sides"][0]["samples"]
            for given_ in ({}, {"min_depth": "3"}, {"max_depth": "1"}, {"function": "work"}, {})
        ]
    assert found == [10, 5, 2, 8, 10]


async def test_bounds_that_hold_nothing_and_words_that_are_none_are_refused() -> None:
    async with serving(stored([window(STACKS)])) as client:
        for given_ in (
            {"min_depth": "4", "max_depth": "3"},
            {"min_depth": "0"},
            {"max_depth": "-1"},
            {"max_depth": "all"},
            {"focus": "main"},
            {"focus": "0123456789abcdef."},
        ):
            status, body = await refused(client, "depth", **given_)
            assert (status, body["error"]) == (400, "bad_parameter")
        assert (await get(client, "depth", min_depth="3", max_depth="3"))["sides"][0]["samples"] == 5
