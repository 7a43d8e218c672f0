"""Which functions are one under two names: what a person would match, and what nobody should."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sidelight_collector.statistics.preorder import merge_siblings
from sidelight_collector.statistics.renames.function_matching import match_functions
from sidelight_collector.statistics.renames.function_rename import (
    FunctionRename,
    RenameReason,
    compute_canonical_ids,
)
from sidelight_collector.statistics.renames.unmatched_functions import find_unmatched
from sidelight_model.frames import Frame, strip_line_number
from sidelight_model.tree import StackRow, build_tree_from_rows, compute_totals
from sidelight_model.tree import Tree as Stacks

LINES = "main (app.py:5);"


def rows(text: str, scale: int = 100) -> list[StackRow]:
    """Stacks as text: `frame;frame samples | …`, so many samples for each that is written."""
    found: list[StackRow] = []
    for part in text.split("|"):
        stack, _, count = part.strip().rpartition(" ")
        found.append((stack.split(";"), int(count) * scale, int(count) * scale * 10_000_000))
    return found


def folded(stacks: list[StackRow]) -> list[StackRow]:
    return [([strip_line_number(frame) for frame in frames], samples, ns) for frames, samples, ns in stacks]


def matched(before: str, after: str, scale: int = 100) -> list[FunctionRename]:
    sides = rows(before, scale), rows(after, scale)
    tree = build_tree_from_rows([folded(side) for side in sides])
    lines: defaultdict[str, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
    for at, side in enumerate(sides):
        for frames, _, _ in side:
            for frame in frames:
                if line := Frame.parse(frame).line:
                    lines[strip_line_number(frame)][at].add(line)
    seconds = [np.array(compute_totals(tree, side, "ns"), float) / 1e9 for side in (0, 1)]
    samples = [_of_functions(side, tree.names) for side in sides]
    per_rate = [
        float(sum(row[1] for row in side)) / max(own[0], 1) for side, own in zip(sides, seconds, strict=True)
    ]
    between = find_unmatched(tree.names, (samples[0], samples[1]), (per_rate[0], per_rate[1]))
    level, name = np.array(tree.level), np.array(tree.name_index)
    return match_functions(tree.names, level, name, (seconds[0], seconds[1]), between, lines)


def _of_functions(side: list[StackRow], names: Sequence[str]) -> NDArray[np.float64]:
    """In how many samples each function is, once for a stack."""
    found = dict.fromkeys(names, 0.0)
    for frames, samples, _ in folded(side):
        for frame in set(frames):
            found[frame] += samples
    return np.array(list(found.values()))


def said(before: str, after: str, scale: int = 100) -> list[str]:
    return [f"{one.old} -> {one.new}: {one.reason}" for one in matched(before, after, scale)]


def test_a_leaf_at_the_same_place_under_another_name_is_the_same() -> None:
    assert said("main (app.py:5);old (app.py:21) 9 | main (app.py:5) 1",
                "main (app.py:5);new (app.py:23) 9 | main (app.py:5) 1") == [
        f"old (app.py) -> new (app.py): {RenameReason.SAME_PLACE}"
    ]  # fmt: skip


def test_lines_that_moved_with_all_that_is_around_them_are_the_same_place() -> None:
    before = "main (app.py:5);first (app.py:20);old (app.py:41) 5 | main (app.py:5);last (app.py:90) 5"
    after = "main (app.py:5);first (app.py:420);new (app.py:443) 5 | main (app.py:5);last (app.py:490) 5"
    assert said(before, after) == [f"old (app.py) -> new (app.py): {RenameReason.SAME_PLACE}"]


def test_what_calls_the_same_is_the_same_where_lines_are_not_known() -> None:
    assert said("main (app.py);old (app.py);query (db.py) 6 | main (app.py);old (app.py);log (l.py) 2",
                "main (app.py);new (app.py);query (db.py) 7 | main (app.py);new (app.py);log (l.py) 2") == [
        f"old (app.py) -> new (app.py): {RenameReason.SAME_CALLEES}"
    ]  # fmt: skip


def test_a_leaf_without_lines_is_not_guessed_at() -> None:
    assert said("main (app.py);old (app.py) 9", "main (app.py);new (app.py) 9") == []


def test_a_rename_that_got_slower_is_a_rename() -> None:
    before = "main (a.py:5);old (a.py:21) 5 | main (a.py:9);rest (a.py:80) 5"
    after = "main (a.py:5);new (a.py:21) 15 | main (a.py:9);rest (a.py:80) 5"
    assert said(before, after) == [f"old (a.py) -> new (a.py): {RenameReason.SAME_PLACE}"]


def test_a_module_that_moved_is_followed_from_where_it_is_entered() -> None:
    before = (
        "main (a.py);load (old/io.py);parse (old/io.py);token (old/io.py) 6 | main (a.py);save (old/io.py) 3"
    )
    after = (
        "main (a.py);load (new/io.py);parse (new/io.py);token (new/io.py) 6 | main (a.py);save (new/io.py) 3"
    )
    assert said(before, after) == [
        f"{name} (old/io.py) -> {name} (new/io.py): {RenameReason.OTHER_FILE}"
        for name in ("load", "parse", "save", "token")
    ]


def test_a_renamed_function_among_renamed_callees_is_found_after_them() -> None:
    before = "main (a.py:2);old (a.py:10);deep_old (b.py:30) 9"
    after = "main (a.py:2);new (a.py:10);deep_new (b.py:30) 9"
    # Neither is alike before the other is: what it calls is other, and what calls it is.
    assert said(before, after) == []
    before += " | main (a.py:3);deep_old (b.py:30) 20"
    after += " | main (a.py:3);deep_new (b.py:30) 20"
    assert said(before, after) == [
        f"old (a.py) -> new (a.py): {RenameReason.SAME_PLACE}",
        f"deep_old (b.py) -> deep_new (b.py): {RenameReason.SAME_PLACE}",
    ]


def test_neighbours_that_take_turns_are_two_functions() -> None:
    # Both are there in both versions, one ran at night and one by day: their lines never meet.
    before = "main (a.py:5);nightly (a.py:20) 5 | main (a.py:5);nightly (a.py:24) 5"
    after = "main (a.py:5);daily (a.py:28) 5 | main (a.py:5);daily (a.py:31) 5"
    assert said(before, after) == []


def test_chance_renames_nothing() -> None:
    luck = np.random.default_rng(12)
    weights = luck.pareto(1.0, 300) + 0.01
    for _ in range(20):
        sides = [
            " | ".join(
                f"main (a.py:5);f{at} (m{at % 7}.py:{at + 3 * (at % 5)}) {count}"
                for at, count in enumerate(luck.poisson(weights * 20))
                if count
            )
            for _ in range(2)
        ]
        assert said(*sides, scale=1) == []


def test_two_new_functions_as_near_are_not_told_apart() -> None:
    before = "main (a.py:5);old (a.py:20) 9"
    after = "main (a.py:5);one (a.py:19) 5 | main (a.py:5);two (a.py:22) 4"
    assert said(before, after) == []


def test_a_function_that_was_split_in_two_is_no_rename() -> None:
    before = "main (a.py:5);old (a.py:20) 9"
    after = "main (a.py:5);fast (a.py:20) 5 | main (a.py:5);slow (a.py:90) 4"
    assert said(before, after) == []


def test_two_functions_that_became_one_are_no_rename() -> None:
    before = "main (a.py:5);fast (a.py:20) 5 | main (a.py:5);slow (a.py:90) 4"
    after = "main (a.py:5);both (a.py:20) 9"
    assert said(before, after) == []


def test_a_small_helper_beside_a_renamed_function_does_not_hide_it() -> None:
    before = "main (a.py:5);old (a.py:20) 9"
    after = "main (a.py:5);new (a.py:20) 9 | main (a.py:5);helper (a.py:90) 1"
    assert said(before, after) == [f"old (a.py) -> new (a.py): {RenameReason.SAME_PLACE}"]


def test_two_renamed_neighbours_are_matched_in_their_order() -> None:
    before = "main (a.py:5);one (a.py:20) 5 | main (a.py:6);two (a.py:24) 5"
    after = "main (a.py:5);eins (a.py:20) 5 | main (a.py:6);zwei (a.py:24) 5"
    assert said(before, after) == [
        f"one (a.py) -> eins (a.py): {RenameReason.SAME_PLACE}",
        f"two (a.py) -> zwei (a.py): {RenameReason.SAME_PLACE}",
    ]


def test_what_calls_something_else_is_another_function_wherever_it_stands() -> None:
    assert said("main (a.py:5);old (a.py:20);query (db.py:7) 9",
                "main (a.py:5);new (a.py:20);render (html.py:7) 9") == []  # fmt: skip


def test_what_is_called_by_others_is_another_function() -> None:
    before = "main (a.py:5);search (a.py:50);old (a.py:20) 9 | main (a.py:5);cart (a.py:70) 9"
    after = "main (a.py:5);search (a.py:50) 9 | main (a.py:5);cart (a.py:70);new (a.py:20) 9"
    assert said(before, after) == []


def test_names_that_many_functions_have_are_no_evidence() -> None:
    for name in ("<lambda>", "wrapper", "Cached.__call__"):
        assert said(f"main (a.py);{name} (b.py) 9", f"main (a.py);{name} (c.py) 9") == []
        # With the same body, that is what it calls, they are.
        assert said(f"main (a.py);{name} (b.py);go (x.py) 9", f"main (a.py);{name} (c.py);go (x.py) 9") == [
            f"{name} (b.py) -> {name} (c.py): {RenameReason.OTHER_FILE}"
        ]


def test_functions_that_were_seldom_seen_are_not_gone_for_sure() -> None:
    before = "main (a.py:5);old (a.py:20) 1 | main (a.py:5) 99"
    after = "main (a.py:5);new (a.py:20) 1 | main (a.py:5) 99"
    assert said(before, after, scale=9) == []
    assert len(said(before, after, scale=10)) == 1


def test_frames_without_a_file_are_never_matched() -> None:
    assert said("main (a.py);(other);q (a.py) 9", "main (a.py);(truncated);q (a.py) 9") == []


def test_siblings_of_one_name_become_one_node_with_all_below_them() -> None:
    tree = build_tree_from_rows([rows("m;old;a 1 | m;old;b 2 | m;z 4", 1), rows("m;new;a 3 | m;new;c 5", 1)])
    one = compute_canonical_ids(tree.names, [FunctionRename("old", "new", 1.0, RenameReason.SAME_PLACE)])
    level, name, place = merge_siblings(tree.names, np.array(tree.level), np.array(one)[tree.name_index])
    samples = [np.bincount(place, side, len(level)).astype(int).tolist() for side in tree.self_samples]
    expected = build_tree_from_rows(
        [rows("m;new;a 1 | m;new;b 2 | m;z 4", 1), rows("m;new;a 3 | m;new;c 5", 1)]
    )
    assert [tree.names[code] for code in name] == [expected.names[code] for code in expected.name_index]
    assert level.tolist() == list(expected.level)
    assert samples == [list(side) for side in expected.self_samples]


def test_a_tree_of_20000_levels_is_joined() -> None:
    tree = build_tree_from_rows(
        [rows(";".join(["m", "old", *["f"] * 20_000]) + " 1", 1), rows("m;new;f 1", 1)]
    )
    one = compute_canonical_ids(tree.names, [FunctionRename("old", "new", 1.0, RenameReason.SAME_PLACE)])
    level, _, place = merge_siblings(tree.names, np.array(tree.level), np.array(one)[tree.name_index])
    assert (len(level), int(level[-1])) == (20_003, 20_002)
    assert len(place) == len(tree)


@st.composite
def stacks(draw: st.DrawFn) -> list[StackRow]:
    frames = st.sampled_from(
        [f"{name} ({file}.py:{line})" for name in "abcd" for file in "xy" for line in (1, 40)]
    )
    found = draw(
        st.lists(st.tuples(st.lists(frames, min_size=1, max_size=5), st.integers(1, 99)), min_size=1)
    )
    return [(stack, count, count * 10_000_000) for stack, count in found]


@settings(max_examples=40)
@given(stacks())
def test_sides_with_the_same_functions_have_no_renames(side: list[StackRow]) -> None:
    text = " | ".join(f"{';'.join(frames)} {samples}" for frames, samples, _ in side)
    assert matched(text, text) == []


@settings(max_examples=40)
@given(stacks(), stacks())
def test_each_function_is_matched_once_and_only_if_it_is_gone_and_new(
    one: list[StackRow], two: list[StackRow]
) -> None:
    texts = [
        " | ".join(f"{';'.join(frames)} {samples}" for frames, samples, _ in side) for side in (one, two)
    ]
    before, after = ({strip_line_number(f) for frames, _, _ in side for f in frames} for side in (one, two))
    found = matched(*texts)
    assert len({pair.old for pair in found}) == len({pair.new for pair in found}) == len(found)
    for pair in found:
        assert pair.old in before - after
        assert pair.new in after - before
        assert 0 < pair.score <= 1 + 1e-9
    # Turned around it is the same story backwards.
    assert {(pair.new, pair.old) for pair in matched(*texts[::-1])} == {
        (pair.old, pair.new) for pair in found
    }


@settings(max_examples=40)
@given(stacks(), st.permutations(["p", "q"]))
def test_joining_keeps_every_sample_and_the_order_of_names(side: list[StackRow], pair: list[str]) -> None:
    tree: Stacks = build_tree_from_rows([folded(side)])
    luck = np.random.default_rng(len(side))
    codes = np.array([0, *luck.integers(1, len(tree.names), len(tree.names) - 1)])[np.array(tree.name_index)]
    level, name, place = merge_siblings(tree.names, np.array(tree.level), codes)
    renamed = [([tree.names[code] for code in path], samples, 0) for path, samples in _paths(tree, codes)]
    expected = build_tree_from_rows([renamed])
    assert level.tolist() == list(expected.level)
    assert [tree.names[code] for code in name] == [expected.names[code] for code in expected.name_index]
    assert np.bincount(place, tree.self_samples[0], len(level)).tolist() == list(expected.self_samples[0])


def _paths(tree: Stacks, codes: np.ndarray) -> list[tuple[list[int], int]]:  # type: ignore[type-arg]
    path: list[int] = []
    found = []
    for node, depth in enumerate(tree.level):
        del path[depth:]
        path.append(int(codes[node]))
        found.append((path[1:], tree.self_samples[0][node]))
    return found
