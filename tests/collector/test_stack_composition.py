"""What stacks are made of, held against counting one frame after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight_collector.answers.stack_composition import StackComposition, query_stack_composition
from sidelight_collector.query import stack_paths
from sidelight_collector.query.stack_filter import NO_FILTER, StackFilter
from sidelight_model.counts import Counts, ProfileType
from sidelight_model.folded import join_frames, split_stack
from sidelight_model.frames import Frame, strip_line_number, unescape_frame
from sidelight_model.packages import classify_frame
from sidelight_model.window import Window
from tests.collector.api_client import get, serving
from tests.collector.stored_windows import asked, few_examples, question, stored, window
from tests.model.reference_profiles import merge_windows
from tests.model.strategies import counts, deep

WALL = ProfileType.WALL
FRAMES = ["main (app.py:9)", "main (app.py:10)", "get (dj/x.py:1)", "put (dj/y.py:1)", "c (json/d.py:2)"]
tables = st.dictionaries(
    st.lists(st.sampled_from([*FRAMES, "total", "x%3By (a%0Ab.py)"]), min_size=1, max_size=8).map(
        join_frames
    ),
    counts,
    max_size=8,
)
sides = st.lists(tables, min_size=1, max_size=3)


def windows(found: Sequence[Any], version: str) -> list[Window]:
    return [replace(window(version=version), counts=one) for one in found]


def made_of(
    *versions: Sequence[Window], kind: ProfileType = WALL, pick: StackFilter = NO_FILTER, limit: int = 999
) -> StackComposition:
    store = stored(*versions)
    asked_for = [question(f'version="{one}"') for one in "12"[: len(versions)]]
    return asked(
        store,
        lambda reading: query_stack_composition(reading, asked_for, kind, stack_filter=pick, limit=limit),
    )


def plain(windows_: Iterable[Window], kind: ProfileType) -> list[tuple[tuple[str, ...], int]]:
    """Stacks as people read them, without lines, with their samples."""
    found: Counter[tuple[str, ...]] = Counter()
    whole = merge_windows(windows_)
    for stack, count in whole.samples.items():
        if count.for_type(kind):
            found[tuple(unescape_frame(strip_line_number(frame)) for frame in split_stack(stack))] += (
                count.for_type(kind)
            )
    return list(found.items())


def functions(answer: StackComposition) -> list[str]:
    both = zip(answer["functions"]["function"], answer["functions"]["file"], strict=True)
    return [Frame(function, file).text for function, file in both]


@few_examples
@given(sides, sides, st.sampled_from(ProfileType), st.integers(1, 3))
def test_packages_recursion_and_new_stacks_are_what_counting_by_hand_gives(
    first: list[Any], second: list[Any], kind: ProfileType, at_once: int
) -> None:
    whole, stack_paths.MAX_BATCH_STACKS = stack_paths.MAX_BATCH_STACKS, at_once  # type: ignore[misc]
    try:
        both = windows(first, "1"), windows(second, "2")
        answer = made_of(*both, kind=kind)
    finally:
        stack_paths.MAX_BATCH_STACKS = whole  # type: ignore[misc]
    for side, own in zip(answer["sides"], both, strict=True):
        stacks = plain(own, kind)
        samples = sum(count for _, count in stacks)
        mean: Counter[str] = Counter()
        recurring: dict[str, list[tuple[int, int]]] = {}
        for frames, count in stacks:
            for frame in frames:
                mean[classify_frame(frame).name] += count
            for frame, times in Counter(frames).items():
                if times > 1:
                    recurring.setdefault(frame, []).append((times, count))
        found = dict(zip(answer["packages"]["package"], side["package_frames"], strict=True))
        assert {name: value for name, value in found.items() if value} == pytest.approx(
            {name: value / samples for name, value in mean.items()}
        )
        columns = zip(
            functions(answer),
            side["recursive_samples"],
            side["recursive_frames"],
            side["recursive_max"],
            strict=True,
        )
        assert {name: row for name, *row in columns if row != [0, 0, 0]} == {
            name: [
                sum(count for _, count in rows),
                sum(times * count for times, count in rows),
                max(times for times, _ in rows),
            ]
            for name, rows in recurring.items()
        }
    paths = {frames[:end] for frames, _ in plain(both[0], kind) for end in range(1, len(frames) + 1)}
    new = {frames: count for frames, count in plain(both[1], kind) if frames not in paths}
    deepest = [tuple(answer["names"][at] for at in one["frames"]) for one in answer["deepest"]]
    assert dict(zip(deepest, (one["samples"] for one in answer["deepest"]), strict=True)) == new
    assert [one["depth"] for one in answer["deepest"]] == sorted(map(len, deepest), reverse=True)
    assert answer["totals"] == {
        "packages": len(answer["packages"]["package"]),
        "functions": len(functions(answer)),
        "stacks": len(new),
    }


def test_the_heaviest_come_first_and_the_rest_is_counted() -> None:
    text = "a (a/a.py);b (b/b.py);b (b/b.py) 5 | a (a/a.py);c (c/c.py);c (c/c.py);c (c/c.py) 7 | a (a/a.py) 1"
    answer = made_of([window(text)], limit=1)
    assert answer["totals"] == {"packages": 3, "functions": 2, "stacks": 3}
    assert (answer["packages"], answer["names"]) == (
        {"package": ["c"], "kind": ["package"]},
        ["a (a/a.py)", "c (c/c.py)"],
    )
    assert functions(answer) == ["c (c/c.py)"]
    assert answer["deepest"] == [{"depth": 4, "samples": 7, "frames": [0, 1, 1, 1]}]
    side = answer["sides"][0]
    assert (side["recursive_samples"], side["recursive_frames"], side["recursive_max"]) == ([7], [21], [3])
    assert side["package_frames"] == [pytest.approx(21 / 13)]


def test_a_stack_of_which_the_other_side_has_a_longer_one_is_not_new() -> None:
    answer = made_of([window("a;b;c 1")], [window("a;b 1 | a;b;d 1 | a;c 1", version="2")])
    deepest = [[answer["names"][at] for at in one["frames"]] for one in answer["deepest"]]
    assert deepest == [["a", "b", "d"], ["a", "c"]]


def test_lines_that_moved_make_no_stack_new() -> None:
    answer = made_of([window("f (a.py:1);g (a.py:2) 1")], [window("f (a.py:5);g (a.py:9) 1", version="2")])
    assert (answer["deepest"], answer["totals"]["stacks"]) == ([], 0)


def test_a_stack_of_20_000_frames_is_taken_apart() -> None:
    one = replace(window(), counts={deep(20_000): window("m 2").total})
    answer = made_of([one])
    side = answer["sides"][0]
    assert side["recursive_max"] == [19_999]
    assert side["package_frames"] == [20_000]
    assert len(answer["deepest"][0]["frames"]) == 20_000


def test_more_frames_than_whole_numbers_can_count_are_counted_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = replace(window(), counts={deep(1000): Counts(running=10**9)})
    exact = made_of([one])["sides"][0]
    monkeypatch.setattr("sidelight_collector.answers.stack_composition.MAX_INT", 10**9)
    assert made_of([one])["sides"][0] == exact
    assert (exact["package_frames"], exact["recursive_frames"]) == ([1000], [999 * 10**9])


async def test_the_answer_is_about_the_picked_stacks_only() -> None:
    text = "main (app.py:1);get (django/x.py:1);get (django/x.py:1) 5 | main (app.py:2) 5"
    async with serving(stored([window(text)])) as client:
        whole = await get(client, "stack-composition")
        deep_ones = await get(client, "stack-composition", min_depth="2", limit="5")
    assert dict(zip(whole["packages"]["package"], whole["sides"][0]["package_frames"], strict=True)) == {
        "django": 1.0,
        "app": 1.0,
    }
    assert deep_ones["sides"][0]["package_frames"] == [2.0, 1.0]
    assert deep_ones["packages"]["kind"] == ["package", "package"]
    assert deep_ones["sides"][0]["samples"] == 5
