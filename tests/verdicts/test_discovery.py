"""Families of tests, flat and as trees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sidelight.verdicts.discovery import benjamini_hochberg, family, tree_rejections

P = st.floats(0, 1)
SMALL = st.sampled_from([0.0, 1e-6, 1e-3])


@st.composite
def trees(draw: st.DrawFn) -> tuple[list[int], list[float]]:
    """Levels in pre-order and a p of each node."""
    levels = [0]
    for _ in range(draw(st.integers(0, 40))):
        levels.append(draw(st.integers(1, levels[-1] + 1)))
    return levels, draw(st.lists(SMALL | P, min_size=len(levels), max_size=len(levels)))


def rejected(levels: list[int], p: list[float], q: float = 0.05) -> list[bool]:
    return tree_rejections(np.array(levels, np.int32), np.array(p), q).tolist()


@given(st.lists(P, min_size=1, max_size=40))
def test_q_keeps_the_order_of_p_and_is_never_smaller(p: list[float]) -> None:
    q = benjamini_hochberg(p)
    assert (q >= np.array(p) * (1 - 1e-12)).all()
    assert (q <= 1).all()
    assert (np.diff(q[np.argsort(p, kind="stable")]) >= -1e-12).all()


@given(st.lists(P, min_size=1, max_size=40), st.floats(0.01, 0.2))
def test_q_rejects_what_the_step_up_rule_rejects(p: list[float], level: float) -> None:
    ordered = sorted(p)
    most = max([rank for rank, one in enumerate(ordered, 1) if one <= level * rank / len(p)], default=0)
    expected = [most > 0 and one <= ordered[most - 1] for one in p]
    close = np.isclose(benjamini_hochberg(p), level)
    assert [bool(one) for one in (benjamini_hochberg(p) <= level)[~close]] == list(np.array(expected)[~close])


def test_no_number_is_no_discovery() -> None:
    assert benjamini_hochberg([0.001, np.nan]).tolist() == [0.002, 1.0]


def test_a_tree_in_pre_order_has_its_parents_and_the_ends_of_its_subtrees() -> None:
    parent, end = family(np.array([0, 1, 2, 2, 1, 2]))
    assert parent.tolist() == [-1, 0, 1, 1, 0, 4]
    assert end.tolist() == [6, 4, 3, 4, 6, 6]


def test_a_deep_change_is_found_though_all_above_it_drowns_it() -> None:
    """A chain of twenty, the total of whose upper nodes does not show what changed below."""
    levels = [*range(20), 19, 19]
    p = [0.4] * 18 + [1e-4, 1e-6, 0.8, 0.6]
    assert rejected(levels, p) == [False] * 18 + [True, True, False, False]


def test_luck_in_one_leaf_of_many_is_no_change() -> None:
    assert not any(rejected([0, *[1] * 100], [0.5, 0.01, *[0.5] * 99]))


@given(trees())
def test_what_is_rejected_has_a_subtree_above_it_that_something_changed_in(
    tree: tuple[list[int], list[float]],
) -> None:
    levels, p = tree
    parent = family(np.array(levels))[0]
    found = rejected(levels, p)
    below = np.array(p, float)
    for node in range(len(levels) - 1, 0, -1):
        below[parent[node]] = min(below[parent[node]], below[node])
    for node, changed in enumerate(found):
        if changed:
            assert p[node] <= 0.05
            above = parent[node]
            while above >= 0:
                assert below[above] <= 0.05
                above = parent[above]


@given(trees())
def test_a_smaller_level_rejects_no_more(tree: tuple[list[int], list[float]]) -> None:
    strict, wide = rejected(*tree, 0.01), rejected(*tree, 0.05)
    assert all(not one or other for one, other in zip(strict, wide, strict=True))


@given(trees())
def test_a_tree_without_small_p_has_no_rejections(tree: tuple[list[int], list[float]]) -> None:
    levels, p = tree
    assert not any(rejected(levels, [0.051 + one for one in p]))


def test_nothing_is_rejected_of_nothing() -> None:
    assert rejected([], []) == []


def test_a_stack_of_twenty_thousand_frames_is_no_trouble() -> None:
    assert all(rejected(list(range(20_000)), [1e-9] * 20_000))


def test_equal_trees_show_a_change_no_more_often_than_the_level_says() -> None:
    luck = np.random.default_rng(3)
    levels = [0, *[1 + at % 4 for at in range(60)]]
    levels[1:] = [min(level, before + 1) for level, before in zip(levels[1:], levels, strict=False)]
    trials = 600
    share = np.mean([any(rejected(levels, luck.random(len(levels)).tolist())) for _ in range(trials)])
    assert share <= 0.05 + 4 * (0.05 * 0.95 / trials) ** 0.5


def test_all_changed_is_all_found() -> None:
    assert rejected([0, 1, 2, 1, 2, 3], [0.0] * 6) == [True] * 6
    assert rejected([0, 1, 1], [1e-9, 1e-9, 0.9]) == [True, True, False]
    assert pytest.approx(benjamini_hochberg([0.0] * 4)) == [0.0] * 4
