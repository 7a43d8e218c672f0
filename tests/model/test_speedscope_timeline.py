"""Threads in time order: nothing of the time is lost, and nothing is shown that was not seen."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
from hypothesis import given
from hypothesis import strategies as st

from sidelight_model.export_formats.speedscope import ThreadTimeline, write_speedscope_timeline
from sidelight_model.folded import Stack, split_stack
from sidelight_model.frames import Frame, unescape_frame
from tests.model.strategies import FEWER, deep, stacks
from tests.model.test_aggregate import SAMPLED

PERIOD = 10
LENGTH = 100
moments = st.lists(st.tuples(st.integers(0, LENGTH + 20), st.none() | stacks), max_size=12).map(
    lambda some: sorted(some, key=lambda moment: moment[0])
)
lanes = st.lists(st.builds(ThreadTimeline, st.text(max_size=5), moments), max_size=3)


def written(*some: ThreadTimeline) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(
        write_speedscope_timeline(some, "shop", "test", period_ns=PERIOD, length_ns=LENGTH)
    )
    return document


@FEWER
@given(lanes)
def test_every_lane_is_as_long_as_the_recording_and_in_order(some: list[ThreadTimeline]) -> None:
    document = written(*some)
    assert [profile["name"] for profile in document["profiles"]] == [lane.name for lane in some]
    for profile in document["profiles"]:
        jsonschema.validate(profile, SAMPLED)
        assert sum(profile["weights"]) == profile["endValue"] == LENGTH
        assert all(weight > 0 for weight in profile["weights"])
        assert len(profile["samples"]) == len(profile["weights"])


@given(moments)
def test_a_stack_is_shown_from_when_it_was_seen_and_no_longer_than_two_periods(
    some: list[tuple[int, Stack | None]],
) -> None:
    document = written(ThreadTimeline("main", some))
    (profile,) = document["profiles"]
    names = document["shared"]["frames"]
    at = 0
    for codes, weight in zip(profile["samples"], profile["weights"], strict=True):
        for moment in range(at, at + weight):
            seen = [stack for when, stack in some if moment - 2 * PERIOD < when <= moment]
            latest = seen[-1] if seen else None
            frames = [Frame.parse(unescape_frame(frame)) for frame in split_stack(latest)] if latest else []
            assert [names[code]["name"] for code in codes] == [frame.function for frame in frames]
        at += weight


def test_neighbours_that_are_the_same_are_one_and_blanks_stay() -> None:
    document = written(
        ThreadTimeline("main", [(0, Stack("a")), (10, Stack("a")), (20, Stack("b")), (50, Stack("a"))])
    )
    (profile,) = document["profiles"]
    assert profile["samples"] == [[0], [1], [], [0], []]
    assert profile["weights"] == [20, 20, 10, 20, 30]


def test_nothing_recurses() -> None:
    (profile,) = written(ThreadTimeline("main", [(0, deep(20_000))]))["profiles"]
    assert len(profile["samples"][0]) == 20_000
